"""The broker's keys: those of Kafka 4.3 that mean something on one node, and our own.

Names, kinds, defaults and bounds are those of Kafka's AbstractKafkaConfig; where a default differs,
the key says what Kafka's is. Keys that give topics their defaults (`log.retention.hours` …) are not
here: they are synonyms in config/topic.py; nor are those for groups, config/group_keys.py has them.
Kafka's keys that are accepted without effect are listed in config/without_effect.py. What several
keys mean together is config/broker.py's.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import at_least, not_empty, one_of, some_of
from config.keys import (
    DAY_MS,
    INT_MAX,
    LONG_MAX,
    MINUTE_MS,
    SECOND_MS,
    Importance,
    KiB,
    MiB,
    Synonym,
    Update,
    key,
)
from config.values import Kind

HIGH, LOW = Importance.HIGH, Importance.LOW
CLUSTER_WIDE = Update.CLUSTER_WIDE


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class BrokerKeys:
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    # -- who and where ---------------------------------------------------------------------------
    node_id: int | None = key(
        "node.id",
        None,
        Kind.INT,
        check=at_least(0),
        importance=HIGH,
        kafka_default="required",
        synonyms=(Synonym("broker.id", default=-1, update=Update.READ_ONLY, importance=HIGH),),
        doc="The number of this node. Not set: the one in the data directory's meta.properties,"
        " else 1. A number other than the directory's is refused.",
    )
    process_roles: tuple[str, ...] = key(
        "process.roles",
        ("broker", "controller"),
        Kind.LIST,
        check=some_of("broker", "controller"),
        importance=HIGH,
        kafka_default="required",
        doc="Accepted so that a Kafka's server.properties works; must name broker. The node is"
        " always its own controller.",
    )
    broker_rack: str | None = key(
        "broker.rack", None, Kind.STRING, doc="The rack that clients are told in Metadata."
    )
    log_dirs: tuple[str, ...] = key(
        "log.dirs",
        ("data",),
        Kind.LIST,
        check=not_empty(),
        importance=HIGH,
        kafka_default="/tmp/kafka-logs, by log.dir",  # noqa: S108 -- Kafka's, for the documentation
        synonyms=(
            Synonym(
                "log.dir",
                update=Update.READ_ONLY,
                importance=HIGH,
                default=("/tmp/kafka-logs",),  # noqa: S108
            ),
        ),
        doc="The data directory: exactly one. A relative one starts where the broker is started.",
    )

    # -- listening -------------------------------------------------------------------------------
    listeners: tuple[str, ...] = key(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092", "MSGPACK://127.0.0.1:9094"),
        Kind.LIST,
        check=not_empty(),
        importance=HIGH,
        kafka_default="PLAINTEXT://:9092",
        doc="Where to listen: NAME://HOST:PORT, divided by commas. No host means every local"
        " address, port 0 any free one.",
    )
    advertised_listeners: tuple[str, ...] | None = key(
        "advertised.listeners",
        None,
        Kind.LIST,
        importance=HIGH,
        doc="What clients are told to connect to, one for each listener name. Not set: the"
        " listener itself; where that is every local address, the one the client reached.",
    )
    listener_security_protocol_map: str = key(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        Kind.STRING,
        importance=LOW,
        doc="The protocol of each listener name: PLAINTEXT, Kafka's, or MSGPACK, the msgpack"
        " dialect (docs/msgpack.md), which also stands for itself.",
    )
    controller_listener_names: tuple[str, ...] = key(
        "controller.listener.names",
        (),
        Kind.LIST,
        importance=HIGH,
        kafka_default="required",
        doc="Listeners with these names are accepted and not opened.",
    )
    socket_listen_backlog_size: int = key(
        "socket.listen.backlog.size",
        1024,
        Kind.INT,
        check=at_least(1),
        kafka_default="50",
        doc="How many connections the system may hold until they are accepted. Beyond it clients"
        " wait a second and try again.",
    )
    socket_send_buffer_bytes: int = key(
        "socket.send.buffer.bytes",
        100 * KiB,
        Kind.INT,
        unit="bytes",
        check=at_least(-1),
        importance=HIGH,
        doc="The send buffer of a connection's socket; -1 leaves it to the system.",
    )
    socket_receive_buffer_bytes: int = key(
        "socket.receive.buffer.bytes",
        100 * KiB,
        Kind.INT,
        unit="bytes",
        check=at_least(-1),
        importance=HIGH,
        doc="The receive buffer of a connection's socket; -1 leaves it to the system.",
    )

    # -- requests and their limits ---------------------------------------------------------------
    num_network_threads: int = key(
        "num.network.threads",
        3,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many processor tasks share the connections of a listener.",
    )
    num_io_threads: int = key(
        "num.io.threads",
        8,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many worker tasks take requests from the queue.",
    )
    queued_max_requests: int = key(
        "queued.max.requests",
        500,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many requests may wait for a worker; beyond it no more are read.",
    )
    queued_max_request_bytes: int = key(
        "queued.max.request.bytes",
        256 * MiB,
        Kind.LONG,
        unit="bytes",
        check=at_least(-1),
        kafka_default="-1",
        doc="How many bytes of requests may be in memory, of all connections together; beyond it"
        " no connection begins another request. 0 or -1 sets no limit.",
    )
    socket_request_max_bytes: int = key(
        "socket.request.max.bytes",
        100 * MiB,
        Kind.INT,
        unit="bytes",
        check=at_least(1),
        importance=HIGH,
        doc="The largest request; a larger one closes its connection.",
    )
    connections_max_idle_ms: int = key(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        Kind.LONG,
        unit="ms",
        doc="A connection without a request for so long is closed; negative: never.",
    )
    max_connections: int = key(
        "max.connections",
        INT_MAX,
        Kind.INT,
        check=at_least(1),  # Kafka takes 0 as well, and then nobody can connect to take it back
        update=CLUSTER_WIDE,
        doc="How many connections may be open; further ones are closed at once.",
    )
    max_connections_per_ip: int = key(
        "max.connections.per.ip",
        INT_MAX,
        Kind.INT,
        check=at_least(0),
        update=CLUSTER_WIDE,
        doc="How many connections one client address may have open.",
    )
    max_connections_per_ip_overrides: str = key(
        "max.connections.per.ip.overrides",
        "",
        Kind.STRING,
        update=CLUSTER_WIDE,
        doc="Other limits for some addresses, such as 10.0.0.5:200,10.0.0.6:10. Host names are"
        " refused, but for localhost.",
    )
    fetch_max_bytes: int = key(
        "fetch.max.bytes",
        55 * MiB,
        Kind.INT,
        unit="bytes",
        check=at_least(1024),
        doc="The most bytes of records one Fetch answers, unless its first batch is larger.",
    )

    # -- topics ----------------------------------------------------------------------------------
    num_partitions: int = key(
        "num.partitions",
        1,
        Kind.INT,
        check=at_least(1),
        doc="How many partitions a topic gets whose creator does not say.",
    )
    default_replication_factor: int = key(
        "default.replication.factor",
        1,
        Kind.INT,
        check=at_least(1),
        doc="The replication factor of a topic whose creator does not say; one node has only 1.",
    )
    auto_create_topics_enable: bool = key(
        "auto.create.topics.enable",
        True,
        Kind.BOOLEAN,
        importance=HIGH,
        doc="Whether asking for a topic that does not exist creates it.",
    )
    delete_topic_enable: bool = key(
        "delete.topic.enable",
        True,
        Kind.BOOLEAN,
        importance=HIGH,
        doc="Whether topics can be deleted.",
    )
    # -- logs ------------------------------------------------------------------------------------
    log_retention_check_interval_ms: int = key(
        "log.retention.check.interval.ms",
        5 * MINUTE_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        doc="How often retention looks for segments to delete.",
    )
    log_initial_task_delay_ms: int = key(
        "log.initial.task.delay.ms",
        30 * SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        importance=LOW,
        internal=True,
        doc="How long after the start retention looks for the first time.",
    )
    log_flush_scheduler_interval_ms: int = key(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        Kind.LONG,
        unit="ms",
        importance=HIGH,
        doc="How often logs are looked at for flush.ms.",
        no_effect="they are looked at each second",
    )
    log_flush_offset_checkpoint_interval_ms: int = key(
        "log.flush.offset.checkpoint.interval.ms",
        MINUTE_MS,
        Kind.INT,
        unit="ms",
        check=at_least(0),
        importance=HIGH,
        doc="How often recovery points are written.",
        no_effect="they follow each commit within barnabas.recovery.point.interval.ms",
    )
    log_flush_start_offset_checkpoint_interval_ms: int = key(
        "log.flush.start.offset.checkpoint.interval.ms",
        MINUTE_MS,
        Kind.INT,
        unit="ms",
        check=at_least(0),
        importance=HIGH,
        doc="How often the start offsets of logs are written.",
        no_effect="they are written with the recovery points, when they have changed",
    )
    num_recovery_threads_per_data_dir: int = key(
        "num.recovery.threads.per.data.dir",
        2,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many threads wait for the disk: fsyncs, cold reads, checkpoints. Never fewer than"
        " four.",
    )
    producer_id_expiration_ms: int = key(
        "producer.id.expiration.ms",
        DAY_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=LOW,
        update=CLUSTER_WIDE,
        doc="A partition forgets a producer that was silent for so long.",
    )
    producer_id_expiration_check_interval_ms: int = key(
        "producer.id.expiration.check.interval.ms",
        10 * MINUTE_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=LOW,
        internal=True,
        doc="How often partitions look for producers to forget.",
    )

    # -- Barnabas's own --------------------------------------------------------------------------
    barnabas_cluster_id: str | None = key(
        "barnabas.cluster.id",
        None,
        Kind.STRING,
        doc="The cluster id that a new data directory gets; not set: one is drawn. A directory that"
        " has one keeps it. The image takes it from CLUSTER_ID.",
    )
    barnabas_read_only: bool = key(
        "barnabas.read.only",
        False,
        Kind.BOOLEAN,
        doc="Serve the directory and change nothing in it: no retention, no compaction, no"
        " recovery on disk, and every request that would write is refused. The same as"
        " `serve --read-only`.",
    )
    barnabas_validate_records: bool = key(
        "barnabas.validate.records",
        False,
        Kind.BOOLEAN,
        doc="Open every produced batch and check each record, as Kafka does. Costs CPU; without"
        " it damage inside a batch whose CRC is right is stored as sent.",
    )
    barnabas_replication_factor_clamp: bool = key(
        "barnabas.replication.factor.clamp",
        False,
        Kind.BOOLEAN,
        doc="For development: create topics that ask for more replicas than there are nodes, with"
        " one, instead of refusing them.",
    )
    barnabas_frame_deadline_ms: int = key(
        "barnabas.frame.deadline.ms",
        30 * SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        doc="A connection that began a request and did not finish it for so long is closed.",
    )
    barnabas_requests_per_connection_max: int = key(
        "barnabas.requests.per.connection.max",
        50,
        Kind.INT,
        check=at_least(1),
        doc="How many requests of one connection may be in flight; beyond it no more are read.",
    )
    barnabas_answer_bytes_max: int = key(
        "barnabas.answer.bytes.max",
        256 * MiB,
        Kind.LONG,
        unit="bytes",
        check=at_least(MiB),
        doc="How many bytes of answers may wait in memory, of all connections together; beyond it"
        " a connection has one large answer at a time, and fetches answer less. One connection has"
        " a quarter of it.",
    )
    barnabas_unflushed_bytes_max: int = key(
        "barnabas.unflushed.bytes.max",
        64 * MiB,
        Kind.LONG,
        unit="bytes",
        check=at_least(MiB),
        doc="How many bytes may be written and not yet fsynced, of all logs together; beyond it"
        " producers wait.",
    )
    barnabas_flush_stall_ms: int = key(
        "barnabas.flush.stall.ms",
        100,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        doc="While a log's fsync is older than this, its producers wait.",
    )
    barnabas_recovery_point_interval_ms: int = key(
        "barnabas.recovery.point.interval.ms",
        SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        doc="How long after a commit its recovery point is written, at the latest. Recovery after"
        " an unclean stop reads from there on.",
    )
    barnabas_decompressed_bytes_max: int = key(
        "barnabas.decompressed.bytes.max",
        128 * MiB,
        Kind.LONG,
        unit="bytes",
        check=at_least(MiB),
        doc="The most bytes one batch may decompress to where the broker opens it: on compacted"
        " topics, and with barnabas.validate.records on all.",
    )
    barnabas_open_files_max: int = key(
        "barnabas.open.files.max",
        0,
        Kind.INT,
        check=at_least(0),
        doc="How many files of the data directory may be open; 0 takes three quarters of what the"
        " system allows the process.",
    )
    barnabas_shutdown_deadline_ms: int = key(
        "barnabas.shutdown.deadline.ms",
        30 * SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        doc="How long a stop waits for requests in flight.",
    )
    barnabas_log_format: str = key(
        "barnabas.log.format",
        "text",
        Kind.STRING,
        check=one_of("text", "json"),
        doc="How the broker writes its own log lines.",
    )
    barnabas_slow_step_ms: int = key(
        "barnabas.slow.step.ms",
        0,
        Kind.INT,
        unit="ms",
        check=at_least(0),
        doc=(
            "Log what the event loop was doing when one step of it takes longer than this, during "
            "which no client is served; 0: do not watch. 20 shows all that should not be."
        ),
    )
    barnabas_log_level: str = key(
        "barnabas.log.level",
        "INFO",
        Kind.STRING,
        check=one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        doc="Which of its own log lines the broker writes.",
    )
