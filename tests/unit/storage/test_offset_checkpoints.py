"""The three offset checkpoint files."""

import pytest

from storage.files.filenames import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from storage.files.text_files import read_offsets
from tests.support.log_house import DATA, House, append, checkpoint, flush

POINTS = f"{DATA}/{RECOVERY_POINT_CHECKPOINT}"
STARTS = f"{DATA}/{LOG_START_CHECKPOINT}"


@pytest.fixture
def house():
    made = House()
    made.open()
    return made


def test_nothing_is_written_twice(house):
    log = house.log()
    append(log, 2)
    flush(log)
    checkpoint(house, log)
    assert house.manager.begin_write_checkpoints() is None
    house.filesystem.counts.clear()
    log.delete_records_before(1)
    house.manager.write_checkpoints()
    assert house.filesystem.counts["replace"] == 1, "only the file that changed"
    assert read_offsets(house.filesystem, STARTS) == {("t", 0): 1}


def test_a_log_without_a_directory_is_forgotten(house):
    for topic in ("gone", "closed", "open"):
        log = house.log(topic)
        append(log, 2)
        flush(log)
        log.delete_records_before(1)
        checkpoint(house, log)
    house.kill()
    for name in house.filesystem.list(f"{DATA}/gone-0"):
        house.filesystem.unlink(f"{DATA}/gone-0/{name}")
    house.filesystem.rmdir(f"{DATA}/gone-0")
    house.open()
    house.log("open", epoch=1)
    house.manager.write_checkpoints()
    assert read_offsets(house.filesystem, POINTS) == {("closed", 0): 2, ("open", 0): 2}
    assert read_offsets(house.filesystem, STARTS) == {("closed", 0): 1, ("open", 0): 1}


def test_a_log_that_is_not_open_keeps_its_line_until_it_is_deleted(house):
    log = house.log("kept")
    append(log, 2)
    flush(log)
    checkpoint(house, log)
    house.kill()
    house.open()
    checkpoint(house, house.log("other"))
    assert read_offsets(house.filesystem, POINTS)["kept", 0] == 2
    house.log("kept", epoch=1)
    house.delete_log("kept", 0)
    house.manager.write_checkpoints()
    assert ("kept", 0) not in read_offsets(house.filesystem, POINTS)
