"""The batch source, and how a task of any source reads its range of offsets.

A task owns one range and one connection. `pyspark_barnabas.wire.fetcher` fetches the batches; here
they become columns, without control batches and, with read_committed, without aborted ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.offsets import Range, batch_ranges, lose, partitions_of, recreated, split
from pyspark_barnabas.options import SourceOptions
from pyspark_barnabas.plain_errors import plainly
from pyspark_barnabas.wire.batches import Batch, Visibility
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.errors import CorruptBatch
from pyspark_barnabas.wire.fetcher import Fetcher, FetchPlan, located
from pyspark_barnabas.wire.protocol import Fetched


@dataclass
class LogPartition(InputPartition):
    """What one task reads; without a topic id it does not check that the topic is the same."""

    range: Range
    topic_id: str = ""


@plainly
class WireReader(DataSourceReader):
    """Reads ranges of offsets that planning fixed."""

    def __init__(self, columns: Sequence[str], options: SourceOptions) -> None:
        self._columns = list(columns)
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the cluster where the ranges begin and end."""
        with Cluster(self._options.cluster) as cluster:
            subscribed = partitions_of(cluster, self._options.subscription)
            # Ask before the offsets, in case the topic is created again in between.
            topic_ids = cluster.topic_ids(topic for topic, _ in subscribed)
            ranges = batch_ranges(cluster, self._options)
        return tasks(ranges, self._options, topic_ids)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one range as pyarrow.RecordBatch."""
        if isinstance(partition, LogPartition):  # with no partitions Spark passes an empty one
            yield from read_range(self._options, self._columns, partition)


def tasks(
    ranges: list[Range], options: SourceOptions, topic_ids: Mapping[str, str]
) -> list[InputPartition]:
    """Return an input partition for each range, split as the options say."""
    cut = split(ranges, options.partitions_min, options.records_per_partition_max)
    return [LogPartition(part, topic_ids.get(part.topic, "")) for part in cut]


def read_range(
    options: SourceOptions, columns: Sequence[str], planned: LogPartition
) -> Iterator[Any]:
    """Yield the records of a range in RecordBatches of `columns`, in the order of the log.

    Raises DataLost for offsets that are gone, and for a topic that was created again since the
    range was planned; with failOnDataLoss=false they are skipped.
    """
    part = planned.range
    decoder = Decoder(
        columns,
        part.topic,
        part.partition,
        batch_bytes_max=options.batch_bytes_max,
        batch_headers_max=options.batch_headers_max,
    )
    for fetched, batches in fetch_range(options, planned):
        sight = Visibility(fetched.aborted if options.isolation else ())
        visible = [batch for batch in batches if sight.sees(fetched.data, batch)]
        try:
            yield from decoder.decode(fetched.data, visible, part.start, part.end)
        except CorruptBatch as error:
            raise located(error, fetched, batches, f"{part.topic}-{part.partition}") from None


def fetch_range(
    options: SourceOptions, planned: LogPartition
) -> Iterator[tuple[Fetched, list[Batch]]]:
    """Yield (response, its whole batches) until the range ends; the outer batches may exceed it.

    Raises CorruptBatch, and DataLost as `read_range` does.
    """
    part = planned.range
    plan = FetchPlan(
        options.cluster.timeout_ms,
        options.fetch_wait_ms,
        options.fetch_bytes,
        options.isolation,
        lambda what: lose(options, what),
    )
    with Cluster(options.cluster) as cluster:
        yield from Fetcher(cluster, plan, part.topic, part.partition, part.start, part.end)
        what = recreated_since(cluster, planned)
    if what:
        lose(options, what)


def recreated_since(cluster: Cluster, planned: LogPartition) -> str:
    """Return the text for a topic that was created again since planning; "" if it is the same.

    Ids are never reused: if the id is the same after the last fetch, it was for all of them.
    """
    topic, known = planned.range.topic, planned.topic_id
    now = cluster.topic_ids([topic], fresh=True).get(topic, known) if known else known
    return "" if now == known else recreated(topic, known, now)
