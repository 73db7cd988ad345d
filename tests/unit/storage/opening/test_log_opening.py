"""Opening logs in steps: steps that wait for the disk do not touch the manager."""

import errno

import pytest

from config.topic import TopicConfig
from storage.errors import UnknownPartition
from storage.opening.log_opening import Wanted
from tests.support.log_house import DATA, TOPIC_ID, House, append, flush, read_all

OTHER_ID = bytes(reversed(TOPIC_ID))


@pytest.fixture
def house():
    made = House()
    made.open()
    return made


def wanted(*numbers, topic_id=TOPIC_ID, create=True):
    return [Wanted("t", number, topic_id, TopicConfig(), 0, create) for number in numbers]


def test_the_callers_thread_never_waits_for_the_disk(house):
    house.log(partition=9)
    house.filesystem.calls.clear()
    opening = house.manager.begin_open(wanted(0, 1))
    assert house.filesystem.calls == []
    opening.look()
    assert opening.new_keys() == [("t", 0), ("t", 1)]
    house.filesystem.calls.clear()
    assert house.manager.begin_forget(opening) is None
    assert house.filesystem.calls == []
    opening.make()
    assert house.manager.all() == [house.manager.get("t", 9)]
    house.filesystem.calls.clear()
    assert house.manager.finish_open(opening) is None
    assert house.filesystem.calls == []
    assert [append(house.manager.get("t", number)) for number in (0, 1)] == [[0], [0]]


def test_the_first_log_of_a_directory_is_named_before_it_is_created(house):
    """Else a power cut before the first checkpoint leaves a recovery that takes any hole."""
    opening = house.manager.begin_open(wanted(0))
    opening.look()
    write = house.manager.begin_forget(opening)
    assert write is not None
    write()
    opening.make()
    house.manager.finish_open(opening)
    house.crash()
    house.open()
    assert house.manager._checkpoints.has_recovery_points
    assert house.manager.begin_forget(house.manager.begin_open(wanted(1))) is None


def test_each_log_has_its_own_outcome(house):
    house.filesystem.fail("mkdir", error=errno.ENOSPC, path_part="t-1")
    attempts = house.manager.open_logs(wanted(0, 1, 2))
    assert [attempt.log is not None for attempt in attempts] == [True, False, True]
    assert attempts[1].error.errno == errno.ENOSPC
    assert len(house.manager) == 2
    (missing,) = house.manager.open_logs(wanted(7, create=False))
    assert isinstance(missing.error, UnknownPartition)


def test_a_log_is_not_opened_twice(house):
    house.manager.begin_open(wanted(0))
    with pytest.raises(AssertionError, match="being opened"):
        house.manager.begin_open(wanted(0))


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_a_second_try_makes_the_directory_name_durable_too(house, suffix):
    """The first try found no free descriptor; a power cut then lost acknowledged records."""
    house.filesystem.fail("open", error=errno.EMFILE, path_part=suffix, forever=True)
    with pytest.raises(Exception, match=r"Too many open files|cannot be opened"):
        house.log()
    house.filesystem.heal()
    log = house.log()
    assert append(log, 3) == [0, 1, 2]
    flush(log)
    assert log.durable_offset == 3
    house.crash()
    house.open()
    assert house.filesystem.exists(house.path("partition.metadata"))
    assert sorted(read_all(house.log(epoch=1))) == [0, 1, 2]


def test_old_checkpoints_of_a_name_are_removed_before_its_log_is_created(house):
    log = house.log()
    append(log, 3)
    flush(log)
    log.delete_records_before(2)
    house.manager.write_checkpoints()
    house.delete_log("t", 0)
    opening = house.manager.begin_open(wanted(0, topic_id=OTHER_ID))
    opening.look()
    write = house.manager.begin_forget(opening)
    assert write is not None
    house.filesystem.fail("replace")
    with pytest.raises(OSError, match="Input/output") as caught:
        write()
    opening.fail_new(caught.value)
    opening.make()
    house.manager.finish_open(opening)
    assert not house.filesystem.exists(f"{DATA}/t-0"), (
        "created while the file still has an old start offset"
    )
    assert append(house.log(topic_id=OTHER_ID)) == [0]
