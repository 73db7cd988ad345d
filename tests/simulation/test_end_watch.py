"""The order of the writes of a transaction's end: which of them a power cut would tear."""

from __future__ import annotations

from typing import Any, Final

import pytest

from broker.transactions.transaction_states import TransactionState
from protocol.control_records import Marker, build_marker
from protocol.records import Record, build
from protocol.transaction_records import (
    TransactionPartitions,
    TransactionValue,
    encode_id,
    encode_value,
)
from storage.files.text_files import encode_offsets
from tests.simulation.disk import SimDisk
from tests.simulation.disk_rig import disk_of

STATES: Final = "/data/__transaction_state-0/00000000000000000000.log"
DATA: Final = "/data/t-0/00000000000000000000.log"
PREPARED: Final = TransactionState.PREPARE_COMMIT
COMPLETE: Final = TransactionState.COMPLETE_COMMIT


@pytest.fixture
def disk() -> SimDisk:
    """Return a disk with the logs of a coordinator and of a partition, on which a broker serves."""
    disk: SimDisk = disk_of().disk
    disk.load({"__transaction_state-0": {}}, at="/data")
    disk.ends.is_there = lambda _topic, _number: True
    return disk


def put(disk: SimDisk, path: str, data: bytes) -> Any:
    """Append to a file, and return it open."""
    file = disk.open(path, create=True)
    file.pwrite(data, file.size())
    return file


def state(
    disk: SimDisk, state: TransactionState, *, version: int = 2, epoch: int = 4, topic: str = "t"
) -> Any:
    value = TransactionValue(
        producer_id=7,
        producer_epoch=epoch,
        transaction_timeout_ms=1,
        transaction_status=state,
        transaction_partitions=[TransactionPartitions(topic=topic, partition_ids=[0])],
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=1,
        client_transaction_version=version,
    )
    return put(disk, STATES, bytes(build([Record(0, 1, encode_id("id"), encode_value(value))])))


def marker(disk: SimDisk, *, epoch: int = 4, pid: int = 7, is_commit: bool = True) -> Any:
    return put(disk, DATA, bytes(build_marker(Marker(pid, epoch, is_commit, 0), 1)))


def tombstone(disk: SimDisk) -> Any:
    return put(disk, STATES, bytes(build([Record(0, 1, encode_id("id"), None)])))


@pytest.mark.parametrize("is_durable", [True, False])
def test_a_decision_of_tv1_comes_before_its_markers(disk: SimDisk, is_durable: bool) -> None:
    states = state(disk, PREPARED, version=0)
    if is_durable:
        states.fdatasync()
    marker(disk)
    told = "id: the marker of an end of TV1 is in t-0, and its decision is not on the disk"
    assert disk.ends.found == ([] if is_durable else [told])


def test_a_decision_of_tv2_goes_to_the_disk_beside_its_markers(disk: SimDisk) -> None:
    state(disk, PREPARED)
    marker(disk)
    assert disk.ends.found == []


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_durable", [True, False])
def test_markers_are_on_the_disk_before_complete(
    disk: SimDisk, version: int, is_durable: bool
) -> None:
    state(disk, PREPARED, version=version).fdatasync()
    file = marker(disk)
    if is_durable:
        file.fdatasync()
    state(disk, COMPLETE, version=version)
    told = "id: a record follows the decision of epoch 4, whose marker in t-0 is not on the disk"
    assert disk.ends.found == ([] if is_durable else [told])
    state(disk, TransactionState.EMPTY)  # which follows no decision
    assert len(disk.ends.found) == (0 if is_durable else 1)


@pytest.mark.parametrize(
    ("point", "is_durable", "is_wrong"), [(0, False, False), (1, False, True), (1, True, False)]
)
def test_recovery_points_stay_below_markers_whose_decision_is_not_on_the_disk(
    disk: SimDisk, point: int, is_durable: bool, is_wrong: bool
) -> None:
    states = state(disk, PREPARED)
    marker(disk).fdatasync()
    if is_durable:
        states.fdatasync()
    disk.replace("/data/log-start-offset-checkpoint", encode_offsets({("t", 0): 9}))
    disk.replace("/data/recovery-point-offset-checkpoint", encode_offsets({("t", 0): point}))
    told = "id: the recovery point of t-0 is above its marker, and the decision of epoch 4 is not"
    assert disk.ends.found == ([f"{told} on the disk"] if is_wrong else [])


def test_any_record_erases_the_decision(disk: SimDisk) -> None:
    state(disk, PREPARED)
    marker(disk)
    tombstone(disk)
    assert len(disk.ends.found) == 1


def test_a_marker_that_a_failed_sync_has_lost_is_missing(disk: SimDisk) -> None:
    state(disk, PREPARED).fdatasync()
    file = marker(disk)
    disk.fail("fdatasync")
    with pytest.raises(OSError, match="error"):
        file.fdatasync()
    state(disk, COMPLETE)
    assert len(disk.ends.found) == 1


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_by_hand_behind_that_of_the_end_need_not_be_on_the_disk(
    disk: SimDisk, is_commit: bool
) -> None:
    state(disk, PREPARED, version=0).fdatasync()
    marker(disk).fdatasync()
    marker(disk, is_commit=is_commit)
    state(disk, TransactionState.EMPTY)
    assert disk.ends.found == []


def test_other_markers_are_no_part_of_the_end(disk: SimDisk) -> None:
    marker(disk)  # by hand, before the decision
    state(disk, PREPARED, version=0)
    marker(disk, epoch=3)
    marker(disk, pid=8)
    state(disk, COMPLETE)
    state(disk, PREPARED, epoch=5, topic="other")
    marker(disk, epoch=5)
    state(disk, COMPLETE, epoch=5)
    assert disk.ends.found == []


def test_a_partition_that_is_gone_needs_no_marker(disk: SimDisk) -> None:
    state(disk, PREPARED)
    marker(disk)
    disk.rename("/data/t-0", f"/data/t-0.{'0' * 32}-delete")
    state(disk, COMPLETE)
    disk.load({"t-0": {}}, at="/data")
    state(disk, PREPARED, epoch=5)
    marker(disk, epoch=5)
    disk.ends.is_there = lambda _topic, _number: False  # it is being deleted
    state(disk, COMPLETE, epoch=5)
    assert disk.ends.found == []


def test_what_is_cut_off_again_is_no_marker(disk: SimDisk) -> None:
    state(disk, PREPARED)
    marker(disk).truncate(0)
    state(disk, COMPLETE)
    assert disk.ends.found == []


def test_what_is_written_again_is_no_append(disk: SimDisk) -> None:
    record = state(disk, PREPARED, version=0)
    record.fdatasync()
    file = marker(disk)
    file.fdatasync()
    state(disk, COMPLETE, version=0).fdatasync()
    record.pwrite(bytes(record.pread(record.size(), 0)), 0)
    file.pwrite(file.pread(file.size(), 0), 0)
    assert disk.ends.found == []


def test_a_process_does_not_know_what_the_one_before_has_written(disk: SimDisk) -> None:
    state(disk, PREPARED, version=0)
    disk.kill()
    marker(disk)
    disk.ends.is_there = lambda _topic, _number: True
    marker(disk)
    state(disk, COMPLETE, version=0)
    assert disk.ends.found == []


def data(disk: SimDisk, *, epoch: int = 4) -> None:
    batch = build(
        [Record(0, 1, b"k", b"v")],
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    put(disk, DATA, bytes(batch))


@pytest.mark.parametrize("last", [PREPARED, COMPLETE])
@pytest.mark.parametrize("later", ["", "written", "durable"])
def test_data_behind_an_end_of_tv1_follow_a_record(
    disk: SimDisk, last: TransactionState, later: str
) -> None:
    data(disk)
    states = state(disk, last, version=0)
    if later:
        states = state(disk, TransactionState.EMPTY)
    if later == "durable":
        states.fdatasync()
    data(disk)
    told = (
        "data of producer 7 are in t-0, and no record of its id is on the disk behind the end of"
        " TV1 with epoch 4"
    )
    assert disk.ends.found == ([] if later == "durable" else [told])


def test_data_of_the_next_epoch_or_behind_an_end_of_tv2_need_no_record(disk: SimDisk) -> None:
    state(disk, PREPARED, version=0)
    data(disk, epoch=5)
    state(disk, COMPLETE, version=2, epoch=6)
    data(disk, epoch=6)
    assert disk.ends.found == []


def test_bytes_that_are_no_batch_are_for_other_judges(disk: SimDisk) -> None:
    put(disk, STATES, b"x" * 70)
    put(disk, DATA, b"\xff" * 70)
    put(disk, "/data/t-0/notes.log", b"x" * 70)
    put(disk, "/data/x.log", b"x" * 70)
    assert disk.ends.found == []
