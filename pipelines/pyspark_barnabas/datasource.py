"""The format "barnabas": what Spark finds, and which class serves each kind of query.

    spark.read.format("barnabas").option("kafka.bootstrap.servers", ...).option("subscribe", ...)

Spark 4 finds `pyspark_barnabas.DefaultSource` by itself in drivers and executors that have this
distribution installed; `spark.dataSource.register(BarnabasDataSource)` does the same by hand.

The columns are those of Spark's own Kafka source. Spark does not tell a Python source which columns
a query uses; to decode fewer, name them: `.schema("key binary, offset long")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_barnabas.known_options import warn_without_effect
from pyspark_barnabas.plain_errors import plainly
from pyspark_barnabas.wire.errors import BadOption

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADERS: Final = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
COLUMNS: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}


@plainly
class BarnabasDataSource(DataSource):
    """Topics of any Kafka broker, as tables and streams to read and write."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "barnabas"

    def schema(self) -> StructType:
        """Return the columns of Spark's Kafka source; `headers` only with includeHeaders."""
        from pyspark_barnabas.options import include_headers

        has_headers = include_headers(self.options)
        found = StructType()
        for name, kind in COLUMNS.items():
            if name != "headers" or has_headers:
                found = found.add(name, kind)
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch source."""
        from pyspark_barnabas.options import source_options
        from pyspark_barnabas.source.reader import WireReader

        options = source_options(self.options, streaming=False)
        warn_without_effect(self.options, "a batch read")
        return WireReader(_names(schema), options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the streaming source."""
        from pyspark_barnabas.source.stream import WireStreamReader

        return WireStreamReader(_names(schema), self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
        """Return the batch sink. Raises BadOption for overwrite: a log is only appended to."""
        from pyspark_barnabas.options import sink_options
        from pyspark_barnabas.sink.writer import WireWriter

        if overwrite:
            raise BadOption(
                'mode overwrite is impossible: a log is only appended to, use mode("append")'
            )
        options = sink_options(self.options)
        if options.exactly_once:
            raise BadOption(
                "exactlyOnce is for streams: a batch write has no id under which Spark would "
                "repeat it. Write without the option, or with writeStream"
            )
        warn_without_effect(self.options, "a batch write")
        return WireWriter(schema, options)

    def streamWriter(  # noqa: N802 - Spark's
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002, FBT001
    ) -> DataSourceStreamWriter:
        """Return the streaming sink; as in Spark's, output mode complete appends all rows again."""
        from pyspark_barnabas.options import sink_options
        from pyspark_barnabas.sink.writer import WireStreamWriter

        options = sink_options(self.options)
        warn_without_effect(self.options, "a streaming write")
        return WireStreamWriter(schema, options)


def _names(schema: StructType) -> Sequence[str]:
    """Return the column names of a schema, which may be the user's. Raises BadOption."""
    for field in schema.fields:
        wanted = COLUMNS.get(field.name)
        if wanted is None or field.dataType != wanted:
            known = ", ".join(f"{name} {kind.simpleString()}" for name, kind in COLUMNS.items())
            raise BadOption(
                f"the schema has {field.name} {field.dataType.simpleString()}; a topic has {known}"
            )
    return schema.names
