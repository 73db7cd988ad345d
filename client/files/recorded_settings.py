"""Removing broker settings that are recorded in a data directory, while the broker is stopped.

Settings made at run time are recorded in the metadata log and override every file, variable and
--set of the next start. If such a value keeps all clients from connecting, it cannot be removed
over the wire. The directory is locked meanwhile, as by a broker. It stays as clean or unclean as it
was, with one more epoch in its metadata log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from broker.metadata.image import CONFIG_BROKER
from broker.metadata.metadata_log import METADATA_TOPIC_ID, MetadataLog, open_metadata_log
from broker.runtime.clock import SystemClock
from config.topic import TopicConfig
from protocol.metadata_records import ConfigRecord
from storage.clean_stop import run_in_turn
from storage.errors import StorageError
from storage.files import filenames
from storage.files.os_filesystem import OsFileSystem
from storage.files.text_files import NO_BROKER_EPOCH
from storage.log import Log
from storage.log_manager import LogManager, ManagerSettings


class NotRecorded(Exception):
    """A key is not recorded for that broker; nothing was changed."""


def unset_recorded(
    directory: str, names: Sequence[str], keys: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Remove `keys` of the brokers `names` ("" is all brokers); return name, key and old value.

    Raises NotRecorded, StorageError (a broker uses the directory, or it is damaged), OSError.
    """
    filesystem = OsFileSystem()
    path = os.path.abspath(directory)
    if not filesystem.exists(os.path.join(path, filenames.META_PROPERTIES)):
        raise NotRecorded(f"{directory} is not a data directory: it has no meta.properties.")
    clock = SystemClock()
    logs = LogManager(filesystem, path, ManagerSettings(random_bytes=os.urandom), clock.now_ms)
    logs.open()
    try:
        metadata_log = _open_metadata_log(logs, clock.now_ms())
        removed = _recorded(metadata_log, names, keys)
        metadata_log.begin_epoch(clock.now_ms())
        metadata_log.append(
            [
                ConfigRecord(resource_type=CONFIG_BROKER, resource_name=name, name=key, value=None)
                for name, key, _ in removed
            ],
            clock.now_ms(),
        )
        metadata_log.flush()
    except NotRecorded:
        _close(logs, metadata_log)
        raise
    except BaseException:
        logs.abandon()
        raise
    _close(logs, metadata_log)
    return removed


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


def _recorded(
    metadata_log: MetadataLog, names: Sequence[str], keys: Sequence[str]
) -> list[tuple[str, str, str]]:
    found = []
    for name in names:
        held = metadata_log.image.broker_configs.get(name, {})
        for key in dict.fromkeys(keys):
            if key not in held:
                whose = f"broker {name}" if name else "all brokers"
                there = ", ".join(sorted(held)) or "nothing"
                raise NotRecorded(f"{key} is not recorded for {whose}; recorded: {there}.")
            found.append((name, key, held[key]))
    return found


def _close(logs: LogManager, metadata_log: MetadataLog) -> None:
    epochs = metadata_log.image.broker_epochs
    was_clean = logs.directory.was_clean
    epoch = epochs.get(logs.directory.meta.node_id, NO_BROKER_EPOCH)
    went_well = run_in_turn(logs.closing(clean=was_clean, broker_epoch=epoch))
    if was_clean and not went_well:
        raise StorageError("; ".join(logs.warnings) or "the directory could not be closed")
