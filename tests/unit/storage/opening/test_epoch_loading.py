"""Leader epochs after a start: from their file, or from the batches if the file is wrong."""

import pytest

from tests.support.log_house import NOW, House, append, batch, flush, read_all
from tests.support.stopped_logs import SEGMENTS, stopped_house


@pytest.mark.parametrize("text", [None, b"", b"garbage", b"0\n1\n-1 0\n", b"0\n2\n5 9\n4 3\n"])
def test_leader_epochs_are_rebuilt_from_the_batches(text):
    house = House()
    house.open()
    log = house.log(epoch=2, **SEGMENTS)
    append(log, 3)
    log.leader_epoch = 4
    append(log, 9)
    house.stop()
    if text is None:
        house.filesystem.unlink(house.path("leader-epoch-checkpoint"))
    else:
        house.filesystem.replace(house.path("leader-epoch-checkpoint"), text)
    house.open()
    assert house.log(epoch=9, **SEGMENTS).epochs.entries() == [(2, 0), (4, 3)]


def test_epochs_are_not_read_from_batches_that_recovery_cuts():
    """A torn segment looked like one of epoch 0 and hid the start of epoch 1 and its records."""
    house = House()
    house.open()
    log = house.log()
    append(log, 2)
    flush(log)
    house.kill()
    log = house.restart()
    append(log, 2)
    flush(log)
    for _ in range(2):
        log.roll(NOW)
        append(log)
    house.filesystem.edit(log.segments.all[1].log_file.path, 0, bytes(len(batch())))
    house.kill()
    log = house.restart()
    assert log.epochs.entries() == [(0, 0), (1, 2)]
    assert list(read_all(log)) == [0, 1, 2, 3]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_an_epoch_start_that_contradicts_the_batches_is_read_from_the_batches(ending):
    """A flipped digit: epoch 1 began at 2, not at 6. Its batches counted as damaged."""
    house = House()
    house.open()
    append(house.log(**SEGMENTS), 2)
    house.stop()
    log = house.restart(**SEGMENTS)
    append(log, 2)
    log.roll(NOW)
    append(log)
    flush(log)
    house.stop()
    if ending == "kill":
        house.restart(**SEGMENTS)
        house.kill()
    house.filesystem.replace(house.path("leader-epoch-checkpoint"), b"0\n2\n0 0\n1 6\n")
    log = house.restart(**SEGMENTS)
    assert log.epochs.entries() == [(0, 0), (1, 2)]
    assert list(read_all(log)) == [0, 1, 2, 3, 4]


def test_epochs_beyond_the_end_are_dropped():
    house = stopped_house()
    house.filesystem.replace(house.path("leader-epoch-checkpoint"), b"0\n2\n0 0\n1 12\n")
    assert house.restart(**SEGMENTS).epochs.entries() == [(0, 0)]
