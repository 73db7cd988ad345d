"""The streaming source: offset maps in Spark's form, micro-batches between two of them.

Spark keeps one `WireStreamReader` for a query's planning (offsets, limits) and makes others that
only `read`; all that a read needs is therefore in its input partition.

Where it starts. A batch's start is the end of the one before, from Spark's checkpoint; the first
batch's start is asked for again when the query is restarted before its first batch was done. A
start at the end of the log (startingOffsets=latest) would by then have moved, and what lay between
would be lost. So a query that starts at the end begins with an empty batch, which writes the
starting offsets into the checkpoint, and nothing can be lost before it.

Limits. `maxOffsetsPerTrigger` and Trigger.AvailableNow need PySpark 4.2, which tells a source
where a batch starts. Progress shows `latestOffset` beside `endOffset`: their difference is the lag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_barnabas.cluster import Cluster, connect
from pyspark_barnabas.errors import BadOption
from pyspark_barnabas.offsets import (
    Offsets,
    Range,
    from_json,
    limited,
    lose,
    partitions_of,
    resolve,
    to_json,
)
from pyspark_barnabas.options import SourceOptions, source_options
from pyspark_barnabas.protocol import EARLIEST, LATEST
from pyspark_barnabas.reader import LogPartition, read_range, tasks

try:
    _limits: Any = import_module("pyspark.sql.streaming.datasource")
except ImportError:  # PySpark < 4.2
    _limits = None
_AvailableNow: Any = getattr(_limits, "SupportsTriggerAvailableNow", object)
HAS_LIMITS = _AvailableNow is not object


class WireStreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """Reads a topic as it grows."""

    def __init__(self, columns: Sequence[str], given: Mapping[str, str]) -> None:
        self._columns = list(columns)
        self._given = dict(given)
        self._cluster: Cluster | None = None
        self._held: dict[str, Any] | None = None  # starting offsets whose first batch is empty
        self._target: Offsets | None = None  # where Trigger.AvailableNow ends
        self._reported: Offsets = {}

    @cached_property
    def _options(self) -> SourceOptions:
        """The options, read at first use: Spark hides what is raised while a reader is made."""
        options = source_options(self._given, streaming=True)
        if options.offsets_per_trigger_max is not None and not HAS_LIMITS:
            raise BadOption("maxOffsetsPerTrigger needs PySpark 4.2 or later")
        return options

    # -- in the query's planner -------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return where a query begins that has no checkpoint."""
        partitions = partitions_of(self._way(), self._options.subscription)
        starts = resolve(self._way(), self._options.starting, partitions, self._options.isolation)
        ends = self._latest(starts)
        for (topic, partition), start in starts.items():
            if start > ends[topic, partition]:
                lose(
                    self._options,
                    f"{topic}-{partition} ends at offset {ends[topic, partition]}, but "
                    f"{self._options.starting.name} asks for {start}",
                )
                starts[topic, partition] = ends[topic, partition]
        found = to_json(starts)
        if self._starts_at_the_end(starts, ends):
            self._held = found
        return found

    def _starts_at_the_end(self, starts: Offsets, ends: Offsets) -> bool:
        place = self._options.starting
        by_name = place.everywhere == LATEST if place.kind == "everywhere" else False
        in_json = place.kind == "offsets" and any(offset == LATEST for _, offset in place.each)
        by_time = place.latest_when_none and any(starts[at] == ends[at] for at in starts)
        return by_name or in_json or by_time

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's
        """Return the limit of maxOffsetsPerTrigger."""
        if self._options.offsets_per_trigger_max is None:
            return _limits.ReadAllAvailable()
        return _limits.ReadMaxRows(self._options.offsets_per_trigger_max)

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends; without a start (PySpark < 4.2), where the log does."""
        if self._held is not None:
            held, self._held = self._held, None
            if start is None or from_json(start) == from_json(held):
                return held
        cluster = self._way()
        known = from_json(start) if start else {}
        partitions = partitions_of(cluster, self._options.subscription)
        latest = self._target or self._latest(dict.fromkeys(partitions, 0))
        self._reported = latest
        latest = self._not_before(known, latest)
        rows_max = getattr(limit, "max_rows", None)
        if rows_max is None or start is None:
            return to_json(latest)
        fresh = [at for at in latest if at not in known]
        earliest = cluster.list_offsets(dict.fromkeys(fresh, EARLIEST)) if fresh else {}
        return to_json(limited(known, latest, earliest, rows_max))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's
        """Return the log's end for the query's progress: minus endOffset, that is the lag."""
        return to_json(self._reported) if self._reported else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Fix the end that the query runs to."""
        partitions = partitions_of(self._way(), self._options.subscription)
        self._target = self._latest(dict.fromkeys(partitions, 0))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges between two offset maps."""
        begins, ends = from_json(start), from_json(end)
        fresh = [at for at in ends if at not in begins]
        earliest = self._way().list_offsets(dict.fromkeys(fresh, EARLIEST)) if fresh else {}
        for (topic, partition), offset in earliest.items():
            if offset > 0:
                lose(
                    self._options,
                    f"partition {topic}-{partition} is new and begins at offset {offset}, not at 0",
                )
        ranges = [
            Range(*at, begins.get(at, earliest.get(at, 0)), offset)
            for at, offset in sorted(ends.items())
        ]
        return tasks([part for part in ranges if part.count > 0], self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: offsets are kept in Spark's checkpoint, and in no group."""

    def stop(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()

    def _way(self) -> Cluster:
        if self._cluster is None:
            self._cluster = connect(self._options.cluster)
        return self._cluster

    def _latest(self, partitions: Offsets) -> Offsets:
        if not partitions:
            return {}
        return self._way().list_offsets(dict.fromkeys(partitions, LATEST), self._options.isolation)

    def _not_before(self, known: Offsets, latest: Offsets) -> Offsets:
        """Return `latest` without going back; partitions gone or shorter are data lost."""
        found = dict(latest)
        for at, offset in known.items():
            if at not in latest:
                lose(self._options, f"partition {at[0]}-{at[1]} is gone, read up to {offset}")
            elif latest[at] < offset:
                lose(
                    self._options,
                    f"{at[0]}-{at[1]} ends at offset {latest[at]} and was read up to {offset}",
                )
        return found

    # -- in a task --------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one range as pyarrow.RecordBatch."""
        if isinstance(partition, LogPartition):  # for no partitions Spark makes one with nothing
            yield from read_range(self._options, self._columns, partition.range)
