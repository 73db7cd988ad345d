"""The metrics of groups, their offsets and their lag: Kafka's names, and kafka_exporter's."""

from __future__ import annotations

from collections.abc import Callable

from broker.exposition.family import Family, Kind, Samples, one
from broker.exposition.label_text import labels
from broker.exposition.scrape_view import ScrapeView

MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
SESSIONS = "kafka_server_fetchsessioncache_"
PLACE = ("consumergroup", "topic", "partition")


def _in_state(*states: str) -> Callable[[ScrapeView], int]:
    return lambda view: sum(group.state_name in states for _, group in view.groups)


def _state(name: str, text: str, *states: str) -> Family:
    return Family(f"{MANAGER}{name}", Kind.GAUGE, text, one(_in_state(*states)))


def _offsets(lag: bool) -> Samples:  # noqa: FBT001 - one of two values of the same rows
    return lambda view: (
        (found.tail, found.lag if lag else found.offset) for found in view.group_offsets
    )


def _sums(index: int) -> Samples:
    return lambda view: (
        (labels(consumergroup=group, topic=topic), sums[index])
        for (group, topic), sums in view.group_sums.items()
    )


GROUPS: tuple[Family, ...] = (
    Family(
        f"{MANAGER}numgroups", Kind.GAUGE, "Groups, of both protocols.",
        one(lambda view: len(view.groups)),
    ),
    _state("numgroupsstable", "Groups whose members have their partitions.", "Stable"),
    _state("numgroupsempty", "Groups without members.", "Empty"),
    _state("numgroupsdead", "Groups that are being removed.", "Dead"),
    _state(
        "numgroupspreparingrebalance", "Groups that wait for their members.",
        "PreparingRebalance", "Assigning",
    ),
    _state(
        "numgroupscompletingrebalance", "Groups that wait for their assignment.",
        "CompletingRebalance", "Reconciling",
    ),
    Family(
        f"{SESSIONS}numincrementalfetchsessions", Kind.GAUGE, "Fetch sessions.",
        one(lambda view: view.metrics.fetch_sessions_now),
    ),
    Family(
        f"{SESSIONS}numincrementalfetchpartitionscached", Kind.GAUGE,
        "Partitions of all fetch sessions.",
        one(lambda view: view.metrics.fetch_session_partitions_now),
    ),
    Family(
        f"{SESSIONS}incrementalfetchsessionevictions_total", Kind.COUNTER,
        "Fetch sessions that went to make room for others.",
        one(lambda view: view.metrics.fetch_session_evictions), (),
        (f"{SESSIONS}incrementalfetchsessionevictionspersec",),
    ),
    Family(
        "kafka_server_delayedoperationpurgatory_purgatorysize", Kind.GAUGE,
        "Requests that wait: fetches for records, produces for their fsync.",
        lambda view: (
            (labels(delayedOperation="Fetch"), view.metrics.fetches_parked_now),
            (labels(delayedOperation="Produce"), sum(len(p.waiters) for p in view.partitions)),
        ),
        ("delayedOperation",),
    ),
    Family(
        "kafka_consumergroup_current_offset", Kind.GAUGE, "The committed offset.",
        _offsets(lag=False), PLACE,
    ),
    Family(
        "kafka_consumergroup_lag", Kind.GAUGE,
        "Records between the committed offset and the high watermark.", _offsets(lag=True), PLACE,
        ("kafka_consumergroup_uncommitted_offsets",),
    ),
    Family(
        "kafka_consumer_lag_millis", Kind.GAUGE,
        "About how long ago the first record arrived that is not committed; by marks each 10 s.",
        lambda view: (
            (found.tail, found.millis) for found in view.group_offsets if found.millis is not None
        ),
        PLACE,
    ),
    Family(
        "kafka_consumergroup_current_offset_sum", Kind.GAUGE, "The sum over a topic.",
        _sums(0), PLACE[:2],
    ),
    Family("kafka_consumergroup_lag_sum", Kind.GAUGE, "The sum over a topic.", _sums(1), PLACE[:2]),
    Family(
        "kafka_consumergroup_members", Kind.GAUGE, "Members of a group.",
        lambda view: (
            (labels(consumergroup=name), group.member_count) for name, group in view.groups
        ),
        ("consumergroup",),
    ),
)  # fmt: skip
