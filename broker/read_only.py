"""Serving a directory read-only (`serve --read-only`): what is refused, and with which error.

`REFUSED` is the one table of it: each API that would write, and the error that makes clients give
up at once; a retriable one would have them ask for ever. An API that is in neither `REFUSED` nor
`READS` does not pass the tests. No handler asks whether the directory is served read-only.

| error | for | because |
|---|---|---|
| POLICY_VIOLATION | topics, configs, records, the cluster | has a message wherever it is answered |
| TOPIC_AUTHORIZATION_FAILED | produce | producers fail the records, and do not send them again |
| GROUP_AUTHORIZATION_FAILED | groups, commits | consumers raise it, and do not join again |
| CLUSTER_AUTHORIZATION_FAILED | producer ids | an idempotent producer ends with it |

The rest of the mode is where its work is: opening in memory (`storage.files.overlay`), leadership
that is not recorded (`broker.metadata.controller`), no duty that changes anything
(`broker.maintenance.housekeeping`), groups whose members never expire (`broker.groups`).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, Final

from broker.handlers import Handler
from broker.metadata.image_loading import replay
from broker.runtime.request import Request
from broker.services import Services
from config.broker import BrokerConfig
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from storage.errors import CorruptMetadata
from storage.files import filenames, meta_properties
from storage.files.filesystem import FileSystem
from storage.files.meta_properties import RESERVED_UUIDS, MetaProperties, random_uuid
from storage.files.overlay import Overlay
from storage.files.text_files import uuid_text

logger = logging.getLogger("barnabas.server")

MESSAGE: Final = "This broker serves its directory read-only."
_DEFAULT_NODE_ID: Final = 1

REFUSED: Final = {
    ApiKey.PRODUCE: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ApiKey.INIT_PRODUCER_ID: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ApiKey.OFFSET_COMMIT: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.JOIN_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.SYNC_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.HEARTBEAT: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.LEAVE_GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.DELETE_GROUPS: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.OFFSET_DELETE: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ApiKey.CREATE_TOPICS: ErrorCode.POLICY_VIOLATION,
    ApiKey.DELETE_TOPICS: ErrorCode.POLICY_VIOLATION,
    ApiKey.CREATE_PARTITIONS: ErrorCode.POLICY_VIOLATION,
    ApiKey.DELETE_RECORDS: ErrorCode.POLICY_VIOLATION,
    ApiKey.ALTER_CONFIGS: ErrorCode.POLICY_VIOLATION,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ErrorCode.POLICY_VIOLATION,
    ApiKey.ELECT_LEADERS: ErrorCode.POLICY_VIOLATION,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ErrorCode.POLICY_VIOLATION,
    ApiKey.UPDATE_FEATURES: ErrorCode.POLICY_VIOLATION,
    ApiKey.UNREGISTER_BROKER: ErrorCode.POLICY_VIOLATION,
    ApiKey.CREATE_ACLS: ErrorCode.POLICY_VIOLATION,
    ApiKey.DELETE_ACLS: ErrorCode.POLICY_VIOLATION,
}

READS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.API_VERSIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)

Handle = Callable[[Request, Services], Any]


def refuse_writes(rows: Iterable[Handler]) -> list[Handler]:
    """Return the rows of the handler table with a refusal for each of `REFUSED`."""
    return [Refusal(row, REFUSED[row.api_key]) if row.api_key in REFUSED else row for row in rows]


class Refusal(Handler):
    """An API that is answered with one error, and with `MESSAGE` where the answer has room."""

    def __init__(self, row: Handler, code: ErrorCode) -> None:
        super().__init__(row.api_key, row.min_version, row.max_version)

        def handle(request: Request, services: Services) -> Any:  # noqa: ARG001
            return _with_message(row.error_response(request, code))

        self.handle = handle


def _with_message(answer: Any) -> Any:
    """Say `MESSAGE` in every part of an answer that has a message."""
    if isinstance(answer, list):
        for one in answer:
            _with_message(one)
    elif is_dataclass(answer):
        for field in fields(answer):
            if field.name == "error_message":
                setattr(answer, field.name, MESSAGE)
            else:
                _with_message(getattr(answer, field.name))
    return answer


def overlay(filesystem: FileSystem, directory: str, config: BrokerConfig) -> Overlay:
    """Return the directory as opening may treat it, in memory.

    A copy may lack meta.properties, or have that of another node: then this broker is the node
    whose partitions are here. Raises CorruptMetadata if there is nothing to serve.
    """
    over = Overlay(filesystem)
    metadata_directory = os.path.join(directory, filenames.METADATA_DIRECTORY)
    if not filesystem.is_directory(metadata_directory):
        raise CorruptMetadata(
            metadata_directory, "missing: without it nobody knows which topics are to be served"
        )
    found = _identities(over, directory, metadata_directory)
    path = os.path.join(directory, filenames.META_PROPERTIES)
    meta, reason = _recorded_identity(over, path, {node_id for node_id, _ in found})
    if meta is None:
        default = _DEFAULT_NODE_ID if config.node_id is None else config.node_id, None
        (node_id, directory_id), _ = found.most_common(1)[0] if found else (default, 0)
        cluster_id = config.barnabas_cluster_id or uuid_text(random_uuid(os.urandom))
        meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
        meta_properties.write(over, path, meta)
        logger.warning("%s: %s; served as node %d", path, reason, node_id)
    elif config.node_id not in (None, meta.node_id):
        logger.warning(
            "node.id=%d is not used: the directory is that of node %d", config.node_id, meta.node_id
        )
    return over


def _recorded_identity(
    filesystem: FileSystem, path: str, node_ids: set[int]
) -> tuple[MetaProperties | None, str]:
    """Return what meta.properties says; None, and why, if it cannot be used for these nodes."""
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
    """Count the partitions that are here, by the nodes and directory ids that should have them."""
    found: Counter[tuple[int, bytes | None]] = Counter()
    for topic in replay(filesystem, metadata_directory).image.topics.values():
        for partition in topic.partitions:
            name = filenames.partition_directory(topic.name, partition.partition)
            if filesystem.exists(os.path.join(directory, name)):
                for replica in partition.replicas:
                    recorded: bytes | None = partition.directory_of(replica)
                    if recorded is not None and int.from_bytes(recorded, "big") < RESERVED_UUIDS:
                        recorded = None
                    found[replica, recorded] += 1
    return found
