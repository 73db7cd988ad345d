"""The broker's keys: those of Kafka 4.3 that have an effect on one node, and our own.

Names, kinds, defaults and bounds are those of Kafka's AbstractKafkaConfig; where a default differs,
the key names Kafka's. Other modules hold the rest: config/topic.py the keys that set the defaults
of topics (`log.retention.hours` …), as synonyms; config/group_keys.py the keys for groups;
config/without_effect.py Kafka's keys that have no effect; config/broker.py the rules that span
keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import at_least, not_empty, some_of, topics_at_start
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
    """One field for each key, named after it with underscores.

    A base class of BrokerConfig, and never instantiated itself.
    """

    # -- identity and place ----------------------------------------------------------------------
    node_id: int | None = key(
        "node.id",
        None,
        Kind.INT,
        check=at_least(0),
        importance=HIGH,
        kafka_default="required",
        synonyms=(Synonym("broker.id", default=-1, update=Update.READ_ONLY, importance=HIGH),),
        doc="The id of this node. If not set: the node.id in the data directory's"
        " meta.properties, or 1 for a new directory. An id other than the directory's is"
        " refused.",
    )
    process_roles: tuple[str, ...] = key(
        "process.roles",
        ("broker", "controller"),
        Kind.LIST,
        check=some_of("broker", "controller"),
        importance=HIGH,
        kafka_default="required",
        doc="Accepted so that Kafka's server.properties works; must include broker. The node is"
        " always its own controller.",
    )
    broker_rack: str | None = key(
        "broker.rack",
        None,
        Kind.STRING,
        doc="The rack that Metadata responses give for this broker.",
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
        doc="The data directory: exactly one. A relative path starts at the working directory.",
    )

    # -- listening -------------------------------------------------------------------------------
    listeners: tuple[str, ...] = key(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092", "MSGPACK://127.0.0.1:9094"),
        Kind.LIST,
        check=not_empty(),
        importance=HIGH,
        kafka_default="PLAINTEXT://:9092",
        doc="The addresses to listen on: NAME://HOST:PORT, separated by commas. An empty host"
        " means every local address, port 0 any free port.",
    )
    advertised_listeners: tuple[str, ...] | None = key(
        "advertised.listeners",
        None,
        Kind.LIST,
        importance=HIGH,
        doc="The addresses that clients are told to connect to, one for each listener name. If"
        " not set: the listener's own address, or for a wildcard the address that the client"
        " has reached.",
    )
    listener_security_protocol_map: str = key(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        Kind.STRING,
        importance=LOW,
        doc="The protocol of each listener name: PLAINTEXT is Kafka's protocol, MSGPACK the"
        " msgpack dialect (docs/msgpack.md), SSL and MSGPACK_SSL are the same over TLS"
        " (docs/security.md). A listener that is named after a protocol needs no entry here.",
    )
    inter_broker_listener_name: str | None = key(
        "inter.broker.listener.name",
        None,
        Kind.STRING,
        doc="Must name a listener, as in Kafka; there are no other brokers that would connect to"
        " it.",
    )
    controller_listener_names: tuple[str, ...] = key(
        "controller.listener.names",
        (),
        Kind.LIST,
        importance=HIGH,
        kafka_default="required",
        doc="Listeners with these names are accepted, but not opened.",
    )
    socket_listen_backlog_size: int = key(
        "socket.listen.backlog.size",
        1024,
        Kind.INT,
        check=at_least(1),
        kafka_default="50",
        doc="How many connections the system may hold before the broker accepts them. Further"
        " clients wait a second and try again.",
    )
    socket_send_buffer_bytes: int = key(
        "socket.send.buffer.bytes",
        100 * KiB,
        Kind.INT,
        unit="bytes",
        check=at_least(-1),
        importance=HIGH,
        doc="The send buffer of each connection's socket; -1 uses the system's default.",
    )
    socket_receive_buffer_bytes: int = key(
        "socket.receive.buffer.bytes",
        100 * KiB,
        Kind.INT,
        unit="bytes",
        check=at_least(-1),
        importance=HIGH,
        doc="The receive buffer of each connection's socket; -1 uses the system's default. Up to"
        " sixteen connections that send large requests have 4 MiB, unless this is set lower.",
    )

    # -- requests and their limits ---------------------------------------------------------------
    num_network_threads: int = key(
        "num.network.threads",
        3,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many processor tasks share the connections of the listeners.",
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
        doc="How many requests may wait for a worker. At the limit the broker reads no further"
        " requests.",
    )
    queued_max_request_bytes: int = key(
        "queued.max.request.bytes",
        256 * MiB,
        Kind.LONG,
        unit="bytes",
        check=at_least(-1),
        kafka_default="-1",
        doc="How many bytes of requests may be in memory, over all connections. At the limit no"
        " connection begins another request. 0 and -1 set no limit.",
    )
    socket_request_max_bytes: int = key(
        "socket.request.max.bytes",
        100 * MiB,
        Kind.INT,
        unit="bytes",
        check=at_least(1),
        importance=HIGH,
        doc="The largest request. A connection that announces a larger one is closed.",
    )
    connections_max_idle_ms: int = key(
        "connections.max.idle.ms",
        10 * MINUTE_MS,
        Kind.LONG,
        unit="ms",
        doc="A connection without a request for this long is closed. A negative value keeps it"
        " open.",
    )
    max_connections: int = key(
        "max.connections",
        INT_MAX,
        Kind.INT,
        check=at_least(1),  # Kafka accepts 0, and then no client can connect to undo it
        update=CLUSTER_WIDE,
        doc="How many connections may be open. Further ones are closed at once. A listener may"
        " have a limit of its own beside that.",
    )
    max_connections_per_ip: int = key(
        "max.connections.per.ip",
        INT_MAX,
        Kind.INT,
        check=at_least(0),
        update=CLUSTER_WIDE,
        doc="How many connections may be open from one client address.",
    )
    max_connections_per_ip_overrides: str = key(
        "max.connections.per.ip.overrides",
        "",
        Kind.STRING,
        update=CLUSTER_WIDE,
        doc="Other limits for some client addresses, such as 10.0.0.5:200,10.0.0.6:10. Host"
        " names are refused, except localhost.",
    )
    fetch_max_bytes: int = key(
        "fetch.max.bytes",
        55 * MiB,
        Kind.INT,
        unit="bytes",
        check=at_least(1024),
        doc="The largest Fetch response, in bytes of records. A first batch that is larger is"
        " still sent.",
    )
    max_incremental_fetch_session_cache_slots: int = key(
        "max.incremental.fetch.session.cache.slots",
        1000,
        Kind.INT,
        check=at_least(0),
        doc="How many fetch sessions the broker keeps, rounded down to a multiple of 8. A client"
        " without one names all its partitions each time.",
    )

    # -- topics ----------------------------------------------------------------------------------
    num_partitions: int = key(
        "num.partitions",
        1,
        Kind.INT,
        check=at_least(1),
        doc="How many partitions a topic gets if its creator does not say.",
    )
    default_replication_factor: int = key(
        "default.replication.factor",
        1,
        Kind.INT,
        check=at_least(1),
        doc="The replication factor of a topic if its creator does not say. One node can only"
        " keep 1.",
    )
    auto_create_topics_enable: bool = key(
        "auto.create.topics.enable",
        True,
        Kind.BOOLEAN,
        importance=HIGH,
        doc="Whether a request for an unknown topic creates it.",
    )
    barnabas_create_topics: tuple[str, ...] = key(
        "barnabas.create.topics",
        (),
        Kind.LIST,
        check=topics_at_start(),
        doc="Topics that a start creates if they do not exist, separated by commas:"
        " NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]], such as clicks:6 or state:1:1:compact.",
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
        doc="How long after the start retention runs for the first time.",
    )
    log_flush_scheduler_interval_ms: int = key(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        Kind.LONG,
        unit="ms",
        importance=HIGH,
        doc="How often the broker looks for logs to flush by flush.ms.",
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
        doc="How many threads do work that waits for the disk: fsyncs, cold reads, checkpoints."
        " Never fewer than four.",
    )
    producer_id_expiration_ms: int = key(
        "producer.id.expiration.ms",
        DAY_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=LOW,
        update=CLUSTER_WIDE,
        doc="A partition forgets a producer that has written nothing for this long.",
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
        doc="The cluster id of a new data directory. If not set, the broker draws one. An"
        " existing directory keeps its own. The image takes the value from CLUSTER_ID.",
    )
    barnabas_read_only: bool = key(
        "barnabas.read.only",
        False,
        Kind.BOOLEAN,
        doc="Serve the directory and change nothing in it: no retention, no compaction, no"
        " recovery on disk. Requests that would write are refused. The same as `serve"
        " --read-only`.",
    )
    barnabas_validate_records: bool = key(
        "barnabas.validate.records",
        False,
        Kind.BOOLEAN,
        doc="Open every produced batch and check each record, as Kafka does. This costs CPU."
        " Without it, damage inside a batch with a correct CRC is stored as sent.",
    )
    barnabas_replication_factor_clamp: bool = key(
        "barnabas.replication.factor.clamp",
        False,
        Kind.BOOLEAN,
        doc="For development: create a topic that asks for more replicas than there are nodes"
        " with one replica, instead of refusing it.",
    )
    barnabas_frame_deadline_ms: int = key(
        "barnabas.frame.deadline.ms",
        30 * SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        doc="A connection that has begun a request is closed if the rest does not arrive within"
        " this time.",
    )
    barnabas_requests_per_connection_max: int = key(
        "barnabas.requests.per.connection.max",
        50,
        Kind.INT,
        check=at_least(1),
        doc="How many requests of one connection may be in flight. At the limit the broker"
        " reads no further ones from it.",
    )
    barnabas_answer_bytes_max: int = key(
        "barnabas.answer.bytes.max",
        256 * MiB,
        Kind.LONG,
        unit="bytes",
        check=at_least(MiB),
        doc="How many bytes of responses may wait in memory, over all connections. At the limit"
        " each connection gets one large response at a time, and fetches return less. One"
        " connection may use a quarter of it.",
    )
    barnabas_unflushed_bytes_max: int = key(
        "barnabas.unflushed.bytes.max",
        64 * MiB,
        Kind.LONG,
        unit="bytes",
        check=at_least(MiB),
        doc="How many written bytes may wait for their fsync, over all logs. At the limit"
        " producers wait.",
    )
    barnabas_flush_stall_ms: int = key(
        "barnabas.flush.stall.ms",
        100,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        doc="Producers to a log wait while an fsync of it takes longer than this.",
    )
    barnabas_recovery_point_interval_ms: int = key(
        "barnabas.recovery.point.interval.ms",
        SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(1),
        doc="The longest time from a commit until its recovery point is written. After an"
        " unclean stop, recovery reads the log from the recovery point on.",
    )
    barnabas_decompressed_bytes_max: int = key(
        "barnabas.decompressed.bytes.max",
        128 * MiB,
        Kind.LONG,
        unit="bytes",
        check=at_least(MiB),
        doc="The largest decompressed size of a batch that the broker opens: on compacted"
        " topics, and on all topics with barnabas.validate.records.",
    )
    barnabas_open_files_max: int = key(
        "barnabas.open.files.max",
        0,
        Kind.INT,
        check=at_least(0),
        doc="How many files of the data directory may be open. 0 means three quarters of the"
        " process's limit.",
    )
    barnabas_shutdown_deadline_ms: int = key(
        "barnabas.shutdown.deadline.ms",
        30 * SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        doc="How long a stop waits for requests in flight.",
    )
    barnabas_slow_step_ms: int = key(
        "barnabas.slow.step.ms",
        0,
        Kind.INT,
        unit="ms",
        check=at_least(0),
        doc=(
            "Log what the event loop was doing when one step takes longer than this; the broker"
            " serves no client meanwhile. 0 does not watch. 20 shows every step that is too"
            " long."
        ),
    )
