"""A source of ready tables: the speed of rows from Python into a query without reading.

A task fetches and decodes the first table of its range, and returns it again and again until it has
returned as many rows as the range has offsets. No Python source can be faster; the rest of the
real source's time is reading and decoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from pyspark_barnabas.datasource import BarnabasDataSource
from pyspark_barnabas.options import source_options
from pyspark_barnabas.source.reader import LogPartition, WireReader


class FloorSource(BarnabasDataSource):
    """As many rows as the topic has, of the same size, all alike."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def reader(self, schema: StructType) -> DataSourceReader:
        return FloorReader(WireReader(schema.names, source_options(self.options, streaming=False)))


class FloorReader(DataSourceReader):
    """Returns the first table of each task again and again."""

    def __init__(self, reader: WireReader) -> None:
        self._reader = reader

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, LogPartition)
        table = next(self._reader.read(partition))
        for _ in range(max(1, round(partition.range.count / table.num_rows))):
            yield table
