"""What a producer holds until it is acknowledged: batches, their order, and what a failure means.

No I/O and no clock: the shell (client/msgpack/producer.py) says what time it is, sends what `take`
returns and reports what came of it. The states of a batch:

    filling -> queued -> under way -> acknowledged          `base_offset` is set
        (linger_ms, size)  ^      |
                           +- retry, in its place
                                  +-> failed                `error` is set

Order. A partition without idempotence has one batch under way, always its first. With it there are
up to IN_FLIGHT_MAX, as the broker refuses what does not follow in sequence
(OUT_OF_ORDER_SEQUENCE_NUMBER), but one alone

 - until the broker has acknowledged one of this producer id: of a producer that it does not know,
   it takes any sequence as the first (Kafka: ProducerAppendInfo);
 - after a failure, when all that was under way has been answered: the retry of the first must not
   meet the second on the way.

Never twice (idempotent). A batch gets its producer id and sequence when it is first taken, and
keeps its bytes: the broker knows the last five of a producer and answers a repetition with the
first one's offset. The answer that the partition's first batch is out of order says that it is not
in the log, and neither is what follows it: then all of them begin anew in the next epoch of the
producer (KIP-360), where the broker takes nothing of the one before (`out_of_order`).

A batch that was refused was not appended: with none behind it, the next takes its sequence. One
that failed after an attempt without an answer may have been appended: its epoch is not used again.

Bounded. `room` says whether a record fits in `buffer_bytes`; waiting for it is the shell's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from client.places import Place
from protocol.records import HEADER_SIZE, Record, build

IN_FLIGHT_MAX: Final = 5  # what a broker remembers of a producer (Kafka: ProducerStateEntry)
RECORD_OVERHEAD_BYTES: Final = 24  # a record's own numbers, and more than they take
_SEQUENCE_END: Final = 1 << 31
_EPOCH_MAX: Final = (1 << 15) - 1


class DeliveryError(Exception):
    """A record was not acknowledged; the text says why, and what may have become of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How records are gathered. `codec` is a batch's (protocol/compression.py)."""

    batch_bytes: int = 256 * 1024
    linger_ms: int = 5
    buffer_bytes: int = 32 * 1024 * 1024
    codec: int = 0
    idempotent: bool = True
    delivery_ms: int = 120_000
    request_bytes: int = 1024 * 1024  # Kafka's max.request.size
    retry_ms: int = 100  # Kafka's retry.backoff.ms and retry.backoff.max.ms
    retry_ms_max: int = 1_000


@dataclass(slots=True, eq=False)
class Batch:
    """Records for one place. `attempts` counts sendings; `packed` is fixed by the first.

    `unsure`: an attempt ended without an answer that says it was not appended. `trouble`: what
    became of the last attempt, as a sentence.
    """

    place: Place
    created_ms: float
    records: list[Record] = field(default_factory=list)
    size_bytes: int = HEADER_SIZE
    attempts: int = 0
    under_way: bool = False
    unsure: bool = False
    retry_ms: float = 0
    identity: tuple[int, int] = (-1, -1)
    base_sequence: int = -1
    packed: bytes = b""
    base_offset: int = -1
    trouble: str = ""
    error: DeliveryError | None = None


@dataclass(slots=True)
class _Lane:
    """A partition's batches in order, the last one filling; and what the next one sent gets.

    `is_known`: the broker has acknowledged the first of those under way, under `identity`.
    """

    batches: deque[Batch] = field(default_factory=deque)
    under_way: int = 0
    identity: tuple[int, int] | None = None
    next_sequence: int = 0
    is_known: bool = False


def record_bytes(record: Record) -> int:
    """Return what a record takes of the bound, a little more than it will take packed."""
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for key, value in record.headers:
        size += 2 * len(key) + len(value or b"") + 8
    return size


class Unacknowledged:
    """All batches of one producer. Times are ms of any clock that does not go back."""

    def __init__(self, settings: ProducerSettings) -> None:
        self.settings = settings
        self.buffered_bytes = 0
        self.identity: tuple[int, int] | None = None
        self._lanes: dict[Place, _Lane] = {}

    @property
    def is_empty(self) -> bool:
        """Whether everything has been acknowledged or has failed."""
        return not any(lane.batches for lane in self._lanes.values())

    def room(self, size_bytes: int) -> bool:
        """Whether a record of this size may be added; one alone always may."""
        return not self.buffered_bytes or (
            self.buffered_bytes + size_bytes <= self.settings.buffer_bytes
        )

    def add(self, place: Place, record: Record, now_ms: float) -> tuple[Batch, int]:
        """Put a record behind those of its place; return its batch and its index there."""
        size = record_bytes(record)
        lane = self._lanes.setdefault(place, _Lane())
        batch = lane.batches[-1] if lane.batches else None
        if batch is None or batch.attempts or batch.size_bytes + size > self.settings.batch_bytes:
            batch = Batch(place, now_ms)
            lane.batches.append(batch)
            self.buffered_bytes += HEADER_SIZE
        batch.records.append(record)
        batch.size_bytes += size
        self.buffered_bytes += size
        return batch, len(batch.records) - 1

    def take(self, now_ms: float, *, flush: bool = False) -> list[Batch]:
        """Return what is due, at most one batch of a place and about `request_bytes`.

        They are under way from now on. Due is what is full, has lingered, or is asked for by
        `flush`, unless it waits for its retry. An idempotent producer needs its `identity` before.
        """
        taken: list[Batch] = []
        size_bytes = 0
        for place, lane in list(self._lanes.items()):
            batch = self._next(lane)
            if batch is None or self._due_ms(lane, batch, flush=flush) > now_ms:
                continue
            size_bytes += batch.size_bytes
            if taken and size_bytes > self.settings.request_bytes:
                break
            if not batch.packed:
                self._seal(lane, batch)
            batch.attempts += 1
            batch.under_way = True
            lane.under_way += 1
            taken.append(batch)
            self._lanes[place] = self._lanes.pop(place)  # everyone has a turn at the front
        return taken

    def due_ms(self, *, flush: bool = False) -> float | None:
        """Return when `take` has something next, or None if only an answer or a record can tell."""
        waiting = [
            self._due_ms(lane, batch, flush=flush)
            for lane in self._lanes.values()
            if (batch := self._next(lane)) is not None
        ]
        return min(waiting, default=None)

    def _next(self, lane: _Lane) -> Batch | None:
        """Return the batch that may be sent next, due or not."""
        if lane.under_way >= (IN_FLIGHT_MAX if lane.is_known else 1):
            return None
        for batch in lane.batches:
            if not batch.under_way:
                is_new_id = not batch.packed and lane.identity != self.identity
                return None if is_new_id and lane.under_way else batch
        return None

    def _due_ms(self, lane: _Lane, batch: Batch, *, flush: bool) -> float:
        if batch.attempts:
            return batch.retry_ms
        is_full = lane.batches[-1] is not batch or batch.size_bytes >= self.settings.batch_bytes
        # When memory is out, waiting for more records would be waiting for what cannot come.
        is_full = is_full or 2 * self.buffered_bytes > self.settings.buffer_bytes
        return batch.created_ms + (0 if flush or is_full else self.settings.linger_ms)

    def _seal(self, lane: _Lane, batch: Batch) -> None:
        if self.settings.idempotent:
            assert self.identity is not None, "an idempotent producer has its id before it sends"
            if lane.identity != self.identity:
                lane.identity = self.identity
                lane.next_sequence = 0
                lane.is_known = False
            batch.identity = self.identity
            batch.base_sequence = lane.next_sequence
            lane.next_sequence = (lane.next_sequence + len(batch.records)) % _SEQUENCE_END
        batch.packed = bytes(
            build(
                batch.records,
                codec=self.settings.codec,
                leader_epoch=-1,
                producer_id=batch.identity[0],
                producer_epoch=batch.identity[1],
                base_sequence=batch.base_sequence,
            )
        )

    def succeed(self, batch: Batch, base_offset: int) -> None:
        """Close a batch that was appended; `base_offset` is -1 where nobody said."""
        batch.base_offset = base_offset
        lane = self._lanes[batch.place]
        if lane.batches[0] is batch and lane.identity == batch.identity:
            lane.is_known = self.settings.idempotent
        self._close(lane, batch)

    def retry(self, batch: Batch, now_ms: float, *, unsure: bool) -> None:
        """Let a batch be sent again in its place; `unsure`: it may have been appended."""
        lane = self._lanes[batch.place]
        batch.unsure = batch.unsure or unsure
        doubled_ms = self.settings.retry_ms << min(batch.attempts - 1, 16)
        batch.retry_ms = now_ms + min(doubled_ms, self.settings.retry_ms_max)
        lane.is_known = False
        self._land(lane, batch)

    def out_of_order(self, batch: Batch, now_ms: float) -> None:
        """Let a batch be sent again that the broker does not take as the next in sequence.

        Behind others, which it must follow, it waits for them. The first is not in the log, nor
        is what follows it: they get other sequences when they are taken again.
        """
        lane = self._lanes[batch.place]
        if lane.batches[0] is batch:
            self._raise_epoch(batch)
            for one in lane.batches:
                one.packed = b""
                one.unsure = False
        self.retry(batch, now_ms, unsure=False)

    def fail(self, batch: Batch, error: DeliveryError, *, unsure: bool = False) -> None:
        """Close a batch that will not be sent again, refused or out of time."""
        batch.error = error
        lane = self._lanes[batch.place]
        self._close(lane, batch)
        if not batch.attempts or not self.settings.idempotent:
            return
        lane.is_known = False
        if batch.unsure or unsure:
            self._raise_epoch(batch)
        elif lane.identity == batch.identity and not any(one.packed for one in lane.batches):
            lane.next_sequence = batch.base_sequence

    def _raise_epoch(self, batch: Batch) -> None:
        """Use the epoch of `batch` no more, but for what already carries it."""
        producer_id, epoch = batch.identity
        if self.identity == batch.identity:
            self.identity = (producer_id, epoch + 1) if epoch < _EPOCH_MAX else None

    def _close(self, lane: _Lane, batch: Batch) -> None:
        lane.batches.remove(batch)
        self.buffered_bytes -= batch.size_bytes
        batch.records.clear()
        batch.packed = b""
        self._land(lane, batch)

    def _land(self, lane: _Lane, batch: Batch) -> None:
        """Note that a batch is under way no more, if it was."""
        if batch.under_way:
            batch.under_way = False
            lane.under_way -= 1

    def overdue(self, now_ms: float) -> Iterator[Batch]:
        """Yield what is not under way and whose time (`delivery_ms`) is over, in order."""
        for lane in self._lanes.values():
            for batch in list(lane.batches):
                if lane.under_way or now_ms < batch.created_ms + self.settings.delivery_ms:
                    break
                yield batch
