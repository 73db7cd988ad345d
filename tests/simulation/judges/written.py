"""Written: what a coordinator has answered is on the disk at that moment, whether it is cut or not.

A power cut shows only now and then that an answer came too early. This judge looks for the record
that an answer speaks of in the files of `__consumer_offsets`: one that programs see there is on the
disk, too. What is in no file at all is the matter of `restored_groups`: compaction may have removed
the record, and it cannot be found in a compressed batch.

    a commit, and an offset that was read    the offset
    a share of a classic group               the generation
    a heartbeat of a consumer group          the epoch of the member
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any, Final

from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    GroupMetadataKey,
    OffsetCommitKey,
    encode_key,
)
from storage.files import filenames
from storage.files.filenames import Kind
from tests.simulation.group_events import Beat, Commit, Event, Fetched, Synced
from tests.simulation.judges.restored_groups import GROUPS
from tests.support.memory_inodes import Directory, Inode

_BETWEEN: Final = rb".{1,5}\x00[\x00-\x04]"  # key and value: a varint, and the value's version
_INT32, _INT64 = struct.Struct(">i"), struct.Struct(">q")
_CLASSIC: Final = struct.pack(">h", len(PROTOCOL_TYPE)) + PROTOCOL_TYPE.encode()


def judge(event: Event, data: Directory) -> list[str]:
    """Object to an answer that has just come, if the disk does not have what it says."""
    record = _record(event)
    if record is None or event.code != 0:
        return []
    key, value = record
    pattern = re.compile(re.escape(encode_key(key)) + _BETWEEN + re.escape(value), re.DOTALL)
    is_there = any(pattern.search(node.live) for node in _files(data, is_durable=False))
    if not is_there or any(pattern.search(node.durable) for node in _files(data, is_durable=True)):
        return []
    return [f"{event.who} was answered {type(event).__name__} of {key}, which is not on the disk"]


def _record(event: Event) -> tuple[Any, bytes] | None:
    """Return the key of the record that an answer speaks of, and how its value begins."""
    group = event.group
    if isinstance(event, Commit | Fetched) and event.offset >= 0:
        key = OffsetCommitKey(group=group, topic=event.topic, partition=event.partition)
        return key, _INT64.pack(event.offset)
    if isinstance(event, Synced):
        return GroupMetadataKey(group=group), _CLASSIC + _INT32.pack(event.generation)
    if isinstance(event, Beat) and event.epoch >= 0:
        member = ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=event.member_id)
        return member, _INT32.pack(event.told_epoch)
    return None


def _files(data: Directory, *, is_durable: bool) -> Iterator[Inode]:
    """Yield the files of the logs of groups that have names: for programs, or on the disk."""
    for name, node in (data.durable if is_durable else data.live).items():
        parsed = filenames.parse(name)
        is_partition = parsed is not None and parsed.kind is Kind.PARTITION
        if is_partition and parsed.topic == GROUPS and isinstance(node, Directory):
            for file, inode in (node.durable if is_durable else node.live).items():
                # A copy that is not finished promises nothing, and may be packed otherwise.
                if isinstance(inode, Inode) and (is_durable or file.endswith(filenames.LOG)):
                    yield inode
