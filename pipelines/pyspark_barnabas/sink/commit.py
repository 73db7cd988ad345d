"""The driver's side of exactlyOnce: decide what a micro-batch consists of, and end it.

    1  take over the query's decider id           older drivers can decide no more
    2  read the query's newest decision           a decision holds from its commit marker on
    3  end what it decided for this batch, and compare: `pyspark_barnabas.sink.decisions`
    4  check that the transactions are all open   one that timed out fails the batch, whole
    5  write the decision, in a transaction of the decider id
    6  commit the transactions of the decision
    7  abort the query's other transactions

The topic of decisions is compacted, and has a record for each query. It is read without regard to
the last stable offset: another query's open transaction must not hide this query's decision.
Decisions are searched from the end of the log backwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.options import SinkOptions
from pyspark_barnabas.sink.decisions import (
    Decision,
    Ending,
    Part,
    decider_id,
    decode,
    encode,
    is_decided,
    query_prefix,
    resolve,
    run_prefix,
)
from pyspark_barnabas.sink.outbox import Outbox
from pyspark_barnabas.sink.transaction import Transaction
from pyspark_barnabas.wire.batches import Batch, is_abort_marker
from pyspark_barnabas.wire.cluster import Cluster, create_topic, topic_configs
from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.error_codes import Retriable
from pyspark_barnabas.wire.errors import (
    BadOption,
    BrokerRefused,
    DataLost,
    TransactionLost,
    UnknownTopic,
)
from pyspark_barnabas.wire.fetcher import Fetcher, FetchPlan
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST, TopicPartition
from pyspark_barnabas.wire.transactions import ONGOING, Transactions

DECIDING_MS: Final = 60_000  # how long a decision may stay open if its driver dies
_GZIP: Final = 1
_LOOK_BACK_FIRST: Final = 64  # offsets
_TOPIC_EXISTS: Final = 36
_HEADERS_MAX: Final = 1 << 31


class Decisions:
    """The topic of decisions, for one query."""

    def __init__(self, cluster: Cluster, options: SinkOptions, query_id: str) -> None:
        self._cluster = cluster
        self._options = replace(options, codec=_GZIP)
        self._at: TopicPartition = (options.decision_topic, 0)
        self._query_id = query_id
        self._transaction = Transaction(cluster, decider_id(query_id), DECIDING_MS)

    def take_over(self) -> None:
        """Refuse every other driver of the query from now on."""
        self._find_topic()
        self._transaction.begin()

    def newest(self) -> Decision | None:
        """Return the query's newest decision. No driver writes one after `take_over`."""
        end = self._cluster.list_offsets({self._at: LATEST})[self._at]
        begin = self._cluster.list_offsets({self._at: EARLIEST})[self._at]
        reach = _LOOK_BACK_FIRST
        while True:
            start = max(begin, end - reach)
            found = self._newest_from(start, end)
            if found is not None or start == begin:
                return found
            reach *= 8

    def write(self, decision: Decision) -> None:
        """Write a decision; it holds when this returns. If it fails, `newest` tells."""
        topic, partition = self._at
        outbox = Outbox(self._cluster, self._options, None, self._transaction)
        outbox.open_topic(topic)
        now_ms = self._cluster.clock.now_ms()
        outbox.add(topic, partition, Record(self._query_id.encode(), encode(decision), now_ms))
        outbox.close()
        if not self._transaction.commit():
            raise TransactionLost(
                f"micro-batch {decision.batch_id}: another driver of this query has taken over. "
                "Stop one of them: a checkpoint belongs to one query at a time"
            )

    def _newest_from(self, start: int, end: int) -> Decision | None:
        """Return the last decision between two offsets whose commit marker follows."""
        newest: Decision | None = None
        open_ones: dict[int, Decision] = {}  # by producer id
        for data, batch in _batches(self._cluster, self._options, self._at, start, end):
            if batch.is_control:
                ended = open_ones.pop(batch.producer_id, None)
                if ended is not None and not is_abort_marker(data, batch):
                    newest = ended
            elif batch.is_transactional:
                for value in self._values(data, batch):
                    open_ones[batch.producer_id] = decode(value)
        return newest

    def _values(self, data: bytearray, batch: Batch) -> list[bytes]:
        decoder = Decoder(["key", "value"], *self._at, batch_headers_max=_HEADERS_MAX)
        key = self._query_id.encode()
        return [
            value
            for table in decoder.decode(data, [batch])
            for found, value in zip(
                table["key"].to_pylist(), table["value"].to_pylist(), strict=True
            )
            if found == key and value is not None
        ]

    def _find_topic(self) -> None:
        topic, _ = self._at
        try:
            self._cluster.topics([topic])
        except UnknownTopic:
            try:
                create_topic(self._cluster, topic, 1, {"cleanup.policy": "compact"})
            except BrokerRefused as error:
                if error.code != _TOPIC_EXISTS:
                    raise
            self._cluster.topics([topic])
        policy = topic_configs(self._cluster, topic, ["cleanup.policy"])["cleanup.policy"]
        if policy != "compact":
            raise BadOption(
                f"decisionTopic is {topic}, whose cleanup.policy is {policy}, expected compact: "
                "decisions must not expire. Change it, or name another topic"
            )


def commit_batch(
    cluster: Cluster, options: SinkOptions, query: tuple[str, str], batch_id: int, parts: list[Part]
) -> None:
    """Make the rows of a micro-batch visible exactly once; `query` is its id and its run's."""
    query_id, run_id = query
    transactions = Transactions(cluster)
    decisions = Decisions(cluster, options, query_id)
    decisions.take_over()
    known = decisions.newest()
    decided: list[Part] | None = parts
    if known is not None and is_decided(known, batch_id):
        outcomes = _commit(cluster, transactions, options, known.parts)
        decided = resolve(batch_id, known.parts, outcomes, parts)
    with_rows = tuple(part for part in decided or () if part.rows)
    if with_rows:
        _require_open(transactions, batch_id, [part for part in with_rows if part in parts])
        decisions.write(Decision(batch_id, run_id, with_rows))
        outcomes = _commit(cluster, transactions, options, with_rows)
        if any(outcome is not Ending.COMMITTED for outcome in outcomes):
            raise _lost(batch_id, "ended before the driver committed it")
    # Whatever an earlier run left open is aborted once; an earlier run that is still alive has
    # been refused by then. After that only this run's failed attempts are left to be aborted.
    is_first = known is None or known.run_id != run_id
    prefix = query_prefix(query_id) if is_first else run_prefix(query_id, run_id)
    _abort_open(transactions, prefix)


def abort_parts(cluster: Cluster, parts: Sequence[Part]) -> None:
    """Abort the transactions of tasks whose micro-batch has failed before its commit."""
    holders = [part.holder for part in parts if part.rows]
    if holders:
        Transactions(cluster).end(holders, committed=False)


def _require_open(transactions: Transactions, batch_id: int, parts: Sequence[Part]) -> None:
    found = transactions.describe(part.transactional_id for part in parts)
    for part in parts:
        state, producer_id, epoch = found[part.transactional_id]
        if (state, producer_id, epoch) != (ONGOING, part.producer_id, part.epoch):
            raise _lost(batch_id, f"({part.transactional_id}) is not open any more")


def _lost(batch_id: int, how: str) -> TransactionLost:
    return TransactionLost(
        f"micro-batch {batch_id}: a task's transaction {how}: it was open for longer than "
        "kafka.transaction.timeout.ms, an operator aborted it, or another driver of this query "
        "runs. Start the query again, which mends this; if it was the timeout, raise it, or make "
        "micro-batches smaller with maxOffsetsPerTrigger"
    )


def _commit(
    cluster: Cluster, transactions: Transactions, options: SinkOptions, parts: Sequence[Part]
) -> list[Ending]:
    """Commit the transactions of parts; return how each ended, if not now, then before."""
    codes = transactions.end([part.holder for part in parts], committed=True)
    return [
        Ending.COMMITTED if not codes[part.holder] else _ended(cluster, options, part)
        for part in parts
    ]


def _ended(cluster: Cluster, options: SinkOptions, part: Part) -> Ending:
    """Find the marker that ended a part's transaction, in the log.

    The coordinator cannot tell any more: the id has moved on, or has expired.
    """
    at = (part.topic, part.partition)

    def attempt() -> Ending:
        end = cluster.list_offsets({at: LATEST})[at]
        for data, batch in _batches(cluster, options, at, part.offset, end):
            of_part = batch.producer_id == part.producer_id and batch.producer_epoch >= part.epoch
            if of_part and batch.is_control:
                return Ending.ABORTED if is_abort_marker(data, batch) else Ending.COMMITTED
        raise Retriable(f"{at[0]}-{at[1]} has no marker yet behind offset {part.offset}")

    try:
        return cluster.persist(f"asking how {part.transactional_id} ended", attempt)
    except (DataLost, UnknownTopic):
        return Ending.UNKNOWN


def _abort_open(transactions: Transactions, prefix: str) -> None:
    names = transactions.open_ids(prefix)
    found = transactions.describe(names)
    holders = [
        Part(-1, name, described.producer_id, described.epoch).holder
        for name, described in found.items()
        if described.state == ONGOING
    ]
    if holders:
        transactions.end(holders, committed=False)


def _batches(
    cluster: Cluster, options: SinkOptions, at: TopicPartition, start: int, end: int
) -> Iterator[tuple[bytearray, Batch]]:
    for fetched, batches in Fetcher(
        cluster, FetchPlan(options.cluster.timeout_ms), *at, start, end
    ):
        for batch in batches:
            if start <= batch.last_offset:
                yield fetched.data, batch
