"""A source of ready tables: how fast rows cross from Python into a query when nothing is read.

It decodes one piece of each segment's file once and gives the same table out again until as many
rows have gone as a reader of the directory gives. What a query takes with it no source in Python
can go below; the rest, up to what the true readers take, is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from pyspark_barnabas.datasource import BarnabasDataSource
from pyspark_barnabas.options import offline_options
from pyspark_barnabas.source.offline import FilePartition, OfflineReader
from pyspark_barnabas.source.segments import CHUNK_BYTES


class FloorSource(BarnabasDataSource):
    """As many rows as the directory has, and as large, all alike."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def reader(self, schema: StructType) -> DataSourceReader:
        return FloorReader(OfflineReader(schema.names, offline_options(self.options)))


class FloorReader(DataSourceReader):
    """Gives one table of each task again and again."""

    def __init__(self, reader: OfflineReader) -> None:
        self._reader = reader

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, FilePartition)
        table = next(self._reader.read(partition))
        size = sum(span.size for span in partition.task.spans)
        for _ in range(max(1, round(size / CHUNK_BYTES))):
            yield table
