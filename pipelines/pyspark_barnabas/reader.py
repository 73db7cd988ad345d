"""The batch source, and what any task does to read its range of offsets over the wire.

A task owns one connection and one range; `pyspark_barnabas.fetcher` brings the batches, and here
they become columns. Control batches, and with read_committed aborted ones, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_barnabas.batches import Batch, Visibility
from pyspark_barnabas.cluster import connect
from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.errors import CorruptBatch
from pyspark_barnabas.fetcher import Fetcher, FetchPlan, located
from pyspark_barnabas.offsets import Range, batch_ranges, lose, split
from pyspark_barnabas.options import SourceOptions
from pyspark_barnabas.protocol import Fetched


@dataclass
class LogPartition(InputPartition):
    """What one task reads."""

    range: Range


class WireReader(DataSourceReader):
    """Reads ranges of offsets that are fixed when the query is planned."""

    def __init__(self, columns: Sequence[str], options: SourceOptions) -> None:
        self._columns = list(columns)
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the cluster where the ranges begin and end."""
        with connect(self._options.cluster) as cluster:
            ranges = batch_ranges(cluster, self._options)
        return tasks(ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one range as pyarrow.RecordBatch."""
        if isinstance(partition, LogPartition):  # for no partitions Spark makes one with nothing
            yield from read_range(self._options, self._columns, partition.range)


def tasks(ranges: list[Range], options: SourceOptions) -> list[InputPartition]:
    """Return one input partition for each range, cut as minPartitions asks."""
    cut = split(ranges, options.partitions_min, options.records_per_partition_max)
    return [LogPartition(part) for part in cut]


def read_range(options: SourceOptions, columns: Sequence[str], part: Range) -> Iterator[Any]:
    """Yield the records of `part` in RecordBatches of `columns`, in the order of the log.

    Offsets that are gone raise DataLost, or with failOnDataLoss=false are passed over.
    """
    decoder = Decoder(columns, part.topic, part.partition, batch_bytes_max=options.batch_bytes_max)
    for fetched, batches in fetch_range(options, part):
        sight = Visibility(fetched.aborted if options.isolation else ())
        visible = [batch for batch in batches if sight.sees(fetched.data, batch)]
        try:
            yield from decoder.decode(fetched.data, visible, part.start, part.end)
        except CorruptBatch as error:
            raise located(error, fetched, batches, f"{part.topic}-{part.partition}") from None


def fetch_range(options: SourceOptions, part: Range) -> Iterator[tuple[Fetched, list[Batch]]]:
    """Yield (response, its whole batches) until `part` ends; the first and the last may overhang.

    Raises CorruptBatch; offsets that are gone as in `read_range`.
    """
    plan = FetchPlan(
        options.cluster.timeout_ms,
        options.fetch_wait_ms,
        options.fetch_bytes,
        options.isolation,
        lambda what: lose(options, what),
    )
    with connect(options.cluster) as cluster:
        yield from Fetcher(cluster, plan, part.topic, part.partition, part.start, part.end)
