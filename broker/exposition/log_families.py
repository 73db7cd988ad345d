"""The metrics of logs, partitions, the controller and the disk, by the names of both exporters.

Several are 0, or 1, by nature: this node leads every partition, and there is no other replica.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from broker.exposition.family import Family, Kind, OfPartitions, Sample, one
from broker.exposition.label_text import labels
from broker.exposition.scrape_view import ScrapeView
from broker.exposition.traffic_families import ONE_NODE, QUANTILES, SHOWN

PLACE = ("topic", "partition")
MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
RAFT = "kafka_server_raftmetrics_"
SINGLE = f"{ONE_NODE}, and it has the only replica"


def _place(name: str, text: str, values: Callable[[ScrapeView], Sequence[int] | int]) -> Family:
    return Family(name, Kind.GAUGE, text, OfPartitions(values), PLACE)


def _fixed(name: str, text: str, value: int, why: str = SINGLE) -> Family:
    return Family(
        name, Kind.GAUGE, text, OfPartitions(lambda _: value), PLACE, why_zero="" if value else why
    )


def _zero(name: str, text: str, kind: Kind = Kind.GAUGE, also: str = "") -> Family:
    names = (also,) if also else ()
    return Family(name, kind, text, one(lambda _: 0), (), names, SINGLE)


def _gauge(name: str, text: str, value: Callable[[ScrapeView], int | float]) -> Family:
    return Family(name, Kind.GAUGE, text, one(value))


def _flush_times(view: ScrapeView) -> list[tuple[str, int | float]]:
    times = view.traffic.fsync_times
    values = times.quantiles(QUANTILES, view.services.clock.monotonic_ns())
    found: list[tuple[str, int | float]] = [
        (f'{{quantile="{shown}"}}', value / 1e6) for shown, value in zip(SHOWN, values, strict=True)
    ]
    return [*found, ("_sum", times.sum_ns / 1e6), ("_count", times.count)]


def _io(name: str) -> Callable[[ScrapeView], int]:
    def value(_: ScrapeView) -> int:
        try:
            with open("/proc/self/io", encoding="ascii") as file:
                return next(int(line.split()[1]) for line in file if line.startswith(name))
        except (OSError, StopIteration):
            return 0

    return value


def _topics(view: ScrapeView) -> int:
    return len(view.services.controller.image.topics)


def _all(view: ScrapeView) -> int:
    return view.services.controller.image.partition_count


def _led(view: ScrapeView) -> int:
    return len(view.services.partitions)


def _offline(view: ScrapeView) -> int:
    return view.metrics.partitions_offline_now


def _broker(view: ScrapeView) -> Iterator[Sample]:
    listener, port = view.assembly.bound[0]
    yield labels(id=view.services.node_id, address=f"{listener.host}:{port}"), 1


LOGS: tuple[Family, ...] = (
    _place("kafka_log_log_size", "Bytes of all segments.", lambda view: view.sizes),
    _place("kafka_log_log_logstartoffset", "The first offset.", lambda view: view.starts),
    _place("kafka_log_log_logendoffset", "The next offset.", lambda view: view.ends),
    _place("kafka_log_log_numlogsegments", "Segments.", lambda view: view.segments),
    _gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "1 if the data directory is offline: every partition is.",
        lambda view: int(bool(_offline(view)) and not _led(view)),
    ),
    Family(
        "kafka_log_logflushstats_logflushrateandtimems", Kind.SUMMARY,
        "Milliseconds of an fsync: quantiles of the last two minutes, all are timed.",
        _flush_times, ("quantile",),
    ),
    _gauge(
        "kafka_log_logcleanermanager_uncleanable_partitions_count",
        "Partitions whose compaction was given up: the log says why.",
        lambda view: view.metrics.partitions_uncleanable_now,
    ),
    _gauge(f"{MANAGER}leadercount", "Partitions that this node leads.", _led),
    _gauge(f"{MANAGER}partitioncount", "Partitions on this node.", _led),
    _zero(f"{MANAGER}underreplicatedpartitions", "Partitions with too few replicas."),
    _gauge(f"{MANAGER}offlinereplicacount", "Partitions whose log cannot be opened.", _offline),
    _zero(f"{MANAGER}underminisrpartitioncount", "Partitions below min.insync.replicas."),
    _zero(f"{MANAGER}isrshrinks_total", "Shrunk ISRs.", Kind.COUNTER, f"{MANAGER}isrshrinkspersec"),
    _zero(f"{MANAGER}isrexpands_total", "Grown ISRs.", Kind.COUNTER, f"{MANAGER}isrexpandspersec"),
    _fixed("kafka_cluster_partition_underminisr", "Below min.insync.replicas.", 0),
    _fixed("kafka_cluster_partition_atminisr", "At min.insync.replicas.", 1),
    _fixed("kafka_cluster_partition_replicascount", "Replicas.", 1),
    _fixed("kafka_cluster_partition_underreplicated", "Whether replicas are missing.", 0),
    Family(
        f"{CONTROLLER}activecontrollercount", Kind.GAUGE, "1: this node is the controller.",
        one(lambda _: 1),
    ),
    _gauge(f"{CONTROLLER}offlinepartitionscount", "Partitions without a leader.", _offline),
    _gauge(f"{CONTROLLER}globaltopiccount", "Topics.", _topics),
    _gauge(f"{CONTROLLER}globalpartitioncount", "Partitions.", _all),
    _zero(f"{CONTROLLER}preferredreplicaimbalancecount", "Partitions led by another replica."),
    _zero(
        "kafka_controller_controllerstats_uncleanleaderelections_total", "Unclean elections.",
        Kind.COUNTER, "kafka_controller_controllerstats_uncleanleaderelectionspersec",
    ),
    _gauge(
        "kafka_server_kafkaserver_brokerstate", "3 running, 6 stopping.",
        lambda view: 6 if view.is_stopping else 3,
    ),
    _gauge(
        "kafka_server_kafkaserver_linux_disk_read_bytes", "Bytes read from disks.",
        _io("read_bytes"),
    ),
    _gauge(
        "kafka_server_kafkaserver_linux_disk_write_bytes", "Bytes written to disks.",
        _io("write_bytes"),
    ),
    Family(
        f"{RAFT}current_state", Kind.GAUGE, "1 for the state of this node: leader.",
        lambda _: ((labels(state="leader"), 1),), ("state",),
        ("kafka_server_raft_metrics_current_state",),
    ),
    _gauge(f"{RAFT}current_leader", "The controller's id.", lambda view: view.services.node_id),
    _gauge(
        f"{RAFT}current_epoch", "The controller's epoch.",
        lambda view: view.services.controller.metadata_log.epoch,
    ),
    _gauge(
        f"{RAFT}high_watermark", "The durable end of the metadata log.",
        lambda view: view.services.controller.metadata_log.log.high_watermark,
    ),
    _gauge(
        f"{RAFT}log_end_offset", "The end of the metadata log.",
        lambda view: view.services.controller.metadata_log.end_offset,
    ),
    _gauge("kafka_brokers", "Nodes.", lambda _: 1),
    Family(
        "kafka_broker_info", Kind.GAUGE, "1 for each node, with its first address.", _broker,
        ("id", "address"),
    ),
    Family(
        "kafka_topic_partitions", Kind.GAUGE, "Partitions of a topic.",
        lambda view: ((labels(topic=name), n) for name, n in view.topic_partitions.items()),
        ("topic",),
    ),
    _place(
        "kafka_topic_partition_current_offset", "Where readers end: the high watermark.",
        lambda view: view.highs,
    ),
    _place(
        "kafka_topic_partition_oldest_offset", "The first offset.", lambda view: view.starts
    ),
    _fixed("kafka_topic_partition_in_sync_replica", "Replicas in sync.", 1),
    _place(
        "kafka_topic_partition_leader", "The leader's id.", lambda view: view.services.node_id
    ),
    _fixed("kafka_topic_partition_replicas", "Replicas.", 1),
    _fixed("kafka_topic_partition_leader_is_preferred", "Whether the first replica leads.", 1),
    _fixed("kafka_topic_partition_under_replicated_partition", "Whether replicas are missing.", 0),
)  # fmt: skip
