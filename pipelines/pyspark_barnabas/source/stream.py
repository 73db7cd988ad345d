"""The streaming source: offset maps in Spark's form, micro-batches between two of them.

Spark keeps one `WireStreamReader` to plan a query (offsets, limits) and creates others that only
`read`, so an input partition holds everything a read needs.

Start. A batch starts where the previous one ended, by Spark's checkpoint. If a query is restarted
before its first batch is done, Spark asks for the first batch's start again. A start at the end of
the log (startingOffsets=latest) would have moved by then, and the records in between would be lost.
So a query that starts at the end begins with an empty batch, which puts the starting offsets into
the checkpoint.

Topics. Offsets carry the ids of their topics, so a topic that was deleted and created again counts
as a different one, however many records it has. That is data loss; with failOnDataLoss=false the
new topic is read from its beginning. Offsets in an older checkpoint carry no ids; the next batch
adds them.

Limits. `maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and Trigger.AvailableNow need PySpark 4.2,
which tells a source where a batch starts; a source waits for more by returning that start again.
Progress shows `latestOffset` beside `endOffset`: their difference is the lag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_barnabas.clock import Clock
from pyspark_barnabas.known_options import warn_without_effect
from pyspark_barnabas.offsets import (
    Offsets,
    Range,
    from_json,
    limited,
    lose,
    partitions_of,
    recreated,
    resolve,
    to_json,
    topic_ids_of,
    waiting,
)
from pyspark_barnabas.options import SourceOptions, source_options
from pyspark_barnabas.plain_errors import plainly
from pyspark_barnabas.source.reader import LogPartition, read_range, tasks
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.errors import BadOption
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST

try:
    _limits: Any = import_module("pyspark.sql.streaming.datasource")
except ImportError:  # PySpark < 4.2
    _limits = None
_AvailableNow: Any = getattr(_limits, "SupportsTriggerAvailableNow", object)
HAS_LIMITS = _AvailableNow is not object


class _End(NamedTuple):
    """The ends of topics, and the topics' ids."""

    topic_ids: dict[str, str]
    offsets: Offsets


@plainly
class WireStreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """Reads a topic as it grows."""

    def __init__(
        self, columns: Sequence[str], given: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self._columns = list(columns)
        self._given = dict(given)
        self._cluster: Cluster | None = None
        self._held: dict[str, Any] | None = None  # starting offsets whose first batch is empty
        self._target: _End | None = None  # where Trigger.AvailableNow ends
        self._warned: set[str] = set()  # topics created again, already warned of
        self._reported: Offsets = {}
        self._clock = clock or Clock()
        self._triggered_ms: int | None = None  # when a batch was last not held back

    @cached_property
    def _options(self) -> SourceOptions:
        """The options, read at first use: Spark hides what is raised while a reader is made."""
        options = source_options(self._given, streaming=True)
        if options.offsets_per_trigger_max is not None and not HAS_LIMITS:
            raise BadOption("maxOffsetsPerTrigger needs PySpark 4.2 or later")
        if options.offsets_per_trigger_min is not None and not HAS_LIMITS:
            raise BadOption("minOffsetsPerTrigger needs PySpark 4.2 or later")
        return options

    # -- in the query's planner -------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Return where a query begins that has no checkpoint."""
        partitions = partitions_of(self._way(), self._options.subscription)
        topic_ids = self._way().topic_ids(topic for topic, _ in partitions)
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
        found = to_json(starts, topic_ids)
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
        """Return the limit of maxOffsetsPerTrigger, or else of minOffsetsPerTrigger."""
        if self._options.offsets_per_trigger_max is not None:
            return _limits.ReadMaxRows(self._options.offsets_per_trigger_max)
        if self._options.offsets_per_trigger_min is not None:
            return _limits.ReadMinRows(self._options.offsets_per_trigger_min)
        return _limits.ReadAllAvailable()

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends; without a start (PySpark < 4.2), the end of the log."""
        if self._held is not None:
            held, self._held = self._held, None
            if start is None or from_json(start) == from_json(held):
                return held
        topic_ids, latest = self._target or self._end()
        self._reported = latest
        known = self._same_topics(start or {}, topic_ids)
        self._require_not_before(known, latest)
        rows_max = getattr(limit, "max_rows", None)
        if start is None or (rows_max is None and not hasattr(limit, "min_rows")):
            return to_json(latest, topic_ids)
        fresh = [at for at in latest if at not in known]
        earliest = self._way().list_offsets(dict.fromkeys(fresh, EARLIEST)) if fresh else {}
        if self._holds_back(sum(waiting(known, latest, earliest).values())):
            return dict(start)
        if rows_max is None:
            return to_json(latest, topic_ids)
        return to_json(limited(known, latest, earliest, rows_max), topic_ids)

    def _holds_back(self, waiting_count: int) -> bool:
        """Whether to wait for more offsets. With Trigger.AvailableNow none will come."""
        least = self._options.offsets_per_trigger_min
        if least is None or self._target is not None:
            return False
        now_ms, delay_ms = self._clock.elapsed_ms(), self._options.trigger_delay_ms_max
        is_early = self._triggered_ms is not None and now_ms - self._triggered_ms < delay_ms
        if is_early and waiting_count < least:
            return True
        self._triggered_ms = now_ms
        return False

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's
        """Return the log's end for the query's progress; minus endOffset, it is the lag."""
        return to_json(self._reported) if self._reported else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        """Fix the offsets at which the query will end."""
        self._target = self._end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges between two offset maps."""
        topic_ids = topic_ids_of(end)
        begins, ends = self._same_topics(start, topic_ids), from_json(end)
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
        return tasks([part for part in ranges if part.count > 0], self._options, topic_ids)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint keeps the offsets, and no group does."""

    def stop(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()

    def _way(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster(self._options.cluster)
            warn_without_effect(self._given, "a stream")
        return self._cluster

    def _end(self) -> _End:
        """Return the ends of the subscribed topics; asks for the ids before the ends."""
        partitions = partitions_of(self._way(), self._options.subscription)
        topic_ids = self._way().topic_ids(topic for topic, _ in partitions)
        return _End(topic_ids, self._latest(dict.fromkeys(partitions, 0)))

    def _latest(self, partitions: Offsets) -> Offsets:
        if not partitions:
            return {}
        return self._way().list_offsets(dict.fromkeys(partitions, LATEST), self._options.isolation)

    def _same_topics(self, start: dict[str, Any], topic_ids: Mapping[str, str]) -> Offsets:
        """Return the offsets of `start`, without topics that were created again since."""
        found = from_json(start)
        for topic, known in topic_ids_of(start).items():
            now = topic_ids.get(topic, known)
            if now == known:
                continue
            if topic not in self._warned:
                self.lose_topic(recreated(topic, known, now))
                self._warned.add(topic)
            found = {at: offset for at, offset in found.items() if at[0] != topic}
        return found

    def lose_topic(self, what: str) -> None:
        """Raise DataLost for a topic that was created again, or warn with failOnDataLoss=false."""
        lose(self._options, f"{what}. With failOnDataLoss=false it is read from its beginning")

    def _require_not_before(self, known: Offsets, latest: Offsets) -> None:
        """Raise DataLost if a partition is gone, or shorter than what was read of it."""
        for at, offset in known.items():
            if at not in latest:
                lose(self._options, f"partition {at[0]}-{at[1]} is gone, read up to {offset}")
            elif latest[at] < offset:
                lose(
                    self._options,
                    f"{at[0]}-{at[1]} ends at offset {latest[at]} and was read up to {offset}",
                )

    # -- in a task --------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the records of one range as pyarrow.RecordBatch."""
        if isinstance(partition, LogPartition):  # with no partitions Spark passes an empty one
            yield from read_range(self._options, self._columns, partition)
