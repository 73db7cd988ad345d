"""All logs of a directory: their checkpoints, creation, deletion and lookup."""

import errno
import resource

import pytest

from config.topic import TopicConfig
from storage.errors import CorruptMetadata, UnknownPartition
from storage.files.text_files import encode_offsets, read_offsets, uuid_text
from tests.support.log_house import DATA, NOW, TOPIC_ID, House, append, checkpoint, flush, read_all

POINTS = f"{DATA}/recovery-point-offset-checkpoint"
STARTS = f"{DATA}/log-start-offset-checkpoint"


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


# -- Checkpoints --------------------------------------------------------------------------------


def test_checkpoints_are_written_only_after_a_change(house):
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


def test_a_stop_with_a_recovery_point_below_the_end_is_not_clean(house):
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
    assert house.manager.directory.has_partition("a-b.c", 7)
    assert not house.manager.directory.has_partition("a-b.c", 8)


@pytest.mark.parametrize("flushed", [True, False])
def test_a_created_log_is_durable_with_its_first_flush_or_else_created_again(house, flushed):
    log = house.log()
    append(log)
    if flushed:
        flush(log)
    house.crash()
    house.open()
    log = house.manager.open_log("t", 0, TOPIC_ID, TopicConfig(), 1, create=not flushed)
    assert append(log) == [1 if flushed else 0]


def test_creating_a_log_waits_for_no_fsync(house):
    """But for the first log of a directory, which the checkpoint names before."""
    house.log(partition=1)
    house.filesystem.fail("fdatasync", forever=True)
    house.filesystem.fail("sync_directory", forever=True)
    house.log()


def test_a_failed_creation_leaves_the_manager_unchanged(house):
    house.filesystem.fail("open", error=errno.ENOSPC, path_part=".log")
    with pytest.raises(Exception, match="No space"):
        house.log()
    assert house.manager.all() == []
    assert append(house.log()) == [0]


def test_deleting_renames_at_once_and_unlinks_later(house):
    log = house.log(file_delete_delay_ms=100)
    append(log, 3)
    path = house.delete_log("t", 0)
    assert path.endswith("-delete")
    assert not house.manager.directory.has_partition("t", 0)
    assert house.manager.unflushed_bytes == 0
    again = house.log()
    assert again.end_offset == 0
    house.purge(NOW + 99)
    assert house.filesystem.exists(path)
    house.purge(NOW + 100)
    assert not house.filesystem.exists(path)


def test_a_file_that_a_thread_opened_during_the_deletion_does_not_serve_the_next_log(
    house, monkeypatch
):
    """A compaction reads a segment while its topic is deleted."""
    log = house.log()
    append(log, 3)
    path = log.segments.active.log_file.path
    rename = house.filesystem.rename

    def opened_just_before(old, new):
        house.manager.home.files.get(path)
        rename(old, new)

    monkeypatch.setattr(house.filesystem, "rename", opened_just_before)
    house.delete_log("t", 0)
    monkeypatch.undo()
    assert append(house.log(), 1) == [0]


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_a_log_whose_directory_cannot_be_renamed_is_still_removed(house, operation):
    """It once stayed open, and the next topic of its name got it."""
    append(house.log(), 3)
    house.filesystem.fail(operation)
    with pytest.raises(OSError, match="Input/output"):
        house.delete_log("t", 0)
    with pytest.raises(UnknownPartition):
        house.manager.get("t", 0)
    assert house.log(topic_id=bytes(reversed(TOPIC_ID))).end_offset == 0


@pytest.mark.parametrize("position", range(21, 42, 4))
def test_a_flipped_bit_in_a_topic_id_is_distinguished_from_another_topic(house, position):
    """The flip once made the start set the directory aside, with every record of the partition."""
    append(house.log(), 3)
    house.stop()
    path = house.path("partition.metadata")
    text = house.filesystem.live_bytes(path)
    house.filesystem.edit(path, position, b"A" if text[position : position + 1] != b"A" else b"Q")
    assert list(read_all(house.restart())) == [0, 1, 2]
    assert house.filesystem.live_bytes(path) == text


def test_a_damaged_checkpoint_may_name_a_log_that_is_created_again(house):
    log = house.log()
    append(log, 3)
    flush(log)
    checkpoint(house, log)
    house.delete_log("t", 0)
    house.kill()
    house.filesystem.replace(POINTS, b"garbage")
    house.open()
    append(house.log(), 1)
    assert read_offsets(house.filesystem, POINTS) == {("t", 0): 0}


@pytest.mark.parametrize("ending", ["deleted", "deleted before a start"])
def test_checkpoints_of_a_deleted_log_do_not_apply_to_the_next_log(house, ending):
    """Its start offset once hid acknowledged records of a new topic of that name."""
    log = house.log()
    append(log, 3)
    flush(log)
    checkpoint(house, log)
    log.delete_records_before(2)
    house.manager.write_checkpoints()
    house.delete_log("t", 0)
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


def test_a_directory_that_somebody_removed_is_reported(house):
    append(house.log(), 3)
    append(house.log("u"), 3)
    house.stop()
    house.filesystem.rename(house.path(), "/elsewhere")
    house.open()
    assert house.log(epoch=1).end_offset == 0
    house.log("u", epoch=1)
    house.log("new")
    (report,) = house.manager.reports
    (line,) = report.lines()
    missing = f"{house.path()} is missing, but the checkpoint has its recovery point 3"
    assert line.startswith(missing)
    append(house.log("later"), 3)  # recorded since: nothing is missed
    house.stop()
    house.open()
    house.log(epoch=2)
    assert house.manager.reports == []


def test_older_checkpoints_do_not_overwrite_newer_ones(house):
    log = house.log()
    append(log, 2)
    flush(log)
    older = house.manager.begin_write_checkpoints()
    checkpoint(house, log)
    older()
    assert read_offsets(house.filesystem, POINTS) == {("t", 0): 2}


def test_a_deletion_is_finished_by_the_next_start(house):
    house.log()
    path = house.delete_log("t", 0)
    house.crash()
    house.open()
    assert house.filesystem.exists(path)
    house.purge(NOW)
    assert not house.filesystem.exists(path)


def test_a_directory_of_another_topic_is_set_aside_and_never_deleted(house):
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


def test_by_default_the_manager_uses_most_of_the_systems_descriptors(house):
    capacity = house.manager.home.files.capacity
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert capacity in (soft * 3 // 4, 100_000)
    assert capacity > 100
