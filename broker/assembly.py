"""Putting one broker together: from a configuration and a directory to the services.

`open_directory` is everything that reads or repairs files: it runs before anything listens.
`assemble` makes the parts and ties them to each other. The parts know nothing of how they came
about, so tests put together what they need from here, too.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from broker.configs.changes import GROUP, configs_of
from broker.configs.live import BrokerSettings, Configs
from broker.handlers import HANDLERS, PRODUCE_ADVERTISED_MIN
from broker.metadata.controller import Controller
from broker.metadata.image import ClusterImage
from broker.metadata.metadata_log import METADATA_TOPIC_ID, MetadataLog, open_metadata_log
from broker.metadata.producer_ids import ProducerIds
from broker.metadata.topic_rules import GROUP_TOPIC, Placement
from broker.network.advertised import Advertised
from broker.network.byte_budget import ByteBudget
from broker.network.gathered_writes import GatheredWrites
from broker.partitions.append_queue import AppendQueue
from broker.partitions.checkpoint_writer import CheckpointWriter
from broker.partitions.group_commit import FLUSH_THREADS, GroupCommit
from broker.partitions.partition import Partition, Partitions
from broker.partitions.purgatory import Purgatory
from broker.partitions.record_work import RecordWork
from broker.read_only import overlay
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import FailureLog
from broker.runtime.request_queue import RequestQueue
from broker.services import Services
from broker.topics import Topics
from config.broker import BrokerConfig
from config.listeners import Listener
from config.load import Loaded
from config.topic import TopicConfig
from protocol.api_keys import ApiKey
from protocol.messages.api_versions import ApiVersion
from storage.errors import CorruptMetadata
from storage.files.filenames import META_PROPERTIES, METADATA_TOPIC
from storage.files.filesystem import FileSystem, OsFileSystem
from storage.files.overlay import Overlay
from storage.log import Log
from storage.log_manager import LogManager, ManagerSettings

if TYPE_CHECKING:
    from broker.groups.coordinator import Coordinator

logger = logging.getLogger("barnabas.server")

# Threads for cold reads and for checkpoints beside them; group commit has its own for fsync.
# num.recovery.threads.per.data.dir may ask for more.
BLOCKING_THREADS_MIN = 4


@dataclass(frozen=True, slots=True)
class Opened:
    """A data directory that is ours, its metadata, and its logs as far as they are open."""

    logs: LogManager
    metadata_log: MetadataLog
    controller: Controller


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of a broker that are not tasks."""

    services: Services
    queue: RequestQueue
    budget: ByteBudget
    writes: GatheredWrites
    bound: Sequence[tuple[Listener, int]]


def open_directory(config: BrokerConfig, clock: Clock) -> Opened:
    """Lock the directory, replay its metadata and take the lead of its partitions.

    Raises StorageError or OSError, after letting go of the directory.
    """
    directory = os.path.abspath(config.data_directory)
    settings = ManagerSettings(
        random_bytes=os.urandom,
        open_files_max=config.barnabas_open_files_max,
        producer_expiration_ms=config.producer_id_expiration_ms,
        node_id=None if config.barnabas_read_only else config.node_id,
        cluster_id=config.barnabas_cluster_id or None,
    )
    filesystem: FileSystem = OsFileSystem()
    if config.barnabas_read_only:
        filesystem = overlay(filesystem, directory, config)
    logs = LogManager(filesystem, directory, settings, clock.now_ms)
    try:
        logs.open()
    except PermissionError as error:
        reason = f"{error.strerror} for uid {os.getuid()}"
        raise PermissionError(error.errno, reason, error.filename or directory) from error
    if settings.cluster_id not in (None, logs.directory.meta.cluster_id):
        logger.warning(
            "barnabas.cluster.id=%s is not used: %s has the cluster id %s already",
            settings.cluster_id,
            directory,
            logs.directory.meta.cluster_id,
        )
    try:
        return _open_metadata(config, clock, logs)
    except BaseException:
        logs.abandon()
        raise


def _open_metadata(config: BrokerConfig, clock: Clock, logs: LogManager) -> Opened:
    def open_log(topic_config: TopicConfig, leader_epoch: int) -> Log:
        return logs.open_log(
            METADATA_TOPIC,
            0,
            METADATA_TOPIC_ID,
            topic_config,
            leader_epoch,
            create=True,
        )

    node_id = logs.directory.meta.node_id
    metadata_log = open_metadata_log(
        logs.directory.filesystem,
        logs.directory.path,
        open_log,
        node_id,
        clock.now_ms(),
        recovery_point=logs.recovery_point(METADATA_TOPIC, 0) or 0,
    )
    assert logs.directory.meta.directory_id is not None, "the manager gives every directory an id"
    controller = Controller(
        metadata_log,
        placement=Placement(
            node_id=node_id,
            default_partition_count=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            clamp=config.barnabas_replication_factor_clamp,
        ),
        topic_defaults=config.topic_defaults,
        directory_id=logs.directory.meta.directory_id,
        has_directory=logs.directory.has_partition,
        random_bytes=os.urandom,
    )
    _check_node_id(controller.image, logs)
    leadership = controller.take_leadership(clock.now_ms(), unclean=not logs.directory.was_clean)
    metadata_log.flush()
    for warning in metadata_log.warnings:
        logger.warning("%s", warning)
    for name in (*leadership.elsewhere, *leadership.not_ours):
        logger.warning("%s is not here: another directory or node has it", name)
    logger.info(
        "cluster %s, node %d, directory %s: %s, %d topics with %d partitions",
        logs.directory.meta.cluster_id,
        node_id,
        logs.directory.path,
        _state(logs),
        len(controller.image.topics),
        controller.image.partition_count,
    )
    return Opened(logs, metadata_log, controller)


def _state(logs: LogManager) -> str:
    if logs.home.is_read_only:
        return "served read-only, nothing is changed"
    if logs.directory.is_new:
        return "new"
    return "stopped cleanly" if logs.directory.was_clean else "recovering"


def _check_node_id(image: ClusterImage, logs: LogManager) -> None:
    """Refuse a node id under which nothing of what is here would be served: it is wrong."""
    node_id = logs.directory.meta.node_id
    other: tuple[str, Sequence[int]] | None = None
    for topic in image.topics.values():
        for partition in topic.partitions:
            if node_id in partition.replicas:
                return
            if other is None and logs.directory.has_partition(topic.name, partition.partition):
                other = f"{topic.name}-{partition.partition}", partition.replicas
    if other is not None:
        name, replicas = other
        raise CorruptMetadata(
            os.path.join(logs.directory.path, META_PROPERTIES),
            f"node.id={node_id}, but the metadata has {name}, and all else that is here, on node "
            f"{', '.join(map(str, replicas))}: set the node.id that it was",
        )


def assemble(
    loaded: Loaded,
    opened: Opened,
    bind: Callable[[], Sequence[tuple[Listener, int]]],
    clock: Clock,
    loop: asyncio.AbstractEventLoop,
) -> Assembly:
    """Make the services, and open every log: recovery happens here.

    `bind` returns the listeners with the ports they got. It is called when recovery has ended:
    nothing listens before.
    """
    settings = BrokerSettings(
        loaded, opened.controller, node_id := opened.logs.directory.meta.node_id
    )
    config = settings.loaded.config
    metrics = Metrics()
    loop.set_exception_handler(FailureLog(metrics, clock))
    partitions = Partitions()
    purgatory = Purgatory(metrics)
    threads = max(BLOCKING_THREADS_MIN, config.num_recovery_threads_per_data_dir)
    pool = BlockingPool(threads, loop)
    record_work = RecordWork(pool, metrics)
    flush_pool = BlockingPool(FLUSH_THREADS, loop)
    commit, appends = _commit_and_appends(
        opened.logs, config, record_work, pool, flush_pool, purgatory, metrics, clock
    )
    metadata, logs = Partition(opened.metadata_log.log), opened.logs
    topics = Topics(
        opened.controller, logs, partitions, metadata, commit, appends, purgatory, pool, clock
    )
    configs = Configs(
        settings, opened.controller, partitions, topics.record_configs, commit, purgatory, node_id
    )
    topics.open_all()
    _name_strays(opened.logs)
    if isinstance(opened.logs.directory.filesystem, Overlay):
        opened.logs.directory.filesystem.seal()
    bound = bind()
    services = Services(
        config=config,
        clock=clock,
        metrics=metrics,
        pool=pool,
        record_work=record_work,
        flush_pool=flush_pool,
        logs=opened.logs,
        checkpoints=CheckpointWriter(opened.logs, pool),
        partitions=partitions,
        commit=commit,
        appends=appends,
        purgatory=purgatory,
        answers=ByteBudget(config.barnabas_answer_bytes_max, metrics, "answers_full_waits"),
        controller=opened.controller,
        topics=topics,
        make_groups=partial(_coordinator, loop),
        configs=configs,
        producer_ids=ProducerIds(topics.next_producer_ids),
        advertised=Advertised(bound, config.advertised),
        api_versions=_api_versions(),
        served_keys=frozenset(int(row.api_key) for row in HANDLERS),
        cluster_id=opened.logs.directory.meta.cluster_id,
        node_id=node_id,
    )
    settings.listen(services.reconfigure)
    if topics.by_name(GROUP_TOPIC) is not None:
        _ = services.groups  # which begins to load them
    queue = RequestQueue(config.queued_max_requests, metrics)
    budget = ByteBudget(config.queued_max_request_bytes, metrics, "budget_full_waits")
    return Assembly(services, queue, budget, GatheredWrites(), bound)


def _coordinator(loop: asyncio.AbstractEventLoop, services: Services) -> Coordinator:
    """Import and make the coordinator of groups, when there is one: a tenth of a start's time."""
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
        loop,
        partial(configs_of, services.controller.image, GROUP),
    )
    groups.start()
    return groups


def _name_strays(logs: LogManager) -> None:
    for stray in logs.strays():
        logger.warning("%s in the data directory belongs to no topic, it is left alone", stray)


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
    """The two that need each other: a flush that ends lets queued appends go on."""

    def advanced(partition: Partition) -> None:
        purgatory.notify(partition)
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
