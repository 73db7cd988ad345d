"""What each record of `__consumer_offsets` does to the memory of the coordinator.

Used when a partition is loaded, and for offsets also when they are committed: what is in memory
is what a restart would find.

Offsets of a transaction count when its commit marker is met (KIP-98), unless an offset that was
committed later without one stands already. Such records come from a directory that Apache Kafka
has written; the records of a transaction that has no end yet are kept back.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from broker.groups.classic.group import ClassicGroup
from broker.groups.consumer import replay as consumer_groups
from broker.groups.group import GroupKind, Host
from broker.groups.registry import Registry
from protocol.errors import DecodeError, ErrorCode
from protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownRecord,
    decode,
)
from protocol.records import BatchHeader, Buffer, Record, batches, read_records

logger = logging.getLogger("barnabas.groups")

_CONTROL_KEY: Final = struct.Struct(">hh")  # version, type
_COMMIT: Final = 1  # ControlRecordType in Kafka
RECORDS_BYTES_MAX: Final = 128 * 1024 * 1024  # one batch, decompressed

Replay = Callable[[Registry, Host, Any, Any], None]


def replay_offset(
    registry: Registry, host: Host, key: OffsetCommitKey, value: OffsetCommitValue | None
) -> None:
    """Take an offset in; a group that has nothing but offsets is a name for them (KIP-211)."""
    if value is not None and key.group not in registry.groups:
        registry.put(ClassicGroup(key.group, host))
    registry.offsets.replay(key, value)


def replay_classic(
    registry: Registry, host: Host, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> None:
    """Take a generation of a classic group in, or its end."""
    if value is not None:
        registry.put(ClassicGroup.from_record(key.group, value, host))
        return
    group = registry.get(key.group)
    if group is not None and group.kind is GroupKind.CLASSIC:
        registry.remove(key.group, ErrorCode.NOT_COORDINATOR)


REPLAYS: Final[Mapping[type, Replay]] = {
    OffsetCommitKey: replay_offset,
    GroupMetadataKey: replay_classic,
    **consumer_groups.REPLAYS,
}


class Replayer:
    """Replays the batches of one partition, in their order."""

    def __init__(self, registry: Registry, host: Host) -> None:
        self.record_count = 0
        self.unknown_count = 0
        self._registry = registry
        self._host = host
        self._open: dict[int, list[tuple[int, Record]]] = {}  # by producer: not committed yet
        self._offset_of: dict[tuple[str, str, int], int] = {}

    def replay(self, chunk: Buffer) -> Iterator[int]:
        """Take whole batches in; yield after each the offset that follows it.

        The caller lets others run between two. Raises RecordError for bytes that are no batch.
        """
        for position, header in batches(chunk):
            records = read_records(chunk, position, size_max=RECORDS_BYTES_MAX)
            if header.is_control:
                self._end_transaction(header, records_key=next(iter(records)).key or b"")
            elif header.is_transactional:
                self._open.setdefault(header.producer_id, []).extend(
                    (record.offset, record) for record in records
                )
            else:
                for record in records:
                    self._take(record)
            yield header.next_offset

    def _end_transaction(self, header: BatchHeader, records_key: bytes) -> None:
        held = self._open.pop(header.producer_id, [])
        if len(records_key) >= _CONTROL_KEY.size and _CONTROL_KEY.unpack_from(records_key)[1] == (
            _COMMIT
        ):
            for _, record in held:
                self._take(record)

    def _take(self, record: Record) -> None:
        self.record_count += 1
        try:
            decoded = decode(record.key or b"", record.value)
        except DecodeError as error:
            logger.warning("group record at offset %d left out: %s", record.offset, error)
            self.unknown_count += 1
            return
        replay = None if isinstance(decoded, UnknownRecord) else REPLAYS.get(type(decoded[0]))
        if isinstance(decoded, UnknownRecord) or replay is None:
            self.unknown_count += 1
            return
        key, value = decoded
        if isinstance(key, OffsetCommitKey):
            place = (key.group, key.topic, key.partition)
            if self._offset_of.get(place, -1) > record.offset:
                return  # committed after the transaction wrote its own
            self._offset_of[place] = record.offset
        replay(self._registry, self._host, key, value)
