"""The data directory: identity, lock, clean mark, checkpoints, creation and deletion of logs."""

import errno
import resource

import pytest

from config.topic import TopicConfig
from storage.errors import CorruptMetadata, DirectoryLocked, UnknownPartition
from storage.files.text_files import encode_offsets, read_offsets, uuid_text
from tests.support.log_house import DATA, NOW, TOPIC_ID, House, append, checkpoint, flush, read_all

POINTS = f"{DATA}/recovery-point-offset-checkpoint"
STARTS = f"{DATA}/log-start-offset-checkpoint"
MARK = f"{DATA}/.kafka_cleanshutdown"


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


def test_a_new_directory_gets_an_identity_that_stays(house):
    assert house.manager.is_new
    assert house.manager.was_clean
    meta = house.manager.meta
    assert (meta.node_id, len(meta.cluster_id)) == (1, 22)
    house.stop()
    house.filesystem.crash()
    assert house.open().meta == meta
    assert not house.manager.is_new


def test_parent_directories_are_made_and_survive_a_power_cut():
    house = House()
    house.settings = {"cluster_id": "mine", "node_id": 5}
    house.open()
    house.filesystem.crash()
    assert house.open().meta.cluster_id == "mine"
    assert house.manager.meta.node_id == 5


def test_a_second_manager_is_refused(house):
    other = House(house.filesystem)
    with pytest.raises(DirectoryLocked):
        other.open()
    house.stop()
    other.open()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("garbage", b"\xff\xfe"),
        ("empty", b""),
        ("another node", b"version=1\ncluster.id=x\nnode.id=2\n"),
    ],
)
def test_an_identity_that_does_not_fit_stops_the_start(house, name, text):
    house.stop()
    house.filesystem.replace(f"{DATA}/meta.properties", text)
    house.settings = {"node_id": 1}
    with pytest.raises(CorruptMetadata):
        house.open()
    assert house.filesystem.exists(MARK), name
    house.filesystem.replace(f"{DATA}/meta.properties", b"version=1\ncluster.id=x\nnode.id=1\n")
    assert house.open().was_clean, "the lock was let go, the mark was left"
    assert house.manager.meta.directory_id is not None


def test_partitions_without_an_identity_stop_the_start(house):
    house.log()
    house.stop()
    house.filesystem.unlink(f"{DATA}/meta.properties")
    with pytest.raises(CorruptMetadata, match="t-0"):
        house.open()


# -- The clean mark -----------------------------------------------------------------------------


def test_the_mark_is_gone_durably_before_the_first_log_is_loaded(house):
    house.stop()
    assert house.filesystem.durable_bytes(MARK) == b'{"version":0,"brokerEpoch":-1}'
    assert house.open().was_clean
    house.crash()
    assert not house.open().was_clean


@pytest.mark.parametrize("operation", ["fdatasync", "pwrite", "rename", "sync_directory"])
def test_a_stop_that_fails_anywhere_is_not_clean(operation):
    """Every call of the stop fails once: either nothing is lost, or the mark is not there."""
    for nth in range(1, 40):
        house = House()
        house.open()
        log = house.log(internal_segment_bytes=300)
        append(log, 7, pid=-1)
        house.filesystem.fail(operation, nth)
        clean = house.stop()
        calls_failed = house.filesystem._faults[0].seen >= nth
        house.filesystem.heal()
        assert clean or calls_failed
        assert clean == house.filesystem.exists(MARK) or operation in ("sync_directory",)
        house.crash()
        log = house.restart(internal_segment_bytes=300)
        if clean:
            assert list(read_all(log)) == list(range(7)), nth
            assert house.manager.was_clean
        if not calls_failed:
            break
    else:
        pytest.fail("the stop has no end")


def test_a_stop_without_clean_leaves_no_mark(house):
    append(house.log(), 3)
    assert not house.stop(clean=False)
    assert not house.filesystem.exists(MARK)
    assert house.restart().end_offset == 3


# -- Checkpoints --------------------------------------------------------------------------------


def test_checkpoints_are_written_when_something_changed(house):
    log = house.log(internal_segment_bytes=300)
    append(log, 9)
    flush(log)
    checkpoint(house, log)
    assert read_offsets(house.filesystem, POINTS) == {("t", 0): 9}
    assert house.manager.begin_write_checkpoints() is None
    log.delete_records_before(4)
    house.manager.write_checkpoints()
    assert read_offsets(house.filesystem, STARTS) == {("t", 0): 4}
    house.kill()
    assert house.restart(internal_segment_bytes=300).start_offset == 4


def test_a_checkpoint_keeps_the_points_of_logs_that_are_not_open(house):
    for topic in ("t", "u"):
        append(house.log(topic), 5)
    house.stop()
    house.open()
    house.log("t", epoch=1)
    house.manager.write_checkpoints()
    assert read_offsets(house.filesystem, POINTS) == {("t", 0): 5, ("u", 0): 5}


@pytest.mark.parametrize("text", [b"", b"garbage", b"0\n7\nt 0 5\n", b"0\n1\nt 0 -5\n"])
def test_garbage_in_a_checkpoint_costs_a_scan(house, text):
    append(house.log(), 5)
    house.stop()
    for path in (POINTS, STARTS):
        house.filesystem.replace(path, text)
    log = house.restart()
    assert "resetting the checkpoint to 0" in house.manager.warnings[0]
    assert (log.start_offset, log.end_offset) == (0, 5)
    assert house.manager.reports[0].batches_checked == 5


def test_a_recovery_point_that_is_not_the_end_is_no_clean_stop(house):
    append(house.log(), 5)
    house.stop()
    house.filesystem.replace(POINTS, encode_offsets({("t", 0): 3}))
    assert house.restart().end_offset == 5
    assert house.manager.reports[0].batches_checked == 2


# -- Logs ---------------------------------------------------------------------------------------


def test_logs_are_found_by_name(house):
    log = house.log("a-b.c", 7)
    assert house.manager.get("a-b.c", 7) is log
    assert house.manager.all() == [log]
    for key in (("a-b.c", 8), ("x", 7)):
        with pytest.raises(UnknownPartition):
            house.manager.get(*key)
    with pytest.raises(UnknownPartition):
        house.manager.open_log("x", 0, TOPIC_ID, TopicConfig(), 0)
    assert house.manager.has_directory("a-b.c", 7)
    assert not house.manager.has_directory("a-b.c", 8)


@pytest.mark.parametrize("flushed", [True, False])
def test_a_created_log_is_durable_with_its_first_flush_and_else_made_again(house, flushed):
    log = house.log()
    append(log)
    if flushed:
        flush(log)
    house.crash()
    house.open()
    log = house.manager.open_log("t", 0, TOPIC_ID, TopicConfig(), 1, create=not flushed)
    assert append(log) == [1 if flushed else 0]


def test_making_a_log_waits_for_no_fsync(house):
    house.filesystem.fail("fdatasync", forever=True)
    house.filesystem.fail("sync_directory", forever=True)
    house.log()


def test_a_log_that_cannot_be_made_leaves_the_manager_as_it_was(house):
    house.filesystem.fail("open", error=errno.ENOSPC, path_part=".log")
    with pytest.raises(Exception, match="No space"):
        house.log()
    assert house.manager.all() == []
    assert append(house.log()) == [0]


def test_deleting_renames_at_once_and_unlinks_later(house):
    log = house.log(file_delete_delay_ms=100)
    append(log, 3)
    path = house.manager.delete_log("t", 0)
    assert path.endswith("-delete")
    assert not house.manager.has_directory("t", 0)
    assert house.manager.unflushed_bytes == 0
    again = house.log()
    assert again.end_offset == 0
    house.manager.purge_deleted(NOW + 99)
    assert house.filesystem.exists(path)
    house.manager.purge_deleted(NOW + 100)
    assert not house.filesystem.exists(path)


def test_a_file_that_a_thread_opened_meanwhile_is_none_of_the_next_log(house, monkeypatch):
    """A compaction looks into a segment while its topic is deleted."""
    log = house.log()
    append(log, 3)
    path = log.segments.active.log_file.path
    rename = house.filesystem.rename

    def opened_just_before(old, new):
        house.manager.home.files.get(path)
        rename(old, new)

    monkeypatch.setattr(house.filesystem, "rename", opened_just_before)
    house.manager.delete_log("t", 0)
    monkeypatch.undo()
    assert append(house.log(), 1) == [0]


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_a_log_whose_directory_could_not_be_renamed_is_gone_all_the_same(house, operation):
    """Once it stayed open, and the next topic of its name met it there."""
    append(house.log(), 3)
    house.filesystem.fail(operation)
    with pytest.raises(OSError, match="Input/output"):
        house.manager.delete_log("t", 0)
    with pytest.raises(UnknownPartition):
        house.manager.get("t", 0)
    assert house.log(topic_id=bytes(reversed(TOPIC_ID))).end_offset == 0


@pytest.mark.parametrize("position", range(21, 42, 4))
def test_a_flipped_bit_in_a_topic_id_is_told_from_another_topic(house, position):
    """It once put the directory aside: every record of the partition was out of reach."""
    append(house.log(), 3)
    house.stop()
    path = house.path("partition.metadata")
    text = house.filesystem.live_bytes(path)
    house.filesystem.edit(path, position, b"A" if text[position : position + 1] != b"A" else b"Q")
    assert list(read_all(house.restart())) == [0, 1, 2]
    assert house.filesystem.live_bytes(path) == text


def test_a_checkpoint_that_could_not_be_read_may_name_what_is_made_anew(house):
    log = house.log()
    append(log, 3)
    flush(log)
    checkpoint(house, log)
    house.manager.delete_log("t", 0)
    house.kill()
    house.filesystem.fail("read", path_part="recovery-point")
    house.open()
    append(house.log(), 1)
    assert read_offsets(house.filesystem, POINTS) == {("t", 0): 0}


@pytest.mark.parametrize("ending", ["deleted", "deleted before a start"])
def test_checkpoints_of_a_deleted_log_are_not_taken_for_those_of_the_next(house, ending):
    """Its start offset once hid acknowledged records of a new topic of that name."""
    log = house.log()
    append(log, 3)
    flush(log)
    checkpoint(house, log)
    log.delete_records_before(2)
    house.manager.write_checkpoints()
    house.manager.delete_log("t", 0)
    if ending == "deleted before a start":
        house.kill()
        house.open()
    log = house.log()
    append(log, 5)
    flush(log)
    house.crash()
    log = house.restart()
    assert (log.start_offset, log.recovery_point) == (0, 0)
    assert list(read_all(log)) == [0, 1, 2, 3, 4]


def test_an_older_state_of_the_checkpoints_is_not_written_over_a_newer_one(house):
    log = house.log()
    append(log, 2)
    flush(log)
    older = house.manager.begin_write_checkpoints()
    checkpoint(house, log)
    older()
    assert read_offsets(house.filesystem, POINTS) == {("t", 0): 2}


def test_a_deletion_is_finished_by_the_next_start(house):
    house.log()
    path = house.manager.delete_log("t", 0)
    house.crash()
    house.open()
    assert house.filesystem.exists(path)
    house.manager.purge_deleted(NOW)
    assert not house.filesystem.exists(path)


def test_a_directory_of_another_topic_is_put_aside_and_never_deleted(house):
    append(house.log(), 3)
    house.stop()
    house.open()
    other = bytes(reversed(TOPIC_ID))
    with pytest.raises(CorruptMetadata, match=uuid_text(TOPIC_ID)):
        house.manager.open_log("t", 0, other, TopicConfig(), 0)
    log = house.log(topic_id=other)
    assert log.end_offset == 0
    (stray,) = [n for n in house.filesystem.list(DATA) if n.endswith("-stray")]
    assert house.filesystem.live_bytes(f"{DATA}/{stray}/{0:020}.log")


@pytest.mark.parametrize("text", [None, b"", b"garbage"])
def test_a_lost_topic_id_is_written_again(house, text):
    append(house.log(), 3)
    house.stop()
    if text is None:
        house.filesystem.unlink(house.path("partition.metadata"))
    else:
        house.filesystem.replace(house.path("partition.metadata"), text)
    assert house.restart().end_offset == 3
    assert uuid_text(TOPIC_ID).encode() in house.filesystem.live_bytes(
        house.path("partition.metadata")
    )


def test_strays_are_reported_and_left_alone(house):
    append(house.log("gone"), 3)
    house.stop()
    for name in ("lost+found", "notes.txt", "t-x"):
        house.filesystem.mkdir(f"{DATA}/{name}")
    house.open()
    house.log("t")
    assert house.manager.strays() == ["gone-0", "lost+found", "notes.txt", "t-x"]
    house.manager.purge_deleted(NOW + 10**12)
    house.stop()
    house.open()
    assert house.log("gone").end_offset == 3


def test_few_descriptors_serve_many_logs():
    house = House(open_files_max=10)
    house.open()
    logs = [house.log(f"t{n}") for n in range(40)]
    for log in logs:
        append(log, 2)
        flush(log)
    for log in logs:
        assert len(read_all(log)) == 2
    assert len(house.manager.home.files) <= 10


def test_without_a_bound_of_its_own_most_of_the_systems_descriptors_serve(house):
    capacity = house.manager.home.files.capacity
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert capacity in (soft * 3 // 4, 100_000)
    assert capacity > 100
