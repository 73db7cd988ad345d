"""The judge of coordinators' answers: their records must be on the disk."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from protocol.records import Record, build
from storage.files import filenames
from tests.simulation.disk_rig import disk_of, make
from tests.simulation.group_events import Beat, Commit, Event, Fetched, Synced
from tests.simulation.judges import written

PATH = "/data/__consumer_offsets-1/00000000000000000000.log"
ASKED: dict[str, Any] = {"who": "c", "group": "g", "began_ns": 1, "ended_ns": 2, "code": 0}
PLACE: dict[str, Any] = {"topic": "t", "partition": 3, "metadata": "m"}
OFFSET = (
    OffsetCommitKey(group="g", topic="t", partition=3),
    OffsetCommitValue(offset=77, metadata="m", commit_timestamp=5),
)
MEMBER = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=4, previous_member_epoch=3, state=0)
GENERATION = GroupMetadataValue(
    protocol_type=PROTOCOL_TYPE, generation=6, protocol="range", leader="m"
)
ANSWERS: tuple[tuple[Event, Any, Any], ...] = (
    (Commit(**ASKED, **PLACE, offset=77), *OFFSET),
    (Fetched(**ASKED, **PLACE, offset=77), *OFFSET),
    (
        Synced(**ASKED, generation=6, member_id="m", leader="m"),
        GroupMetadataKey(group="g"),
        GENERATION,
    ),
    (
        Beat(
            **ASKED, member_id="m", epoch=3, owned=None, session_ms=1, rebalance_ms=1, told_epoch=4
        ),
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        MEMBER,
    ),
)


def groups_disk() -> Any:
    disk: Any = disk_of().disk
    disk.mkdir("/data/__consumer_offsets-1")
    disk.sync_directory("/data")
    return disk


@pytest.mark.parametrize(("event", "key", "value"), ANSWERS)
def test_an_answer_is_on_the_disk(event: Event, key: Any, value: Any) -> None:
    disk = groups_disk()
    data = disk.directory("/data")
    file = make(disk, PATH, b"")
    assert written.judge(event, data) == []  # compaction has removed it
    file.pwrite(build([Record(0, 5, encode_key(key), encode_value(value))]), 0)
    (found,) = written.judge(event, data)
    assert found.startswith(f"c was answered {type(event).__name__} of {type(key).__name__}(")
    assert found.endswith("which is not on the disk")
    file.fdatasync()
    assert written.judge(event, data) == []


def test_names_count_too() -> None:
    event, key, value = ANSWERS[0]
    disk: Any = disk_of().disk
    disk.mkdir("/data/__consumer_offsets-1")
    file = disk.open(PATH, create=True)
    file.pwrite(build([Record(0, 5, encode_key(key), encode_value(value))]), 0)
    file.fdatasync()
    assert len(written.judge(event, disk.directory("/data"))) == 1
    disk.sync_directory("/data/__consumer_offsets-1")
    assert len(written.judge(event, disk.directory("/data"))) == 1
    disk.sync_directory("/data")
    assert written.judge(event, disk.directory("/data")) == []


def test_a_copy_that_is_not_finished_promises_nothing() -> None:
    event, key, value = ANSWERS[0]
    disk = groups_disk()
    file = make(disk, f"{PATH}.{filenames.CLEANED}", b"")
    file.pwrite(build([Record(0, 5, encode_key(key), encode_value(value))]), 0)
    assert written.judge(event, disk.directory("/data")) == []


def test_what_was_not_answered_or_not_found_promises_nothing() -> None:
    disk = groups_disk()
    file = make(disk, PATH, b"")
    file.pwrite(build([Record(0, 5, encode_key(OFFSET[0]), encode_value(OFFSET[1]))]), 0)
    refused = ASKED | {"code": 27}
    none = PLACE | {"offset": -1}
    data = disk.directory("/data")
    assert written.judge(Commit(**refused, **PLACE, offset=77), data) == []
    assert written.judge(Fetched(**ASKED, **none), data) == []
