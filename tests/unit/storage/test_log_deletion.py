"""Deleting logs: jobs of a deleted log cannot reach the files of the next log of its name."""

import pytest

from config.topic import TopicConfig
from storage.errors import LogFailed
from storage.opening.log_opening import Wanted
from tests.support.log_house import (
    DATA,
    NOW,
    TOPIC_ID,
    House,
    append,
    apply_retention,
    batch,
    checkpoint,
    flush,
    read_all,
)

NEXT_ID = bytes(reversed(TOPIC_ID))


@pytest.fixture
def house():
    made = House()
    made.open()
    return made


def again(house, **config):
    """Delete t-0 and create another topic of that name."""
    house.delete_log("t", 0)
    return house.log(topic_id=NEXT_ID, **config)


def files(house):
    return {name: house.filesystem.live_bytes(house.path(name)) for name in house.names()}


def test_a_running_checkpoint_writes_nothing_into_the_next_log(house):
    """Its producers once made the next log acknowledge a batch that it lacked as a duplicate."""
    log = house.log()
    log.append(batch(pid=7, epoch=0, sequence=0), NOW)
    flush(log)
    job = log.begin_checkpoint(with_snapshot=True)
    after = again(house)
    before = files(house)
    job.run()
    log.finish_checkpoint(job, None)
    assert files(house) == before
    append(after)
    flush(after)
    house.kill()
    house.open()
    log = house.log(topic_id=NEXT_ID, epoch=1)
    assert not log.append(batch(pid=7, epoch=0, sequence=0), NOW).is_duplicate
    assert sorted(read_all(log)) == [0]


def test_the_end_of_a_checkpoint_removes_no_snapshot_of_the_next_log(house):
    log = house.log(internal_segment_bytes=1 << 20)
    for sequence in range(4):
        log.append(batch(pid=7, epoch=0, sequence=sequence), NOW)
        flush(log)
        log.snapshots.take(log.producers, {})
    job = log.begin_checkpoint(with_snapshot=True)
    job.run()
    after = again(house)
    for sequence in range(2):
        after.append(batch(pid=8, epoch=0, sequence=sequence), NOW)
        flush(after)
        after.snapshots.take(after.producers, {})
        checkpoint(house, after)
    before = files(house)
    log.finish_checkpoint(job, None)
    assert files(house) == before


def test_a_running_index_repair_does_not_touch_the_next_log(house):
    log = house.log(index_interval_bytes=10)
    append(log, 40)
    flush(log)
    log.segments.all[0].indexes.damage = "missing"
    job = log.begin_checkpoint()
    assert job.mended is not None
    append(again(house), 1)
    before = files(house)
    job.run()
    log.finish_checkpoint(job, None)
    assert files(house) == before


def test_retention_of_a_closed_log_deletes_no_segment_of_the_next_log(house):
    log = house.log(retention_ms=1)
    append(log, 40)
    flush(log)
    checkpoint(house, log)
    after = again(house)
    append(after, 3)
    flush(after)
    before = files(house)
    assert apply_retention(house, log, NOW + 10**9) == 0
    assert files(house) == before
    assert sorted(read_all(after)) == [0, 1, 2]


def test_a_reader_of_the_old_log_gets_no_bytes_of_the_next_log(house):
    log = house.log()
    append(log, 3)
    flush(log)
    held = log.read(0, 500)
    after = again(house)
    append(after, 3, value=b"another topic's")
    flush(after)
    assert b"another" not in held.load()
    assert b"another" not in log.segments.active.log_file.read(0, 100)
    with pytest.raises(LogFailed, match="closed"):
        append(log)


def test_a_file_renamed_during_its_open_does_not_serve_the_next_log(house, monkeypatch):
    log = house.log()
    append(log, 3)
    flush(log)
    log_file = log.segments.active.log_file
    real = house.manager.home.files.get

    def get(path, create=False):
        monkeypatch.undo()
        append(again(house), 3, value=b"another topic's")
        return real(path, create)

    monkeypatch.setattr(house.manager.home.files, "get", get)
    assert b"another" not in log_file.read(0, 100)


def test_many_directories_are_renamed_with_one_sync(house):
    for number in range(20):
        house.log(partition=number)
    house.filesystem.counts.clear()
    deletion = house.manager.begin_delete([("t", number) for number in range(21)])
    assert house.manager.all() == []
    assert not house.filesystem.counts["rename"], "the caller's thread does not wait for the disk"
    deletion.run()
    house.manager.finish_delete(deletion)
    assert deletion.error is None
    assert house.filesystem.counts["rename"] == 20
    assert house.filesystem.counts["sync_directory"] == 1


def test_a_directory_that_cannot_be_renamed_does_not_block_the_others(house):
    for number in range(3):
        house.log(partition=number, file_delete_delay_ms=0)
    house.filesystem.fail("rename", path_part="t-1")
    deletion = house.manager.begin_delete([("t", number) for number in range(3)])
    deletion.run()
    house.manager.finish_delete(deletion)
    assert deletion.error is not None
    house.purge(NOW)
    assert [name for name in house.filesystem.list(DATA) if name.startswith("t-")] == ["t-1"]


def test_due_files_are_taken_once_and_unlinked_in_another_thread(house):
    log = house.log(file_delete_delay_ms=0)
    append(log, 3)
    path = house.delete_log("t", 0)
    purge = house.manager.home.trash.begin_purge(NOW)
    assert house.filesystem.exists(path)
    assert house.manager.home.trash.begin_purge(NOW) is None
    house.filesystem.fail("rmdir")
    purge.run()
    house.manager.finish_purge(purge)
    (warning,) = house.manager.warnings
    assert f"cannot delete {path}" in warning


def test_the_directory_of_an_unopenable_log_is_deleted_with_its_topic(house):
    for number, topic_id in ((0, TOPIC_ID), (1, NEXT_ID), (2, TOPIC_ID), (3, TOPIC_ID)):
        house.log(partition=number, topic_id=topic_id)
    house.stop()
    house.filesystem.unlink(house.path("partition.metadata", "t-2"))
    house.filesystem.replace(house.path("partition.metadata", "t-3"), b"garbage")
    house.open()
    config = TopicConfig(file_delete_delay_ms=0)
    unopened = [Wanted("t", number, TOPIC_ID, config, 0) for number in range(5)]
    deletion = house.manager.begin_delete([], unopened)
    deletion.run()
    house.manager.finish_delete(deletion)
    assert deletion.error is None
    house.purge(NOW)
    left = [name for name in house.filesystem.list(DATA) if name.startswith("t-")]
    assert left == ["t-1", "t-3"], "of another topic, and of an unknown topic"
    in_the_way = house.manager.in_the_way
    assert in_the_way.topics == {"t"}
    clearing = in_the_way.begin()
    clearing.run()
    in_the_way.finish(clearing, NOW)
    assert in_the_way.topics == set()
    left = [name[:3] for name in house.filesystem.list(DATA) if name.endswith("-stray")]
    assert left == ["t-1"], "the other has no records"


def test_what_a_late_reader_opens_is_given_back_when_the_log_is_purged(house):
    """An open file keeps the space of a deleted one: for good, on a broker with few files."""
    log = house.log(file_delete_delay_ms=0)
    append(log, 3)
    flush(log)
    house.delete_log("t", 0)
    log.segments.active.log_file.read(0, 100)  # of a look-up that goes on in a thread
    house.purge(NOW)
    assert house.manager.home.files.descriptor_count == 0


def test_what_a_late_reader_opens_is_given_back_when_a_segment_is_purged(house):
    log = house.log(retention_ms=1, file_delete_delay_ms=0)
    append(log, 40)
    flush(log)
    checkpoint(house, log)
    first = log.segments.all[0]
    assert apply_retention(house, log, NOW + 10**9) > 0
    first.log_file.read(0, 100)
    house.purge(NOW + 10**9)
    assert house.manager.home.files.peek(first.log_file.path) is None
