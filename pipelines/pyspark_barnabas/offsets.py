"""Which partitions, from which offset to which: options and a cluster's answers made numbers.

An offset map, in Spark's progress and checkpoints as in options, has Spark's form:
`{"topic": {"0": 23, "1": 7}}`. In code it is a dict from (topic, partition) to the next offset to
read. A stream's map also has the ids of its topics, `{"@topicIds": {"topic": "ZS4…"}}`, under a
name that no topic can have; maps without ids are accepted. The rules for rate limits and for
splitting follow Spark's KafkaMicroBatchStream and KafkaOffsetRangeCalculator, so a stream moves in
the same steps with either source.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark_barnabas.options import TOPIC_IDS, Place, SourceOptions, Subscription
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.errors import BadOption, DataLost, UnknownTopic
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST, TopicPartition

Offsets = dict[TopicPartition, int]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Range:
    """Offsets of one partition: `start` inclusive, `end` exclusive."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of offsets; there may be fewer records, for example in a compacted topic."""
        return self.end - self.start


def to_json(
    offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Return Spark's form of an offset map, sorted."""
    found: dict[str, dict[str, Any]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    if topic_ids:
        found[TOPIC_IDS] = dict(sorted(topic_ids.items()))
    return found


def from_json(value: Any) -> Offsets:
    """Read Spark's form of an offset map."""
    value = json.loads(value) if isinstance(value, str) else value
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in value.items()
        if topic != TOPIC_IDS
        for partition, offset in partitions.items()
    }


def topic_ids_of(value: Any) -> dict[str, str]:
    """Read the topics' ids in Spark's form of an offset map; older maps have none."""
    return dict((value or {}).get(TOPIC_IDS, {}))


def partitions_of(cluster: Cluster, subscription: Subscription) -> list[TopicPartition]:
    """Return the partitions that the subscription covers now. Raises UnknownTopic."""
    if subscription.assigned:
        names = list(dict.fromkeys(topic for topic, _ in subscription.assigned))
        known = cluster.topics(names)
        for topic, partition in subscription.assigned:
            if partition not in known[topic]:
                raise UnknownTopic(
                    f"assign names partition {partition} of {topic}, which has partitions "
                    f"{known[topic][0]} to {known[topic][-1]}"
                )
        return list(subscription.assigned)
    if subscription.topics:
        known = cluster.topics(subscription.topics)
    else:
        matches = re.compile(subscription.pattern).fullmatch
        known = {name: found for name, found in cluster.all_topics().items() if matches(name)}
    return sorted((topic, index) for topic, indexes in known.items() for index in indexes)


def resolve(
    cluster: Cluster, place: Place, partitions: Iterable[TopicPartition], isolation: int
) -> Offsets:
    """Return the offset of `place` in each partition. Raises BadOption."""
    wanted = list(partitions)
    if not wanted:
        return {}
    each = dict(place.each)
    if place.kind in ("offsets", "times") and set(each) != set(wanted):
        _refuse_partitions(place, set(each), set(wanted))
    if place.kind == "everywhere":
        return cluster.list_offsets(dict.fromkeys(wanted, place.everywhere), isolation)
    if place.kind == "offsets":
        ends = {at: offset for at, offset in each.items() if offset in (EARLIEST, LATEST)}
        return {**each, **(cluster.list_offsets(ends, isolation) if ends else {})}
    times = dict.fromkeys(wanted, place.everywhere) if place.kind == "time" else each
    found = cluster.list_offsets(times, isolation)
    late = [at for at in wanted if found[at] < 0]
    if late and not place.latest_when_none:
        (topic, partition) = late[0]
        raise BadOption(
            f"{place.name}: {topic}-{partition} has no record at or after {times[late[0]]} ms. "
            "Give an earlier time, or startingOffsetsByTimestampStrategy=latest to start at the end"
        )
    return {
        **found,
        **(cluster.list_offsets(dict.fromkeys(late, LATEST), isolation) if late else {}),
    }


def _refuse_partitions(
    place: Place, given: set[TopicPartition], wanted: set[TopicPartition]
) -> None:
    def names(partitions: set[TopicPartition]) -> str:
        return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)[:10])

    missing, foreign = wanted - given, given - wanted
    text = f"it lacks {names(missing)}" if missing else f"it also has {names(foreign)}"
    raise BadOption(
        f"{place.name} must name exactly the partitions that are subscribed to: {text}. "
        "Use -1 for latest and -2 for earliest"
    )


def batch_ranges(cluster: Cluster, options: SourceOptions) -> list[Range]:
    """Return the ranges a batch query reads. Raises DataLost for offsets not in the log."""
    return [part for part in every_range(cluster, options) if part.count > 0]


def every_range(cluster: Cluster, options: SourceOptions) -> list[Range]:
    """Return the range of each partition, also empty ones. Raises DataLost."""
    partitions = partitions_of(cluster, options.subscription)
    starts = resolve(cluster, options.starting, partitions, options.isolation)
    ends = resolve(cluster, options.ending, partitions, options.isolation)
    earliest = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST)) if partitions else {}
    latest = (
        cluster.list_offsets(dict.fromkeys(partitions, LATEST), options.isolation)
        if partitions
        else {}
    )
    found = []
    for at in partitions:
        start, end = starts[at], ends[at]
        if start < earliest[at] or start > latest[at] or end > latest[at]:
            name = options.starting.name if end <= latest[at] else options.ending.name
            lose(
                options,
                f"{at[0]}-{at[1]} holds offsets {earliest[at]} to {latest[at]} (exclusive), but "
                f"{name} asks for {start} to {end}",
            )
        found.append(Range(*at, max(start, earliest[at]), min(end, latest[at])))
    return found


def lose(options: SourceOptions, what: str) -> None:
    """Raise DataLost, or log a warning with failOnDataLoss=false."""
    if not options.fail_on_data_loss:
        _log.warning("%s; continuing, because failOnDataLoss=false", what)
    else:
        raise DataLost(
            f"{what}. Records may have expired, or the topic may have been created again. To read "
            "what there is, set failOnDataLoss=false"
        )


def recreated(topic: str, known: str, found: str) -> str:
    """Return the text for a topic whose id has changed."""
    return f"topic {topic} was deleted and created again: its id was {known} and is {found}"


def waiting(start: Offsets, latest: Offsets, earliest: Offsets) -> Offsets:
    """Return the number of unread offsets of each partition that has any.

    A partition that is new since `start` counts from `earliest`.
    """
    begins = {at: start.get(at, earliest.get(at, 0)) for at in latest}
    return {at: end - begins[at] for at, end in latest.items() if end > begins[at]}


def limited(start: Offsets, latest: Offsets, earliest: Offsets, offsets_max: int) -> Offsets:
    """Return `latest`, or less: `offsets_max` divided in proportion to what is unread.

    Each partition with unread offsets gets at least one, so the sum may exceed the limit by the
    number of partitions, as in Spark's source.
    """
    waits = waiting(start, latest, earliest)
    total = sum(waits.values())
    if total <= offsets_max:
        return dict(latest)
    shared = {}
    for at, end in latest.items():
        share = offsets_max * (waits.get(at, 0) / total)
        step = math.ceil(share) if share < 1 else math.floor(share)
        shared[at] = min(end, end - waits[at] + step) if at in waits else end
    return shared


def split(ranges: list[Range], partitions_min: int | None, records_max: int | None) -> list[Range]:
    """Split ranges into about `partitions_min`, none of more than `records_max` offsets."""
    if records_max is not None:
        ranges = [
            piece for part in ranges for piece in _pieces(part, -(-part.count // records_max))
        ]
    if partitions_min is None or partitions_min <= len(ranges):
        return ranges
    total = sum(part.count for part in ranges)
    cut = []
    for part in ranges:
        cut += _pieces(part, max(1, round(part.count / total * partitions_min)))
    return cut


def _pieces(part: Range, count: int) -> list[Range]:
    edges = [part.start + part.count * index // count for index in range(count + 1)]
    return [
        Range(part.topic, part.partition, start, end)
        for start, end in pairwise(edges)
        if end > start
    ]
