"""Changes of the metadata log in a data directory, while the broker is stopped.

The directory is locked meanwhile, as by a broker. It stays as clean or unclean as it was, with one
more epoch in its metadata log.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from broker.metadata.image import ClusterImage
from broker.metadata.metadata_log import METADATA_TOPIC_ID, MetadataLog, open_metadata_log
from broker.runtime.clock import SystemClock
from config.topic import TopicConfig
from storage.clean_stop import run_in_turn
from storage.errors import StorageError
from storage.files import filenames
from storage.files.os_filesystem import OsFileSystem
from storage.files.text_files import NO_BROKER_EPOCH
from storage.log import Log
from storage.log_manager import LogManager, ManagerSettings

Result = TypeVar("Result")


class NotRecorded(Exception):
    """What was to be changed is not recorded as expected; nothing was changed."""


def change_records(
    directory: str,
    plan: Callable[[ClusterImage], tuple[list[Any], Result]],
    *,
    may_be_new: bool = False,
) -> Result:
    """Write the records that `plan(image)` returns, durably, and return what it returns with them.

    `plan` raises NotRecorded to change nothing; without records nothing is written. `may_be_new`:
    an empty or missing directory is made a data directory. Raises NotRecorded, StorageError (a
    broker uses the directory, or it is damaged), OSError.
    """
    filesystem = OsFileSystem()
    path = os.path.abspath(directory)
    is_new = may_be_new and (not filesystem.exists(path) or not filesystem.list(path))
    if not is_new and not filesystem.exists(os.path.join(path, filenames.META_PROPERTIES)):
        raise NotRecorded(f"{directory} is not a data directory: it has no meta.properties.")
    clock = SystemClock()
    logs = LogManager(filesystem, path, ManagerSettings(random_bytes=os.urandom), clock.now_ms)
    logs.open()
    try:
        metadata_log = _open_metadata_log(logs, clock.now_ms())
        records, result = plan(metadata_log.image)
        if records:
            metadata_log.begin_epoch(clock.now_ms())
            metadata_log.append(records, clock.now_ms())
        metadata_log.flush()
    except NotRecorded:
        _close(logs, metadata_log)
        raise
    except BaseException:
        logs.abandon()
        raise
    _close(logs, metadata_log)
    return result


def _open_metadata_log(logs: LogManager, now_ms: int) -> MetadataLog:
    def open_log(config: TopicConfig, leader_epoch: int) -> Log:
        return logs.open_log(
            filenames.METADATA_TOPIC, 0, METADATA_TOPIC_ID, config, leader_epoch, create=True
        )

    return open_metadata_log(
        logs.directory.filesystem,
        logs.directory.path,
        open_log,
        logs.directory.meta.node_id,
        now_ms,
        recovery_point=logs.recovery_point(filenames.METADATA_TOPIC, 0) or 0,
    )


def _close(logs: LogManager, metadata_log: MetadataLog) -> None:
    epochs = metadata_log.image.broker_epochs
    was_clean = logs.directory.was_clean
    epoch = epochs.get(logs.directory.meta.node_id, NO_BROKER_EPOCH)
    went_well = run_in_turn(logs.closing(clean=was_clean, broker_epoch=epoch))
    if was_clean and not went_well:
        raise StorageError("; ".join(logs.warnings) or "the directory could not be closed")
