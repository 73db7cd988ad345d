"""The batch source of a data directory: `.option("path", DIR)`, without a broker.

The driver lists the segments and cuts them into tasks (`pyspark_barnabas.source.offline_plan`); a
task walks its part of the files (`pyspark_barnabas.source.segments`) and decodes it as what comes
over the wire is decoded. Every batch is held against its CRC.

Damage is an error (onDamage=fail), is left out with a line in the executor's log (skip), or is a
row (rows): its columns topic, partition and offset say where in the topic, the offset being the
first that cannot be read, `damage` says the rest, and all other columns are null. A row of a
record has null as its damage.

Nothing is written, and no lock is taken: a broker may run on the directory. What it appends after
the query was planned is not seen; what it deletes meanwhile fails the query (DataLost).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_barnabas.columns import Decoder, arrow_schema
from pyspark_barnabas.offsets import lose
from pyspark_barnabas.options import OfflineOptions
from pyspark_barnabas.plain_errors import plainly
from pyspark_barnabas.source.offline_log import CURE, DataDirectory
from pyspark_barnabas.source.offline_plan import Span, Task, plan
from pyspark_barnabas.source.segments import FORMAT, RECORDS, Damage, Piece, walk
from pyspark_barnabas.source.transactions import CommittedOnly
from pyspark_barnabas.wire.batches import Batch, Visibility
from pyspark_barnabas.wire.errors import BadOption, CorruptBatch, DamagedLog

_log = logging.getLogger(__name__)
DAMAGE: Final = pa.struct(
    [
        pa.field("kind", pa.string()),
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("size", pa.int64()),
        pa.field("next_offset", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)


@dataclass
class FilePartition(InputPartition):
    """What one task reads."""

    task: Task


@plainly
class OfflineReader(DataSourceReader):
    """Reads ranges of offsets, fixed when the query is planned, from segment files."""

    def __init__(self, columns: Sequence[str], options: OfflineOptions) -> None:
        if (options.on_damage == "rows") != ("damage" in columns):
            raise BadOption(
                "the column damage and onDamage=rows go together: name the column in the schema, "
                "or choose onDamage=fail or skip"
            )
        self._columns = list(columns)
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Look where the ranges begin and end, and cut them into tasks."""
        directory = DataDirectory(self._options.path, tolerant=self._options.on_damage != "fail")
        return [FilePartition(task) for task in plan(directory, self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one task as pyarrow.RecordBatch."""
        if isinstance(partition, FilePartition):  # for none Spark makes one with nothing
            yield from TaskReader(self._columns, self._options, partition.task).read()


class TaskReader:
    """Reads one task's spans, in the order of the log."""

    def __init__(self, columns: Sequence[str], options: OfflineOptions, task: Task) -> None:
        self._options = options
        self._task = task
        self._columns = list(columns)
        self._wants_damage = "damage" in columns
        wanted = [name for name in columns if name != "damage"]
        self._decoder = Decoder(
            wanted or ["offset"],  # something must say how many rows there are
            task.topic,
            task.partition,
            batch_bytes_max=options.batch_bytes_max,
            batch_headers_max=options.batch_headers_max,
        )
        self._schema = arrow_schema(wanted) if not self._wants_damage else damage_schema(columns)
        isolation = options.isolation
        self._sight = CommittedOnly(task.aborted) if isolation else Visibility()

    def read(self) -> Iterator[Any]:
        """Yield RecordBatches. Raises DamagedLog, DataLost."""
        for span in self._task.spans:
            try:
                yield from self._read_span(span)
            except FileNotFoundError:
                lose(
                    self._options,
                    f"{span.segment.path} is gone since the query was planned: a broker that runs "
                    "on the directory deletes and compacts. Run the query again, or read a copy",
                )

    def _read_span(self, span: Span) -> Iterator[Any]:
        end = self._task.end
        walked = walk(
            span.segment,
            start=span.start,
            end=span.end,
            next_offset=span.next_offset,
            end_offset=span.end_offset,
        )
        for found in walked:
            if isinstance(found, Damage):
                if self._concerns(found, span):
                    yield from self._tell(found)
                continue
            batches = found.batches
            if end is not None and batches[-1].last_offset >= end:
                batches = [batch for batch in batches if batch.base_offset < end]
            yield from self._read_piece(span, found._replace(batches=batches))
            if len(batches) < len(found.batches):
                return  # what is behind is another task's, and its transactions are not known here

    def _concerns(self, damage: Damage, span: Span) -> bool:
        """Whether offsets that are to be read may lie in it."""
        next_offset = damage.next_offset if damage.next_offset >= 0 else span.end_offset
        is_before = next_offset is not None and next_offset <= self._task.start
        return not is_before and (self._task.end is None or damage.offset < self._task.end)

    def _read_piece(self, span: Span, piece: Piece) -> Iterator[Any]:
        try:
            visible = [batch for batch in piece.batches if self._sight.sees(piece.data, batch)]
        except DamagedLog as error:
            raise DamagedLog(f"{span.segment.path}: {error}") from None
        except CorruptBatch as error:
            # A control batch without its record: who is hidden behind it is not known.
            raise DamagedLog(str(self._of_records(span, piece, error))) from None
        task = self._task
        if self._options.on_damage == "fail":
            try:
                for table in self._decoder.decode(piece.data, visible, task.start, task.end):
                    yield self._shaped(table)
            except CorruptBatch as error:
                yield from self._tell(self._of_records(span, piece, error))
            return
        yield from self._decode_around(span, piece, visible)

    def _decode_around(self, span: Span, piece: Piece, visible: list[Batch]) -> Iterator[Any]:
        """Decode all that can be; where one batch cannot, each is tried by itself."""
        task = self._task
        try:
            tables = list(self._decoder.decode(piece.data, visible, task.start, task.end))
        except CorruptBatch as error:
            if len(visible) == 1:
                yield from self._tell(self._of_records(span, piece, error))
                return
            for batch in visible:
                yield from self._decode_around(span, piece, [batch])
            return
        for table in tables:
            yield self._shaped(table)

    def _of_records(self, span: Span, piece: Piece, error: CorruptBatch) -> Damage:
        """Name damage inside a batch whose CRC is right."""
        (batch,) = [one for one in piece.batches if one.position == error.position]
        segment = span.segment
        return Damage(
            RECORDS, segment.path, segment.topic, segment.partition,
            piece.position + batch.position, batch.size, batch.base_offset, batch.last_offset + 1,
            error.reason,
        )  # fmt: skip

    def _tell(self, damage: Damage) -> Iterator[Any]:
        if self._options.on_damage == "fail":
            cure = _OLD_CURE if damage.kind == FORMAT else CURE
            raise DamagedLog(f"{damage}. {cure}")
        if self._options.on_damage == "skip":
            _log.warning("left out: %s", damage)
            return
        row = {
            "topic": damage.topic,
            "partition": damage.partition,
            "offset": damage.offset,
            "damage": {
                "kind": damage.kind,
                "file": damage.path,
                "position": damage.position,
                "size": damage.size,
                "next_offset": damage.next_offset,
                "reason": damage.reason,
            },
        }
        given = {name: row.get(name) for name in self._columns}
        yield pa.RecordBatch.from_pylist([given], schema=self._schema)

    def _shaped(self, table: Any) -> Any:
        """Add the column `damage` where it is asked for."""
        if not self._wants_damage:
            return table
        nothing = pa.nulls(table.num_rows, DAMAGE)
        arrays = [nothing if name == "damage" else table[name] for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def damage_schema(columns: Sequence[str]) -> Any:
    """Return the pyarrow.Schema of columns of which one is `damage`."""
    fields = {field.name: field for field in arrow_schema([n for n in columns if n != "damage"])}
    fields["damage"] = pa.field("damage", DAMAGE)
    return pa.schema([fields[name] for name in columns])


_OLD_CURE = (
    "They are not read over the wire either. To read what is behind them start at a later offset, "
    "or set onDamage=skip"
)
