"""Open the data directory at startup: lock it, load its metadata, take leadership.

All of this reads or repairs files, and runs before the broker listens. The logs of topics stay
closed until the metadata says which ones exist.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.metadata.controller import Controller
from broker.metadata.image import ClusterImage
from broker.metadata.metadata_log import METADATA_TOPIC_ID, MetadataLog, open_metadata_log
from broker.metadata.topic_rules import Placement
from broker.read_only.directory_identity import overlay
from broker.runtime.clock import Clock
from config.broker import BrokerConfig
from config.topic import TopicConfig
from storage.errors import CorruptMetadata
from storage.files.filenames import META_PROPERTIES, METADATA_TOPIC
from storage.files.filesystem import FileSystem
from storage.log import Log
from storage.log_manager import LogManager, ManagerSettings

logger = logging.getLogger("barnabas.server")


@dataclass(frozen=True, slots=True)
class Opened:
    """A locked data directory, its metadata, and its manager of logs."""

    logs: LogManager
    metadata_log: MetadataLog
    controller: Controller


def open_directory(
    config: BrokerConfig,
    filesystem: FileSystem,
    clock: Clock,
    random_bytes: Callable[[int], bytes],
) -> Opened:
    """Lock the directory, load its metadata and take the lead of its partitions.

    `random_bytes` makes the ids of the cluster, the directory and topics. Raises StorageError or
    OSError, after letting go of the directory.
    """
    directory = os.path.abspath(config.data_directory)
    settings = ManagerSettings(
        random_bytes=random_bytes,
        open_files_max=config.barnabas_open_files_max,
        producer_expiration_ms=config.producer_id_expiration_ms,
        node_id=None if config.barnabas_read_only else config.node_id,
        cluster_id=config.barnabas_cluster_id or None,
    )
    if config.barnabas_read_only:
        filesystem = overlay(filesystem, directory, config, random_bytes)
    logs = LogManager(filesystem, directory, settings, clock.now_ms)
    try:
        logs.open()
    except PermissionError as error:
        reason = f"{error.strerror} for uid {os.getuid()}"
        raise PermissionError(error.errno, reason, error.filename or directory) from error
    if settings.cluster_id not in (None, logs.directory.meta.cluster_id):
        logger.warning(
            "ignoring barnabas.cluster.id=%(given)s: %(directory)s already has the cluster id"
            " %(cluster_id)s",
            {
                "given": settings.cluster_id,
                "directory": directory,
                "cluster_id": logs.directory.meta.cluster_id,
            },
        )
    try:
        return _open_metadata(config, logs, clock, random_bytes)
    except BaseException:
        logs.abandon()
        raise


def _open_metadata(
    config: BrokerConfig, logs: LogManager, clock: Clock, random_bytes: Callable[[int], bytes]
) -> Opened:
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
        is_blocked=lambda topic: topic in logs.in_the_way.topics,
        random_bytes=random_bytes,
    )
    _check_node_id(controller.image, logs)
    leadership = controller.take_leadership(clock.now_ms(), unclean=not logs.directory.was_clean)
    metadata_log.flush()
    for warning in metadata_log.warnings:
        logger.warning("%(warning)s", {"warning": warning})
    for name in (*leadership.elsewhere, *leadership.not_ours):
        logger.warning(
            "not serving %(name)s: it is in another directory or on another node", {"name": name}
        )
    logger.info(
        "cluster %(cluster_id)s, node %(node_id)d, directory %(directory)s: %(state)s, %(topics)d"
        " topics with %(partitions)d partitions",
        {
            "cluster_id": logs.directory.meta.cluster_id,
            "node_id": node_id,
            "directory": logs.directory.path,
            "state": _state(logs),
            "topics": len(controller.image.topics),
            "partitions": controller.image.partition_count,
        },
    )
    return Opened(logs, metadata_log, controller)


def _state(logs: LogManager) -> str:
    if logs.home.is_read_only:
        return "served read-only, nothing is changed"
    if logs.directory.is_new:
        return "new"
    return "stopped cleanly" if logs.directory.was_clean else "recovering"


def _check_node_id(image: ClusterImage, logs: LogManager) -> None:
    """Refuse a node id under which no partition here would be served: it is wrong."""
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
            f"node.id={node_id}, but the metadata has {name}, and all other partitions found here, "
            f"on node {', '.join(map(str, replicas))}; set node.id to that",
        )
