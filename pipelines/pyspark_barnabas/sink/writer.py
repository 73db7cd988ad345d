"""The sinks: rows of a batch or streaming query become records in topics.

Columns, as for Spark's Kafka sink: `value` (string or binary; null writes a tombstone), and
optionally `key`, `topic` (required unless the option names one), `partition`, `headers`; beyond
these, `timestamp`. Other columns are ignored.

What a task writes is in the log at once; Spark's commit adds nothing and its abort undoes nothing.
For what that means when a micro-batch is rerun, see `pyspark_barnabas.sink.outbox` and, for users,
docs/pyspark.md. With exactlyOnce, a task writes in a transaction, and Spark's commit ends those of
all tasks: `pyspark_barnabas.sink.commit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType, TimestampType

from pyspark_barnabas.columns import TYPES
from pyspark_barnabas.options import SinkOptions
from pyspark_barnabas.plain_errors import plainly
from pyspark_barnabas.sink.commit import abort_parts, commit_batch
from pyspark_barnabas.sink.decisions import Part, transactional_id
from pyspark_barnabas.sink.outbox import Outbox, identity
from pyspark_barnabas.sink.rows_digest import RowsDigest
from pyspark_barnabas.sink.transaction import Transaction
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.errors import BadOption, RecordsRefused
from pyspark_barnabas.wire.partitioner import Partitioner

_datasource: Any = import_module("pyspark.sql.datasource")
HAS_ARROW_STREAMS = hasattr(_datasource, "DataSourceStreamArrowWriter")  # PySpark >= 4.1
_StreamWriter: Any = (
    _datasource.DataSourceStreamArrowWriter
    if HAS_ARROW_STREAMS
    else _datasource.DataSourceStreamWriter
)
_ROWS_TOGETHER = 10_000
_BYTES_LIKE = (BinaryType, StringType)


@dataclass
class Written(WriterCommitMessage):
    """What one task did."""

    sent_count: int
    skipped_count: int
    part: Part | None = None  # with exactlyOnce
    query: tuple[str, str] = ("", "")  # its id, and the id of its run


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Raise BadOption for a missing column or one of the wrong type."""
    wanted: dict[str, tuple[type, ...]] = {
        "value": _BYTES_LIKE,
        "key": _BYTES_LIKE,
        "topic": (StringType,),
        "partition": (IntegerType,),
        "timestamp": (TimestampType,),
    }
    found = {field.name: field.dataType for field in schema.fields}
    if "value" not in found:
        raise BadOption(f"the column value is missing; there are {', '.join(found) or 'none'}")
    if options.topic is None and "topic" not in found:
        raise BadOption("no topic: set the option topic, or add a column topic")
    for name, kinds in wanted.items():
        if name in found and not isinstance(found[name], kinds):
            words = " or ".join(kind.__name__ for kind in kinds)
            raise BadOption(
                f"the column {name} is {found[name].simpleString()}, expected {words}; cast it"
            )
    headers = found.get("headers")
    if headers is not None:
        kind = headers.simpleString()
        if kind != "array<struct<key:string,value:binary>>":
            raise BadOption(
                f"the column headers is {kind}, expected array<struct<key:string,value:binary>>"
            )


@plainly
class WireWriter(DataSourceArrowWriter):
    """Writes the rows of a batch query: at least once, and once if no task is rerun."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        check_schema(schema, options)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return write_task(self._options, iterator, None)


@plainly
class WireStreamWriter(_StreamWriter):  # type: ignore[misc]
    """Writes micro-batches; a rerun one finds what it has already written."""

    def __init__(self, schema: StructType, options: SinkOptions) -> None:
        check_schema(schema, options)
        self._schema = schema
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one task of a micro-batch."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark writes in tasks"
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        producer = None
        tables = iterator if HAS_ARROW_STREAMS else _tables(self._schema, iterator)
        if self._options.exactly_once:
            run_id = context.getLocalProperty("spark.jobGroup.id")  # StreamExecution sets it
            if not query_id or not run_id:
                raise BadOption("exactlyOnce needs a streaming query with an id, and there is none")
            task, attempt = context.partitionId(), context.attemptNumber()
            return write_part(self._options, tables, (query_id, run_id), task, attempt)
        if self._options.deduplicate and query_id and batch_id:
            producer = identity(query_id, context.partitionId(), int(batch_id))
        return write_task(self._options, tables, producer)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit what the tasks wrote. Without exactlyOnce, every record is acknowledged."""
        written = [one for one in messages if isinstance(one, Written) and one.part is not None]
        if written:
            parts = [one.part for one in written if one.part is not None]
            with Cluster(self._options.cluster) as cluster:
                commit_batch(cluster, self._options, written[0].query, batchId, parts)

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803, ARG002 - Spark's
    ) -> None:
        """Abort what the tasks wrote, unless a commit was begun: Spark also calls this after it.

        A commit has the message of every task. Without exactlyOnce there is nothing to do: a rerun
        of the micro-batch finds what was written.
        """
        parts = [one.part for one in messages if isinstance(one, Written) and one.part is not None]
        if parts and None in messages:
            with Cluster(self._options.cluster) as cluster:
                abort_parts(cluster, parts)


def _tables(schema: StructType, rows: Iterator[Any]) -> Iterator[Any]:
    """Collect rows into tables, for PySpark 4.0, whose streaming sinks get no Arrow."""
    kinds = {
        field.name: pa.string() if isinstance(field.dataType, StringType) else TYPES[field.name]
        for field in schema.fields
        if field.name in TYPES
    }
    arrow = pa.schema(list(kinds.items()))
    while together := list(islice(rows, _ROWS_TOGETHER)):
        yield pa.RecordBatch.from_pylist([_plain(row, kinds) for row in together], schema=arrow)


def _plain(row: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return a row as a dict; Spark passes timestamps as naive local times."""
    values = row.asDict(recursive=True)
    if values.get("timestamp") is not None:
        values["timestamp"] = values["timestamp"].astimezone()
    return {name: values[name] for name in names}


def write_task(
    options: SinkOptions, tables: Iterator[Any], producer: tuple[int, int] | None
) -> Written:
    """Write RecordBatches as `producer` (id, epoch), or as a new one from the broker."""
    from pyspark import TaskContext

    context = TaskContext.get()
    task = context.partitionId() if context else 0
    with Cluster(options.cluster) as cluster:
        outbox = Outbox(cluster, options, producer)
        rows = _Rows(cluster, options, outbox, task)
        for table in tables:
            rows.add(table)
        outbox.close()
        return Written(outbox.sent_count, outbox.skipped_count)


def write_part(
    options: SinkOptions, tables: Iterator[Any], query: tuple[str, str], task: int, attempt: int
) -> Written:
    """Write RecordBatches in a transaction, and leave it open for the driver to end."""
    name = transactional_id(*query, task, attempt)
    with Cluster(options.cluster) as cluster:
        transaction = Transaction(cluster, name, options.transaction_timeout_ms)
        try:
            outbox = Outbox(cluster, options, None, transaction)
            digest = RowsDigest()
            rows = _Rows(cluster, options, outbox, task, digest)
            for table in tables:
                rows.add(table)
            outbox.close()
        except BaseException:
            transaction.abort()
            raise
        part = Part(task)
        if outbox.first_place is not None:
            held = transaction.begin()
            part = Part(task, *held, outbox.sent_count, digest.value(), *outbox.first_place)
        return Written(outbox.sent_count, 0, part, query)


class _Rows:
    """Turns rows into records of partitions."""

    def __init__(
        self,
        cluster: Cluster,
        options: SinkOptions,
        outbox: Outbox,
        task: int,
        digest: RowsDigest | None = None,
    ) -> None:
        self._digest = digest
        self._clock = cluster.clock
        self._topic = options.topic
        self._outbox = outbox
        self._task = task
        self._partitioners: dict[str, Partitioner] = {}
        self._counts: dict[str, int] = {}

    def add(self, table: Any) -> None:
        """Add the rows of one RecordBatch, those of each topic in order."""
        if not table.num_rows:
            return
        if self._topic is not None:
            self._add_to(self._topic, table)
            return
        topics = table["topic"]
        if topics.null_count:
            raise RecordsRefused(
                "the column topic is null in a row, and the option topic is not set"
            )
        names = topics.to_pylist()
        for name in dict.fromkeys(names):
            rows = [row for row, other in enumerate(names) if other == name]
            self._add_to(name, table if len(rows) == table.num_rows else table.take(pa.array(rows)))

    def _add_to(self, topic: str, table: Any) -> None:
        if topic not in self._counts:
            self._counts[topic] = self._outbox.open_topic(topic)
            self._partitioners[topic] = Partitioner(self._task)
        columns = set(table.schema.names)
        count = table.num_rows
        keys = _binary(table["key"]) if "key" in columns else pa.nulls(count, pa.binary())
        partitions = self._partitions(topic, keys, table["partition"] if "partition" in columns
                                      else None)  # fmt: skip
        headers = _headers(table["headers"]) if "headers" in columns else [None] * count
        values = _binary(table["value"])
        if self._digest is not None:
            named = {"headers": table["headers"]} if "headers" in columns else {}
            self._digest.add(topic, key=keys, value=values, **named)
        rows = zip(
            partitions.tolist(),
            keys.to_pylist(),
            values.to_pylist(),
            self._timestamps(table["timestamp"] if "timestamp" in columns else None, count),
            headers,
            strict=True,
        )
        add = self._outbox.add
        for partition, key, value, timestamp, pairs in rows:
            of_row = [(pair["key"], pair["value"]) for pair in pairs] if pairs else ()
            add(topic, partition, Record(key, value, timestamp, of_row))

    def _partitions(self, topic: str, keys: Any, given: Any) -> Any:
        count = self._counts[topic]
        chosen = self._partitioners[topic].choose(keys, count)
        if given is None:
            return chosen
        asked = given.fill_null(-1).to_numpy(zero_copy_only=False)
        known = given.is_valid().to_numpy(zero_copy_only=False)
        wrong = known & ((asked < 0) | (asked >= count))
        if wrong.any():
            raise RecordsRefused(
                f"the column partition holds {asked[wrong][0]}, but {topic} has partitions 0 to "
                f"{count - 1}"
            )
        return np.where(known, asked, chosen)

    def _timestamps(self, given: Any, count: int) -> list[int]:
        now_ms = self._clock.now_ms()
        if given is None:
            return [now_ms] * count
        micros = given.cast(pa.int64()).to_pylist()
        return [now_ms if value is None else value // 1000 for value in micros]


def _headers(column: Any) -> list[Any]:
    """Return the headers of each row. Raises RecordsRefused for a header without a key."""
    names, _ = column.flatten().flatten()  # a null header has a null key here
    if names.null_count:
        raise RecordsRefused(
            "the column headers has a header whose key is null, which Kafka does not allow: drop "
            "it with filter(headers, h -> h.key is not null)"
        )
    found: list[Any] = column.to_pylist()
    return found


def _binary(column: Any) -> Any:
    """Return a column of strings or bytes as a pyarrow.BinaryArray."""
    return column if column.type == pa.binary() else column.cast(pa.binary())
