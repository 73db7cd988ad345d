"""Removing broker settings that are recorded in a data directory, while the broker is stopped.

Settings made at run time are recorded in the metadata log and override every file, variable and
--set of the next start. If such a value keeps all clients from connecting, it cannot be removed
over the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.metadata.image import CONFIG_BROKER, ClusterImage
from client.files.stopped_directory import NotRecorded, change_records
from protocol.metadata_records import ConfigRecord


def unset_recorded(
    directory: str, names: Sequence[str], keys: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Remove `keys` of the brokers `names` ("" is all brokers); return name, key and old value.

    Raises NotRecorded, StorageError (a broker uses the directory, or it is damaged), OSError.
    """

    def plan(image: ClusterImage) -> tuple[list[Any], list[tuple[str, str, str]]]:
        removed = _recorded(image, names, keys)
        records = [
            ConfigRecord(resource_type=CONFIG_BROKER, resource_name=name, name=key, value=None)
            for name, key, _ in removed
        ]
        return records, removed

    return change_records(directory, plan)


def _recorded(
    image: ClusterImage, names: Sequence[str], keys: Sequence[str]
) -> list[tuple[str, str, str]]:
    found = []
    for name in names:
        held = image.broker_configs.get(name, {})
        for key in dict.fromkeys(keys):
            if key not in held:
                whose = f"broker {name}" if name else "all brokers"
                there = ", ".join(sorted(held)) or "nothing"
                raise NotRecorded(f"{key} is not recorded for {whose}; recorded: {there}.")
            found.append((name, key, held[key]))
    return found
