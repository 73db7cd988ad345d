"""A clean stop: either everything is durable, or the stop reports that it is not clean."""

import pytest

from tests.support.log_house import CLEAN_MARK, House, append, read_all


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


@pytest.mark.parametrize("operation", ["fdatasync", "pwrite", "rename", "sync_directory"])
def test_a_stop_that_fails_anywhere_is_not_clean(operation):
    """Every call of the stop fails once: either nothing is lost, or the clean mark is missing."""
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
        assert clean == house.filesystem.exists(CLEAN_MARK) or operation in ("sync_directory",)
        house.crash()
        log = house.restart(internal_segment_bytes=300)
        if clean:
            assert list(read_all(log)) == list(range(7)), nth
            assert house.manager.directory.was_clean
        if not calls_failed:
            break
    else:
        pytest.fail("the stop has no end")


def test_an_unclean_stop_leaves_no_mark(house):
    append(house.log(), 3)
    assert not house.stop(clean=False)
    assert not house.filesystem.exists(CLEAN_MARK)
    assert house.restart().end_offset == 3
