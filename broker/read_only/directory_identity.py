"""Opening a data directory for a broker that changes nothing in it: an overlay with an identity.

A broker that writes refuses to start without a sound meta.properties, since a wrong identity would
orphan the partitions. A copy may lack the file, or have a damaged or another node's one. A
read-only broker then takes the identity of the node whose partitions are in the directory, as the
metadata log records it. The identity stays in memory.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from typing import Final

from broker.metadata.image_loading import load_image
from config.broker import BrokerConfig
from storage.errors import CorruptMetadata
from storage.files import filenames, meta_properties
from storage.files.filesystem import FileSystem
from storage.files.meta_properties import RESERVED_UUIDS, MetaProperties, random_uuid
from storage.files.overlay import Overlay
from storage.files.text_files import uuid_text

logger = logging.getLogger("barnabas.server")

_DEFAULT_NODE_ID: Final = 1


def overlay(
    filesystem: FileSystem,
    directory: str,
    config: BrokerConfig,
    random_bytes: Callable[[int], bytes],
) -> Overlay:
    """Return an overlay of `filesystem` on which `directory` has a sound meta.properties.

    Raises CorruptMetadata if the metadata log is missing or damaged.
    """
    over = Overlay(filesystem)
    metadata_directory = os.path.join(directory, filenames.METADATA_DIRECTORY)
    if not filesystem.is_directory(metadata_directory):
        raise CorruptMetadata(
            metadata_directory,
            "missing: nothing else says which topics there are; copy it, too, or check the path",
        )
    found = _identities(over, directory, metadata_directory)
    path = os.path.join(directory, filenames.META_PROPERTIES)
    meta, reason = _recorded_identity(over, path, {node_id for node_id, _ in found})
    if meta is None:
        default = _DEFAULT_NODE_ID if config.node_id is None else config.node_id, None
        (node_id, directory_id), _ = found.most_common(1)[0] if found else (default, 0)
        cluster_id = config.barnabas_cluster_id or uuid_text(random_uuid(random_bytes))
        meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
        meta_properties.write(over, path, meta)
        logger.warning(
            "%(file)s: %(reason)s; served as node %(node_id)d",
            {"file": path, "reason": reason, "node_id": node_id},
        )
    elif config.node_id not in (None, meta.node_id):
        logger.warning(
            "node.id=%(given)d is ignored: the directory belongs to node %(node_id)d",
            {"given": config.node_id, "node_id": meta.node_id},
        )
    return over


def _recorded_identity(
    filesystem: FileSystem, path: str, node_ids: set[int]
) -> tuple[MetaProperties | None, str]:
    """Return meta.properties, or None and the reason if it is unusable for `node_ids`."""
    try:
        meta = meta_properties.read(filesystem, path)
    except (CorruptMetadata, OSError) as error:
        return None, str(error)
    if meta is None:
        return None, "missing"
    if node_ids and meta.node_id not in node_ids:
        return None, f"no partition here belongs to its node.id={meta.node_id}"
    return meta, ""


def _identities(
    filesystem: FileSystem, directory: str, metadata_directory: str
) -> Counter[tuple[int, bytes | None]]:
    """Count the partitions in the directory by (node id, directory id), as recorded."""
    found: Counter[tuple[int, bytes | None]] = Counter()
    for topic in load_image(filesystem, metadata_directory).image.topics.values():
        for partition in topic.partitions:
            name = filenames.partition_directory(topic.name, partition.partition)
            if filesystem.exists(os.path.join(directory, name)):
                for replica in partition.replicas:
                    recorded: bytes | None = partition.directory_of(replica)
                    if recorded is not None and int.from_bytes(recorded, "big") < RESERVED_UUIDS:
                        recorded = None
                    found[replica, recorded] += 1
    return found
