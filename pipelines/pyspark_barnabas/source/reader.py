"""The batch source, and what any task does to read its range of offsets over the wire.

A task owns one connection and one range; `pyspark_barnabas.wire.fetcher` brings the batches, and
here they become columns. Control batches, and with read_committed aborted ones, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.offsets import Range, batch_ranges, lose, partitions_of, remade, split
from pyspark_barnabas.options import SourceOptions
from pyspark_barnabas.plain_errors import plainly
from pyspark_barnabas.wire.batches import Batch, Visibility
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.errors import CorruptBatch
from pyspark_barnabas.wire.fetcher import Fetcher, FetchPlan, located
from pyspark_barnabas.wire.protocol import Fetched


@dataclass
class LogPartition(InputPartition):
    """What one task reads; without a topic id it is not checked that it is still that topic."""

    range: Range
    topic_id: str = ""


@plainly
class WireReader(DataSourceReader):
    """Reads ranges of offsets that are fixed when the query is planned."""

    def __init__(self, columns: Sequence[str], options: SourceOptions) -> None:
        self._columns = list(columns)
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the cluster where the ranges begin and end."""
        with Cluster(self._options.cluster) as cluster:
            subscribed = partitions_of(cluster, self._options.subscription)
            # Before the offsets: of a topic that is made anew meanwhile they must not be taken.
            topic_ids = cluster.topic_ids(topic for topic, _ in subscribed)
            ranges = batch_ranges(cluster, self._options)
        return tasks(ranges, self._options, topic_ids)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one range as pyarrow.RecordBatch."""
        if isinstance(partition, LogPartition):  # for no partitions Spark makes one with nothing
            yield from read_range(self._options, self._columns, partition)


def tasks(
    ranges: list[Range], options: SourceOptions, topic_ids: Mapping[str, str]
) -> list[InputPartition]:
    """Return one input partition for each range, cut as minPartitions asks."""
    cut = split(ranges, options.partitions_min, options.records_per_partition_max)
    return [LogPartition(part, topic_ids.get(part.topic, "")) for part in cut]


def read_range(
    options: SourceOptions, columns: Sequence[str], planned: LogPartition
) -> Iterator[Any]:
    """Yield the records of a range in RecordBatches of `columns`, in the order of the log.

    Offsets that are gone, or of a topic that was made anew since the range was planned, raise
    DataLost; with failOnDataLoss=false they are passed over.
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
    """Yield (response, its whole batches) until the range ends; the outer ones may overhang.

    Raises CorruptBatch; offsets that are gone, and another topic id, as in `read_range`.
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
        what = remade_since(cluster, planned)
    if what:
        lose(options, what)


def remade_since(cluster: Cluster, planned: LogPartition) -> str:
    """Return the words for a topic that was made anew since it was planned; "" for the same one.

    An id never comes back: if it is the same after the last fetch, it was at all of them.
    """
    topic, known = planned.range.topic, planned.topic_id
    now = cluster.topic_ids([topic], fresh=True).get(topic, known) if known else known
    return "" if now == known else remade(topic, known, now)
