"""The producer of one task: idempotent, and able to find what an earlier run of the task wrote.

Identity. A broker knows a producer by its id and epoch, and numbers its records in each partition.
A task of a stream computes its id from the query's id and the task's number, and its epoch from the
micro-batch's number. So the same task of the same micro-batch, rerun after a crash, is the same
producer to the broker, and nothing is stored anywhere but in the log.

Rerun. When such a task begins, it asks (DescribeProducers, KIP-664) how many records of its
identity each partition has. It reads these back and compares them with its rows: equal ones are not
sent again. A row that differs shows that the micro-batch does not have the same rows in the same
order. From there on the task sends all rows of that partition as a new producer: some may be there
twice, none is lost. The broker refuses a task of an older micro-batch that is still running,
because its epoch is older.

A task without identity (a batch query) gets a producer id from the broker, so a request that is
sent twice is written once; a rerun task writes its rows again.

With exactlyOnce, a task writes in a transaction that the driver ends; a rerun task begins another
one. `pyspark_barnabas.sink.rows_digest` tells whether two runs of a task had the same rows.

One request is under way while the next batches are built, with at most one batch a partition. What
is lost is sent again with the same sequence numbers. A batch that is too large for its topic is
sent in halves, as by Kafka's producer, and later batches of the partition are smaller.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.options import SinkOptions
from pyspark_barnabas.sink.transaction import Transaction
from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.batches import TRANSACTIONAL, Batch
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.connection import Connection
from pyspark_barnabas.wire.encode import Producer, Record, build_batch
from pyspark_barnabas.wire.error_codes import NOT_LEADER, Retriable, check_partition, error_name
from pyspark_barnabas.wire.errors import RecordsRefused
from pyspark_barnabas.wire.fetcher import Fetcher, FetchPlan
from pyspark_barnabas.wire.primitives import parse
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST, Produced, TopicPartition
from pyspark_barnabas.wire.transactions import OVER

EPOCHS: Final = 32_768  # an epoch is a non-negative int16
_SEQUENCES: Final = 1 << 31
_ID_BIT: Final = 1 << 62  # far above the ids that brokers assign, which count from 0
_RECORD_OVERHEAD = 40
_DUPLICATE = 46
_TOO_LARGE = (10, 18)  # 18 is about the size of a segment
_REQUEST_BYTES = 4 * 1024 * 1024
_LOOK_BACK_FIRST = 10_000  # offsets

_CURES: Final = {
    10: "a single record is larger than the topic's max.message.bytes: raise that",
    18: "a single record is larger than the topic's segment.bytes: raise that",
    32: "the column timestamp is outside what the topic's message.timestamp.* allow",
    45: "another task writes as the same producer; Spark may run this one again",
    47: "a later micro-batch of this query has already written, so this one is refused. If you "
    "reset the checkpoint on purpose, set deduplicate=false once",
    87: "the topic does not accept such a record; in a compacted topic each needs a key",
}


def identity(query_id: str, task: int, batch_id: int) -> tuple[int, int]:
    """Return (producer id, epoch) of a task of a micro-batch, the same for every run of it."""
    life = f"{query_id}/{task}/{batch_id // EPOCHS}"
    number = int.from_bytes(hashlib.blake2b(life.encode(), digest_size=8).digest(), "big")
    return number % _ID_BIT | _ID_BIT, batch_id % EPOCHS


@dataclass
class _Outgoing:
    """One partition's producer state and unsent records."""

    producer_id: int
    epoch: int
    batch_bytes: int
    sequence: int = 0
    records: list[Record] = field(default_factory=list)
    size: int = 0
    # Hashes of what an earlier run wrote, in reverse order: the next to compare is the last.
    written: list[int] = field(default_factory=list)


class _Sealed(NamedTuple):
    """A batch as it is sent, and what it was made of."""

    producer: Producer
    records: list[Record]
    data: bytearray


class Outbox:
    """Writes the records of one task; `close` returns once all are acknowledged."""

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        producer: tuple[int, int] | None,
        transaction: Transaction | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._transaction = transaction
        self._identity = producer
        self._fresh: tuple[int, int] | None = None
        self._outgoing: dict[TopicPartition, _Outgoing] = {}
        self._size = 0
        self._unacknowledged: dict[TopicPartition, list[_Sealed]] = {}  # the first is under way
        self._sent: list[tuple[Connection, int, list[TopicPartition]]] = []
        self.sent_count = 0
        self.skipped_count = 0
        self.first_place: tuple[str, int, int] | None = None  # topic, partition, offset

    def open_topic(self, topic: str) -> int:
        """Find the topic, which the broker may create, and return its number of partitions.

        With an identity, also find what an earlier run of the task wrote there.
        """
        partitions = [(topic, index) for index in self._cluster.topics([topic], create=True)[topic]]
        producer_id, epoch = self._identity or self._new_producer()
        states: dict[TopicPartition, protocol.ProducerState | None] = {}
        if self._identity:
            states = self._cluster.producer_states(partitions, producer_id)
        for at in partitions:
            outgoing = self._outgoing[at] = _Outgoing(producer_id, epoch, self._options.batch_bytes)
            state = states.get(at)
            if state is None or state.epoch < epoch:
                continue
            if state.epoch > epoch:
                raise RecordsRefused(f"{at[0]}-{at[1]}: {_CURES[47]}")
            count = state.last_sequence + 1
            found = self._read_back(at, producer_id, epoch, count)
            if len(found) == count:
                outgoing.written = found[::-1]
                outgoing.sequence = count % _SEQUENCES
            else:  # expired or compacted away: what was written is unknown
                outgoing.producer_id, outgoing.epoch = self._new_producer()
        return len(partitions)

    def add(self, topic: str, partition: int, record: Record) -> None:
        """Add one record; send when there are enough."""
        outgoing = self._outgoing[topic, partition]
        if outgoing.written:
            if hash(_comparable(record)) == outgoing.written.pop():
                self.skipped_count += 1
                return
            outgoing.written = []
            outgoing.producer_id, outgoing.epoch = self._new_producer()
            outgoing.sequence = 0
        size = _size_of(record)
        if outgoing.size + size > outgoing.batch_bytes and outgoing.records:
            self._send()
        outgoing.records.append(record)
        outgoing.size += size
        self._size += size
        if self._size >= _REQUEST_BYTES:
            self._send()

    def close(self) -> None:
        """Send the rest and wait until the broker has acknowledged everything."""
        self._send()
        self._await_acknowledgements()

    def _new_producer(self) -> tuple[int, int]:
        if self._transaction is not None:
            return self._transaction.begin()[1:]
        if self._fresh is None:
            self._fresh = self._cluster.new_producer_id()
        return self._fresh

    # -- sending ---------------------------------------------------------------------------------

    def _send(self) -> None:
        """Build a batch of each partition's records; send them once the last are acknowledged."""
        batches = {at: [self._batch(out)] for at, out in self._outgoing.items() if out.records}
        self._await_acknowledgements()
        self._unacknowledged = batches
        self._size = 0
        try:
            self._post()
        except (OSError, Retriable):
            self._sent = []  # the next wait sends them again
            self._cluster.close()

    def _batch(self, outgoing: _Outgoing) -> _Sealed:
        producer = Producer(outgoing.producer_id, outgoing.epoch, outgoing.sequence)
        batch = self._sealed(producer, outgoing.records)
        outgoing.sequence = (outgoing.sequence + len(outgoing.records)) % _SEQUENCES
        self.sent_count += len(outgoing.records)
        outgoing.records, outgoing.size = [], 0
        return batch

    def _sealed(self, producer: Producer, records: list[Record]) -> _Sealed:
        data = build_batch(
            records,
            codec=self._options.codec,
            producer=producer,
            attributes=0 if self._transaction is None else TRANSACTIONAL,
        )
        return _Sealed(producer, records, data)

    def _split(self, at: TopicPartition) -> None:
        """Put the halves of a batch in its place; they have its sequence numbers."""
        producer, records, _ = self._unacknowledged[at][0]
        half = len(records) // 2
        second = producer._replace(base_sequence=(producer.base_sequence + half) % _SEQUENCES)
        halves = [self._sealed(producer, records[:half]), self._sealed(second, records[half:])]
        self._unacknowledged[at][:1] = halves
        outgoing = self._outgoing[at]
        sizes = [sum(map(_size_of, one.records)) for one in halves]
        outgoing.batch_bytes = min(outgoing.batch_bytes, max(sizes))

    def _post(self) -> None:
        """Send the unacknowledged batches to their leaders."""
        transactional_id = None
        if self._transaction is not None:
            self._transaction.add(self._unacknowledged)
            transactional_id = self._transaction.transactional_id
        parts: dict[Connection, list[TopicPartition]] = {}
        for topic, partition in self._unacknowledged:
            leader = self._cluster.leader(topic, partition)
            parts.setdefault(leader, []).append((topic, partition))
        for connection, part in parts.items():
            body = protocol.produce_request(
                self._options.acks,
                self._options.cluster.request_timeout_ms,
                {at: self._unacknowledged[at][0].data for at in part},
                transactional_id,
            )
            self._sent.append((connection, connection.send(protocol.PRODUCE, body), part))

    def _await_acknowledgements(self) -> None:
        """Wait until everything sent is acknowledged; send the rest again."""
        if self._unacknowledged:
            names = ", ".join(f"{topic}-{index}" for topic, index in list(self._unacknowledged)[:4])
            self._cluster.persist(f"writing to {names}", self._acknowledge)

    def _acknowledge(self) -> None:
        reason = ""
        while self._unacknowledged and not reason:
            if not self._sent:
                self._post()
            sent, self._sent = self._sent, []
            for connection, number, part in sent:
                answer = parse(protocol.read_produce, connection.receive(number))
                for at in part:
                    found = self._take(at, answer.get(at, Produced(NOT_LEADER, "", -1)))
                    reason = found or reason
        if reason:
            raise Retriable(reason)

    def _take(self, at: TopicPartition, produced: Produced) -> str:
        """Take the answer for the batch under way; return why it is sent again, if it is."""
        code, said, offset = produced
        batches = self._unacknowledged[at]
        if code in (0, _DUPLICATE):
            self.first_place = self.first_place or (*at, max(0, offset))
            del batches[0]
            if not batches:
                del self._unacknowledged[at]
            return ""
        if code in _TOO_LARGE and len(batches[0].records) > 1:
            self._split(at)
            return ""
        return self._refusal(at, code, said)

    def _refusal(self, at: TopicPartition, code: int, said: str) -> str:
        """Return the reason if the batch can be sent again; else raise it."""
        what = f"writing to {at[0]}-{at[1]}"
        if self._transaction is not None and code in OVER:
            raise self._transaction.lost()
        if code in _CURES:
            detail = f" ({said})" if said else ""
            raise RecordsRefused(f"{what}: {error_name(code)}{detail}: {_CURES[code]}")
        try:
            check_partition(code, what, said)
        except Retriable as error:
            return str(error)
        raise AssertionError("code 0 is no refusal")

    # -- reading back ----------------------------------------------------------------------------

    def _read_back(self, at: TopicPartition, producer_id: int, epoch: int, count: int) -> list[int]:
        """Return the hashes of a producer's first `count` records; fewer if some are gone.

        They are near the end of the log, so the search starts there and reaches further back
        each time.
        """
        ends = self._cluster.list_offsets({at: LATEST})
        begins = self._cluster.list_offsets({at: EARLIEST})
        reach = max(_LOOK_BACK_FIRST, 2 * count)
        while True:
            start = max(begins[at], ends[at] - reach)
            rows: list[int] = []  # not the rows: a micro-batch may be larger than memory
            for data, batch in self._batches(at, start, ends[at]):
                if (batch.producer_id, batch.producer_epoch) != (producer_id, epoch):
                    continue
                if batch.base_sequence != len(rows):
                    break
                rows += map(hash, _rows(data, batch, at))
            if len(rows) >= count or start == begins[at]:
                return rows[:count]
            reach *= 4

    def _batches(
        self, at: TopicPartition, start: int, end: int
    ) -> Iterator[tuple[bytearray, Batch]]:
        plan = FetchPlan(self._options.cluster.timeout_ms)
        for fetched, batches in Fetcher(self._cluster, plan, *at, start, end):
            for batch in batches:
                yield fetched.data, batch


def _size_of(record: Record) -> int:
    """Return about as many bytes as a record takes in its batch."""
    size = len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD
    return size + sum(2 * len(name) + len(value or b"") for name, value in record.headers)


def _comparable(record: Record) -> tuple[Any, ...]:
    return record.key, record.value, tuple(record.headers)


def _rows(data: bytearray, batch: Batch, at: TopicPartition) -> Iterator[tuple[Any, ...]]:
    """Yield (key, value, headers) of a batch's records."""
    # No bound on headers: this task wrote them itself.
    decoder = Decoder(["key", "value", "headers"], *at, batch_headers_max=_SEQUENCES)
    for table in decoder.decode(data, [batch]):
        keys, values, headers = (table[name].to_pylist() for name in ("key", "value", "headers"))
        for key, value, pairs in zip(keys, values, headers, strict=True):
            yield key, value, tuple((pair["key"], pair["value"]) for pair in pairs or ())
