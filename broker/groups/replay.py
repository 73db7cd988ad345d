"""Replays a partition of `__consumer_offsets`: reads its batches, and applies their records.

`read_chunk` decompresses and decodes. It is slow and changes nothing, so it runs in a thread. A
`Replayer` then applies the records on the loop (broker/groups/apply.py).

Offsets of a transaction are pending until its marker (broker/groups/pending.py), as they were when
they were written. Those of a transaction without a marker stay so. Kafka's cleaner leaves batches
without records, markers among them. These preserve a producer's sequence and are ignored here.

A group belongs to one partition: the hash of its id modulo the number of partitions. Records of
other groups were written while the topic had a different number of partitions. They are ignored:
in Kafka, too, no request finds them.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from broker.groups.apply import APPLY, apply_offset, end_transaction
from broker.groups.group import Host
from broker.groups.registry import Registry
from protocol.errors import DecodeError
from protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    UnknownRecord,
    decode,
)
from protocol.records import BatchHeader, Buffer, Record, batches, read_records
from storage.producers.producer_state import NO_PRODUCER_ID

logger = logging.getLogger("barnabas.groups")

_CONTROL_KEY: Final = struct.Struct(">hh")  # version, type
_COMMIT: Final = 1  # ControlRecordType in Kafka
RECORDS_BYTES_MAX: Final = 128 * 1024 * 1024  # one batch, decompressed
RECORDS_PER_TURN: Final = 200  # of the loop, at about 10 µs each
PARTITIONS_A_RECORD: Final = 30  # of a member: so many are as much work as a small record


class ReadRecord(NamedTuple):
    """A record of a known type."""

    offset: int
    key: Any
    value: Any

    @property
    def group_id(self) -> str:
        """The id of the record's group."""
        key = self.key
        group_id: str = (
            key.group if isinstance(key, OffsetCommitKey | GroupMetadataKey) else key.group_id
        )
        return group_id


class ReadBatch(NamedTuple):
    """One batch; `is_commit` is the outcome of a control batch, None for a data batch."""

    next_offset: int
    record_count: int  # including ignored ones
    producer_id: int  # of a transaction; -1 for a batch without one
    is_commit: bool | None
    records: Sequence[ReadRecord]


def read_chunk(chunk: Buffer) -> list[ReadBatch]:
    """Return the contents of whole batches. Raises RecordError for bytes that are no batch."""
    return [_read_batch(chunk, position, header) for position, header in batches(chunk)]


def _read_batch(chunk: Buffer, position: int, header: BatchHeader) -> ReadBatch:
    records = read_records(chunk, position, size_max=RECORDS_BYTES_MAX, skip_headers=True)
    next_offset = header.next_offset
    if header.is_control:
        marker = next(records, None)
        if marker is None:
            return ReadBatch(next_offset, 0, NO_PRODUCER_ID, None, ())
        return ReadBatch(next_offset, 0, header.producer_id, _is_commit(marker), ())
    read = [decoded for record in records if (decoded := _decode(record)) is not None]
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    return ReadBatch(next_offset, header.record_count, producer_id, None, read)


def _is_commit(marker: Record) -> bool:
    key = marker.key or b""
    return len(key) >= _CONTROL_KEY.size and _CONTROL_KEY.unpack_from(key)[1] == _COMMIT


def _decode(record: Record) -> ReadRecord | None:
    try:
        decoded = decode(record.key or b"", record.value)
    except DecodeError as error:
        logger.warning(
            "group record at offset %(offset)d ignored: %(error)s",
            {"offset": record.offset, "error": error},
        )
        return None
    if isinstance(decoded, UnknownRecord):
        return None
    if not isinstance(decoded[0], OffsetCommitKey) and type(decoded[0]) not in APPLY:
        return None
    return ReadRecord(record.offset, *decoded)


class Replayer:
    """Applies the batches of one partition to `registry`, in order."""

    def __init__(self, registry: Registry, host: Host, is_ours: Callable[[str], bool]) -> None:
        """`is_ours(group_id)` tells whether a group belongs to this partition."""
        self.record_count = 0
        self.elsewhere_count = 0  # records of groups of other partitions
        self.topic_ids: dict[str, set[bytes]] = {}  # with which offsets were committed, by topic
        self._registry = registry
        self._host = host
        self._is_ours = is_ours

    def apply(self, read: Sequence[ReadBatch]) -> Iterator[None]:
        """Apply batches; at each yield the caller lets other tasks run."""
        taken = 0
        for batch in read:
            self.record_count += batch.record_count
            if batch.is_commit is not None:
                end_transaction(self._registry, batch.producer_id, is_commit=batch.is_commit)
            for record in batch.records:
                self._take(record, batch.producer_id)
                taken += _weight(record.value)
                if taken >= RECORDS_PER_TURN:
                    taken = 0
                    yield

    def _take(self, record: ReadRecord, producer_id: int) -> None:
        group_id = record.group_id
        if not self._is_ours(group_id):
            self.elsewhere_count += 1
            return
        key = record.key
        if isinstance(key, OffsetCommitKey):
            value = record.value
            if value is not None:
                self.topic_ids.setdefault(key.topic, set()).add(value.topic_id)
            apply_offset(self._registry, self._host, key, value, record.offset, producer_id)
        else:
            APPLY[type(key)](self._registry, self._host, key, record.value)


def _weight(value: Any) -> int:
    """Return the work of a record, in small records: members take 7 us each, partitions 0.3."""
    if isinstance(value, GroupMetadataValue):
        return 1 + len(value.members)
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        topics = (*value.assigned_partitions, *value.partitions_pending_revocation)
        return 1 + sum(len(topic.partitions) for topic in topics) // PARTITIONS_A_RECORD
    return 1
