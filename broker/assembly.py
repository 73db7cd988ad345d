"""Build one broker's services from a configuration and an open data directory.

No part knows how it was made, so tests build the parts they need from here too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from broker.configs.changes import GROUP, configs_of
from broker.configs.live import BrokerSettings, Configs
from broker.data_directory import Opened
from broker.handlers import HANDLERS, PRODUCE_ADVERTISED_MIN
from broker.login_gates import make_gate
from broker.metadata.metadata_log import MetadataLog
from broker.metadata.producer_ids import ProducerIds
from broker.metadata.topic_rules import GROUP_TOPIC, TRANSACTION_TOPIC
from broker.metadata_changes import MetadataChanges
from broker.network.advertised import Advertised
from broker.network.byte_budget import ByteBudget
from broker.network.gathered_writes import GatheredWrites
from broker.network.processor import ConnectionSettings, Network
from broker.network.wide_sockets import WideSockets
from broker.partitions.append_queue import AppendQueue
from broker.partitions.checkpoint_writer import CheckpointWriter
from broker.partitions.flush_pool import FlushPool, MakeSyncs
from broker.partitions.group_commit import GroupCommit
from broker.partitions.log_starts import LogStarts
from broker.partitions.partition import Partition, Partitions
from broker.partitions.purgatory import Purgatory
from broker.partitions.running_rounds import FLUSH_THREADS
from broker.quota_assembly import limits_and_quotas
from broker.runtime.blocking_pool import BlockingPool, Executors
from broker.runtime.clock import Clock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import FailureLog
from broker.runtime.record_work import RecordWork
from broker.runtime.request_queue import RequestQueue
from broker.runtime.request_times import RequestTimes
from broker.services import Services
from broker.topic_logs import TopicLogs
from broker.topics import Topics
from broker.transactions.evidence import Evidence, gather
from config.broker import BrokerConfig
from config.listeners import Listener
from config.load import Loaded
from protocol.api_keys import ApiKey
from protocol.messages.api_versions import ApiVersion
from storage.files.kernel_syncs import kernel_syncs
from storage.files.overlay import Overlay
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from broker.groups.coordinator import Coordinator
    from broker.security.tls.tls_listeners import TlsListeners
    from broker.transactions.transaction_coordinator import TransactionCoordinator

logger = logging.getLogger("barnabas.server")

# Threads for cold reads and for checkpoints beside them; group commit has its own for fsync.
# num.recovery.threads.per.data.dir may ask for more.
BLOCKING_THREADS_MIN = 4


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of a broker that run no tasks."""

    services: Services
    network: Network
    bound: Sequence[tuple[Listener, int]]


def assemble(
    loaded: Loaded,
    opened: Opened,
    bind: Callable[[], Sequence[tuple[Listener, int]]],
    clock: Clock,
    random_bytes: Callable[[int], bytes],
    executor: Executors,
    loop: asyncio.AbstractEventLoop,
    make_syncs: MakeSyncs = kernel_syncs,
) -> Assembly:
    """Make the services, and open every log: recovery happens here.

    `bind` returns the listeners with their ports; it is called after recovery, not before.
    """
    logs, node_id = opened.logs, opened.logs.directory.meta.node_id
    settings = BrokerSettings(loaded, opened.controller, node_id)
    config = settings.loaded.config
    metrics = Metrics()
    loop.set_exception_handler(FailureLog(metrics, clock))
    partitions, purgatory = Partitions(metrics), Purgatory(metrics)
    pool = BlockingPool(executor(_threads(config), "blocking"), loop)
    record_work = RecordWork(pool, metrics)
    flush_pool = FlushPool(executor(FLUSH_THREADS, "flush"), loop, make_syncs)
    commit, appends = _commit_and_appends(
        logs, config, record_work, pool, flush_pool, purgatory, metrics, clock
    )
    changes = MetadataChanges(opened.metadata_log, Partition(opened.metadata_log.log), commit, pool)
    topic_logs = TopicLogs(opened.controller, logs, partitions, commit, appends, purgatory, pool)
    topics = Topics(opened.controller, changes, topic_logs, partitions, pool, clock)
    configs = Configs(
        settings, opened.controller, partitions, topics.record_configs, commit, purgatory, node_id
    )
    configs.certificates = tls = _tls(config, pool, clock, metrics)
    _open_logs(topic_logs, logs, opened.metadata_log)
    bound = bind()
    checkpoints = CheckpointWriter(logs, pool)
    services = Services(
        config=config,
        clock=clock,
        random_bytes=random_bytes,
        executor=executor,
        metrics=metrics,
        pool=pool,
        record_work=record_work,
        flush_pool=flush_pool,
        logs=logs,
        checkpoints=checkpoints,
        starts=LogStarts(logs, checkpoints, pool),
        partitions=partitions,
        commit=commit,
        appends=appends,
        purgatory=purgatory,
        answers=ByteBudget(config.barnabas_answer_bytes_max, metrics, "answers_full_waits"),
        controller=opened.controller,
        topics=topics,
        make_groups=_coordinator,
        make_transactions=_make_transactions(topic_logs, partitions),
        configs=configs,
        **limits_and_quotas(settings, opened.controller, topics, pool, clock, metrics),
        producer_ids=ProducerIds(topics.next_producer_ids),
        advertised=Advertised(bound, config.advertised),
        tls=tls,
        api_versions=_api_versions(),
        served_keys=frozenset(int(row.api_key) for row in HANDLERS),
        cluster_id=logs.directory.meta.cluster_id,
        node_id=node_id,
    )
    _authorize(services, changes)
    _begin_coordinators(services)
    return Assembly(services, _network(services), bound)


def _threads(config: BrokerConfig) -> int:
    return max(BLOCKING_THREADS_MIN, config.num_recovery_threads_per_data_dir)


def _begin_coordinators(services: Services) -> None:
    """Let quotas and coordinators load what is stored, with the current configuration."""
    services.quotas.load()
    services.configs.settings.listen(services.reconfigure)
    if services.topics.by_name(GROUP_TOPIC) is not None:
        services.begin_groups()
    if services.topics.by_name(TRANSACTION_TOPIC) is not None:
        services.begin_transactions()
    else:
        for partition in services.partitions.all():
            partition.log.settle_replayed()  # no record stands for what these markers say


def _tls(
    config: BrokerConfig, pool: BlockingPool, clock: Clock, metrics: Metrics
) -> TlsListeners | None:
    """Read certificates, if a listener has TLS. Raises TlsError."""
    if not config.tls:
        return None
    from broker.security.tls.tls_listeners import TlsListeners

    return TlsListeners(config.tls, pool, clock, metrics)


def _authorize(services: Services, changes: MetadataChanges) -> None:
    """Import and make the authorizer and what changes its ACLs, if the configuration names one."""
    config = services.config
    if not config.authorizer_class_name:
        if config.super_principals:
            logger.warning(
                "super.users is set, but authorizer.class.name is not: every client may do"
                " everything"
            )
        return
    from broker.acls import Acls
    from broker.security.acl.authorizer import Authorizer
    from broker.security.acl.open_doors import open_doors
    from broker.security.acl.rule import Policy

    policy = Policy(config.super_principals, config.allow_everyone_if_no_acl_found)
    services.authorizer = authorizer = Authorizer(policy, services.clock, services.metrics)
    services.acls = Acls(
        services.controller,
        changes,
        authorizer,
        services.pool,
        services.clock,
        services.random_bytes,
    )
    for warning in open_doors(config, len(services.controller.image.acls)):
        logger.warning("%(warning)s", {"warning": warning})


def _network(services: Services) -> Network:
    config, metrics = services.config, services.metrics
    return Network(
        settings=ConnectionSettings(
            frame_bytes_max=config.socket_request_max_bytes,
            in_flight_max=config.barnabas_requests_per_connection_max,
            idle_ms_max=config.connections_max_idle_ms,
            frame_ms_max=config.barnabas_frame_deadline_ms,
            fetch_bytes_max=config.fetch_max_bytes,
        ),
        limits=services.limits,
        queue=RequestQueue(config.queued_max_requests, metrics),
        budget=ByteBudget(config.queued_max_request_bytes, metrics, "budget_full_waits"),
        answers=services.answers,
        writes=GatheredWrites(RequestTimes(services.clock)),
        record_work=services.record_work,
        metrics=metrics,
        clock=services.clock,
        make_gate=make_gate(services),
        wide_sockets=WideSockets(config.socket_receive_buffer_bytes),
    )


def _coordinator(services: Services) -> Coordinator:
    """Import and make the coordinator of groups: a tenth of the time of a start."""
    from broker.groups.coordinator import Coordinator
    from broker.groups.frozen import FrozenCoordinator
    from broker.groups.group_log import GroupLog

    kind = FrozenCoordinator if services.config.barnabas_read_only else Coordinator
    groups = kind(
        GroupLog(
            services.topics, services.partitions, services.commit, services.config, services.clock
        ),
        services.topics,
        services.pool,
        services.config,
        services.clock,
        services.random_bytes,
        partial(configs_of, services.controller.image, GROUP),
    )
    groups.start()
    return groups


def _make_transactions(
    topic_logs: TopicLogs, partitions: Partitions
) -> Callable[[Services], TransactionCoordinator]:
    """Return what makes the coordinator, with what the logs say before clients write to them."""
    return partial(_transactions, gather(one.log for one in partitions.all()), topic_logs)


def _transactions(
    evidence: Evidence, topic_logs: TopicLogs, services: Services
) -> TransactionCoordinator:
    """Import and make the coordinator of transactions, as that of groups."""
    from broker.transactions.adoption import Adoption
    from broker.transactions.endings import Endings
    from broker.transactions.late_logs import LateLogs
    from broker.transactions.markers import MarkerWriter
    from broker.transactions.state_log import StateLog
    from broker.transactions.transaction_coordinator import TransactionCoordinator
    from broker.transactions.transaction_loading import TransactionLoading
    from broker.transactions.transaction_store import TransactionStore

    config, clock = services.config, services.clock
    log = StateLog(services.topics, services.partitions, services.commit, config, clock)
    store = TransactionStore(log, services.metrics, config.barnabas_transactional_ids_max)
    writer = MarkerWriter(
        services.partitions,
        services.commit,
        services.appends,
        lambda: services.groups,
        services.purgatory.notify,
    )
    endings = Endings(store, writer, clock, services.metrics)
    coordinator = TransactionCoordinator(store, endings, services.producer_ids, config, clock)
    if log.count():
        adoption = Adoption(
            store, endings, services.producer_ids, evidence, config, clock, services.pool
        )
        opened = [partition.log for partition in services.partitions.all()]
        unseen = {*services.partitions.offline(), *((one.topic, one.partition) for one in opened)}
        unseen -= evidence.seen
        is_read_only = config.barnabas_read_only
        late = LateLogs(store, services.partitions, adoption, clock, () if is_read_only else unseen)
        topic_logs.opened = late.opened
        coordinator.loading = loading = TransactionLoading(
            log,
            adoption,
            late,
            services.pool,
            clock,
            config.transaction_state_log_load_buffer_size,
            opened,
            services.metrics,
        )
        loading.start()
    return coordinator


def _open_logs(topic_logs: TopicLogs, logs: LogManager, metadata_log: MetadataLog) -> None:
    topic_logs.open_all()
    named = {
        (topic.name, info.partition)
        for topic in metadata_log.image.topics.values()
        for info in topic.partitions
    } | logs.logs.keys()
    if not logs.home.is_read_only:
        logs.in_the_way.clear_unnamed(named, metadata_log.removed, logs.now_ms())
    metadata_log.removed = set()
    for stray in logs.directory.strays(named):
        logger.warning(
            "%(name)s in the data directory belongs to no topic; leaving it as it is",
            {"name": stray},
        )
    if isinstance(logs.directory.filesystem, Overlay):
        logs.directory.filesystem.seal()


def _commit_and_appends(
    logs: LogManager,
    config: BrokerConfig,
    record_work: RecordWork,
    pool: BlockingPool,
    flush_pool: BlockingPool,
    purgatory: Purgatory,
    metrics: Metrics,
    clock: Clock,
) -> tuple[GroupCommit, AppendQueue]:
    """Make the two that need each other: the end of a flush lets queued appends continue."""

    def advanced(partition: Partition) -> None:
        if partition.watchers or partition.sleepers:
            purgatory.notify(partition)
        if appends.queued:
            appends.drain()

    commit = GroupCommit(flush_pool, advanced, metrics, clock)
    appends = AppendQueue(
        logs,
        commit,
        record_work,
        config.barnabas_unflushed_bytes_max,
        config.barnabas_flush_stall_ms,
        metrics,
        clock,
        pool,
    )
    return commit, appends


def _api_versions() -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=row.api_key,
            min_version=(
                PRODUCE_ADVERTISED_MIN if row.api_key == ApiKey.PRODUCE else row.min_version
            ),
            max_version=row.max_version,
        )
        for row in HANDLERS
    ]
