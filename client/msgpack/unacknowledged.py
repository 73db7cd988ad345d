"""A producer's unacknowledged batches: their order, their retries, and the effect of a failure.

No I/O and no clock: the producer (client/msgpack/producer.py) passes in the time, sends what `take`
returns, and reports the result. The states of a batch:

    filling -> queued -> under way -> acknowledged          `base_offset` is set
        (linger_ms, size)  ^      |
                           +- retry, in its place
                                  +-> failed                `error` is set
                                  +-> split                 `halves` are queued in its place

Order. A partition without idempotence has one batch under way, always its first. With idempotence
up to IN_FLIGHT_MAX are under way, since the broker refuses a batch that is out of sequence
(OUT_OF_ORDER_SEQUENCE_NUMBER); but only one

 - until the broker has acknowledged a batch of this producer id: from a producer that it does not
   know, it accepts any first sequence (Kafka: ProducerAppendInfo);
 - after a failure, once everything under way is answered: the retry of the first batch must not
   overtake, or be overtaken by, the second.

No duplicates (idempotent). A batch gets its producer id and sequence when it is first taken, and
its bytes stay the same: the broker remembers the last five batches of a producer and answers a
repeated one with the offset of the original. If the broker answers that a partition's first batch
is out of order, neither it nor any batch after it is in the log: all of them are renumbered in the
producer's next epoch (KIP-360), in which the broker accepts nothing of the epoch before
(`out_of_order`).

A batch of several records that the topic does not take because of its size is split, as Kafka's
producer does it: the halves have its sequences, and later batches of the partition are smaller.

A batch that was refused was not appended: if none follows it, the next one takes its sequence. A
batch that failed after an attempt without an answer may have been appended: its epoch is not used
again.

Memory is bounded. `room` says whether a record fits in `buffer_bytes`; the producer waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from client.places import Place
from client.record_size import record_bytes
from protocol.records import HEADER_SIZE, Record, build

IN_FLIGHT_MAX: Final = 5  # as many as a broker remembers (Kafka: ProducerStateEntry)
_SEQUENCE_END: Final = 1 << 31
_EPOCH_MAX: Final = (1 << 15) - 1


class DeliveryError(Exception):
    """A record was not acknowledged; the text says why, and whether it may be appended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How records are batched and retried. `codec` as in protocol/compression.py."""

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
    """Records for one partition. `packed` does not change after the first of the `attempts`.

    `unsure`: an attempt ended without an answer, so it may have been appended. `trouble`: how the
    last attempt failed, as a sentence. `halves`: what it was split into, the first with so many
    records.
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
    halves: tuple[Batch, int, Batch] | None = None

    def half_of(self, index: int) -> tuple[Batch, int]:
        """Return the half that holds a record, and its index there; only after a split."""
        assert self.halves is not None, "it was split"
        first, count, second = self.halves
        return (first, index) if index < count else (second, index - count)


@dataclass(slots=True)
class _Lane:
    """A partition's batches in order, the last one filling, and the sequence of the next to send.

    `is_known`: the broker has acknowledged a batch with `identity`.
    """

    batch_bytes: int
    batches: deque[Batch] = field(default_factory=deque)
    under_way: int = 0
    identity: tuple[int, int] | None = None
    next_sequence: int = 0
    is_known: bool = False


class Unacknowledged:
    """All batches of one producer. Times are ms of any monotonic clock."""

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
        """Whether a record of this size may be added. A single record always may."""
        return not self.buffered_bytes or (
            self.buffered_bytes + HEADER_SIZE + size_bytes <= self.settings.buffer_bytes
        )

    def add(self, place: Place, record: Record, now_ms: float) -> tuple[Batch, int]:
        """Append a record to its partition; return its batch and its index there."""
        size = record_bytes(record)
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane(self.settings.batch_bytes)
        batch = lane.batches[-1] if lane.batches else None
        if batch is None or batch.attempts or batch.size_bytes + size > lane.batch_bytes:
            batch = Batch(place, now_ms)
            lane.batches.append(batch)
            self.buffered_bytes += HEADER_SIZE
        batch.records.append(record)
        batch.size_bytes += size
        self.buffered_bytes += size
        return batch, len(batch.records) - 1

    def take(self, now_ms: float, *, flush: bool = False) -> list[Batch]:
        """Return the due batches, at most one per partition and about `request_bytes` in all.

        They are under way from now on. A batch is due if it is full, has lingered, or `flush` is
        set, unless it waits for its retry. An idempotent producer needs its `identity` first.
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
            self._lanes[place] = self._lanes.pop(place)  # partitions take turns at the front
        return taken

    def due_ms(self, *, flush: bool = False) -> float | None:
        """Return when the next batch is due, None if that needs an answer or a record first."""
        waiting = [
            self._due_ms(lane, batch, flush=flush)
            for lane in self._lanes.values()
            if (batch := self._next(lane)) is not None
        ]
        return min(waiting, default=None)

    def _next(self, lane: _Lane) -> Batch | None:
        """Return the next batch that may be sent, due or not."""
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
        is_full = lane.batches[-1] is not batch or batch.size_bytes >= lane.batch_bytes
        # With the buffer nearly full, no more records may come: do not wait for them.
        is_full = is_full or 2 * self.buffered_bytes > self.settings.buffer_bytes
        return batch.created_ms + (0 if flush or is_full else self.settings.linger_ms)

    def _seal(self, lane: _Lane, batch: Batch) -> None:
        if self.settings.idempotent:
            assert self.identity is not None, "an idempotent producer needs its id before it sends"
            if lane.identity != self.identity:
                lane.identity = self.identity
                lane.next_sequence = 0
                lane.is_known = False
            batch.identity = self.identity
            batch.base_sequence = lane.next_sequence
            lane.next_sequence = (lane.next_sequence + len(batch.records)) % _SEQUENCE_END
        self._pack(batch)

    def _pack(self, batch: Batch) -> None:
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
        """Close a batch that was appended; `base_offset` is -1 if it is unknown."""
        batch.base_offset = base_offset
        lane = self._lanes[batch.place]
        if lane.batches[0] is batch and lane.identity == batch.identity:
            lane.is_known = self.settings.idempotent
        self._close(lane, batch)

    def retry(self, batch: Batch, now_ms: float, *, unsure: bool) -> None:
        """Resend a batch later, in its place; `unsure`: it may have been appended."""
        lane = self._lanes[batch.place]
        batch.unsure = batch.unsure or unsure
        doubled_ms = self.settings.retry_ms << min(batch.attempts - 1, 16)
        batch.retry_ms = now_ms + min(doubled_ms, self.settings.retry_ms_max)
        lane.is_known = False
        self._land(lane, batch)

    def out_of_order(self, batch: Batch, now_ms: float) -> None:
        """Resend a batch that the broker refused as out of sequence.

        If others precede it, it waits for them. If it is the first, neither it nor those after it
        are in the log: they get new sequences when they are taken again.
        """
        lane = self._lanes[batch.place]
        if lane.batches[0] is batch:
            self._raise_epoch(batch)
            for one in lane.batches:
                one.packed = b""
                one.unsure = False
        self.retry(batch, now_ms, unsure=False)

    def may_split(self, batch: Batch) -> bool:
        """Whether a batch that is too large for its topic can be sent as two."""
        return len(batch.records) > 1 and not batch.unsure

    def split(self, batch: Batch) -> None:
        """Send the halves of a batch that was refused, in its place."""
        lane = self._lanes[batch.place]
        count = len(batch.records) // 2
        first, second = (
            Batch(
                batch.place,
                batch.created_ms,
                records,
                HEADER_SIZE + sum(map(record_bytes, records)),
                attempts=1,  # no record is added
                identity=batch.identity,
                base_sequence=batch.base_sequence,
            )
            for records in (batch.records[:count], batch.records[count:])
        )
        if self.settings.idempotent:
            second.base_sequence = (batch.base_sequence + count) % _SEQUENCE_END
        for half in (first, second):
            self._pack(half)
            self.buffered_bytes += half.size_bytes
        batch.halves = first, count, second
        lane.batch_bytes = min(lane.batch_bytes, max(first.size_bytes, second.size_bytes))
        lane.batches.insert(lane.batches.index(batch), first)
        lane.batches.insert(lane.batches.index(batch), second)
        lane.is_known = False
        self._close(lane, batch)

    def fail(self, batch: Batch, error: DeliveryError, *, unsure: bool = False) -> None:
        """Close a batch that was refused or is out of time."""
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
        """Stop using the epoch of `batch`, except for batches that already have it."""
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
        """Note that a batch is no longer under way."""
        if batch.under_way:
            batch.under_way = False
            lane.under_way -= 1

    def overdue(self, now_ms: float) -> Iterator[Batch]:
        """Yield, in order, the batches whose `delivery_ms` are over and that are not under way."""
        for lane in self._lanes.values():
            for batch in list(lane.batches):
                if lane.under_way or now_ms < batch.created_ms + self.settings.delivery_ms:
                    break
                yield batch
