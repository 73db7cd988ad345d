"""What a producer holds until it is acknowledged: batches, their order, and what a failure means.

No I/O and no clock: the shell (client/producer.py) says what time it is, sends what `take` returns
and reports what came of it. The states of a batch:

    filling -> queued -> sent -> acknowledged          `base_offset` is set
        (linger_ms, size)  ^      |
                           +- retry, in its place
                                  +-> failed                `error` is set

Order. A partition has at most one batch under way, always its first; a retry sends the same bytes
again before anything later. So nothing overtakes, whether idempotent or not.

Never twice (idempotent). A batch gets its producer id and sequence when it is first taken, and
keeps its bytes: the broker answers a repetition with the first one's offset. A batch that was
refused was not appended, and as nothing later has a sequence yet, the next batch takes the same.
A batch given up without an answer may have been appended: its id is not used again
(`identity_lost`), as a later batch could not know its sequence.

Bounded. `room` says whether a record fits in `buffer_bytes`; waiting for it is the shell's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from protocol.records import HEADER_SIZE, Record, build

RECORD_OVERHEAD_BYTES: Final = 24  # a record's own numbers, and more than they take
_SEQUENCE_END: Final = 1 << 31


class DeliveryError(Exception):
    """A record was not acknowledged; the text says why, and what may have become of it."""


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """How records are gathered. `codec` is a batch's (protocol/compression.py)."""

    batch_bytes: int = 256 * 1024
    linger_ms: int = 5
    buffer_bytes: int = 32 * 1024 * 1024
    codec: int = 0
    idempotent: bool = True
    delivery_ms: int = 120_000


@dataclass(slots=True, eq=False)
class Batch:
    """Records for one place. `attempts` counts sendings; `packed` is fixed by the first."""

    place: Place
    created_ms: float
    records: list[Record] = field(default_factory=list)
    size_bytes: int = HEADER_SIZE
    attempts: int = 0
    retry_ms: float = 0
    identity: tuple[int, int] = (-1, -1)
    base_sequence: int = -1
    packed: bytes = b""
    base_offset: int = -1
    error: DeliveryError | None = None


@dataclass(slots=True)
class _Lane:
    """A partition's batches in order, the last one filling; and its next sequence."""

    batches: deque[Batch] = field(default_factory=deque)
    under_way: bool = False
    next_sequence: int = 0


def record_bytes(record: Record) -> int:
    """Return what a record takes of the bound, a little more than it will take packed."""
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for key, value in record.headers:
        size += 2 * len(key) + len(value or b"") + 8
    return size


class Outbox:
    """All batches of one producer. Times are ms of any clock that does not go back."""

    def __init__(self, settings: OutboxSettings) -> None:
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
        """Return the first batch of every place that is due; they are under way from now on.

        Due is what is full, has lingered, or is asked for by `flush`, unless it waits for its
        retry. An idempotent outbox needs its `identity` before.
        """
        taken = []
        for lane in self._lanes.values():
            if lane.under_way or not lane.batches:
                continue
            batch = lane.batches[0]
            if self._due_ms(lane, flush=flush) > now_ms:
                continue
            if not batch.attempts:
                self._seal(lane, batch)
            batch.attempts += 1
            lane.under_way = True
            taken.append(batch)
        return taken

    def due_ms(self, *, flush: bool = False) -> float | None:
        """Return when `take` has something next, or None if only an answer or a record can tell."""
        waiting = [
            self._due_ms(lane, flush=flush)
            for lane in self._lanes.values()
            if lane.batches and not lane.under_way
        ]
        return min(waiting, default=None)

    def _due_ms(self, lane: _Lane, *, flush: bool) -> float:
        batch = lane.batches[0]
        if batch.attempts:
            return batch.retry_ms
        is_full = len(lane.batches) > 1 or batch.size_bytes >= self.settings.batch_bytes
        # When memory is out, waiting for more records would be waiting for what cannot come.
        is_full = is_full or 2 * self.buffered_bytes > self.settings.buffer_bytes
        return batch.created_ms + (0 if flush or is_full else self.settings.linger_ms)

    def _seal(self, lane: _Lane, batch: Batch) -> None:
        if self.settings.idempotent:
            assert self.identity is not None, "an idempotent producer has its id before it sends"
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
        self._close(batch)

    def refuse(self, batch: Batch, error: DeliveryError) -> None:
        """Close a batch that the broker answered it has not appended."""
        batch.error = error
        lane = self._close(batch)
        if batch.identity == self.identity:
            lane.next_sequence = batch.base_sequence

    def retry(self, batch: Batch, now_ms: float, backoff_ms: float) -> None:
        """Let a batch that got no answer, or one that may change, be sent again in its place."""
        self._lanes[batch.place].under_way = False
        batch.retry_ms = now_ms + backoff_ms

    def give_up(self, batch: Batch, error: DeliveryError) -> None:
        """Close a batch of which nobody knows whether it was appended, if it was ever sent."""
        batch.error = error
        self._close(batch)
        if batch.attempts:
            self.identity_lost()

    def identity_lost(self) -> None:
        """Forget the producer id; batches that already carry it keep it."""
        self.identity = None
        for lane in self._lanes.values():
            lane.next_sequence = 0

    def _close(self, batch: Batch) -> _Lane:
        lane = self._lanes[batch.place]
        assert lane.batches[0] is batch, "a place's batches end in their order"
        lane.batches.popleft()
        lane.under_way = False
        self.buffered_bytes -= batch.size_bytes
        batch.records.clear()
        return lane

    def overdue(self, now_ms: float) -> Iterator[Batch]:
        """Yield what is not under way and whose time (`delivery_ms`) is over, in order."""
        for lane in self._lanes.values():
            for batch in list(lane.batches):
                if lane.under_way or now_ms < batch.created_ms + self.settings.delivery_ms:
                    break
                yield batch
