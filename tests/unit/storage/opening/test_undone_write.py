"""What an undone write has left in a closed segment is cut, and nothing else is."""

import errno

import pytest

from protocol.record_batch import HEADER_SIZE, stamp
from tests.support.log_house import House, append, batch, checkpoint, flush, read_all
from tests.support.stopped_logs import LOG, SIZE, quarantined, report_of, warnings_of


@pytest.mark.parametrize("left", [12, SIZE, SIZE + 12])
@pytest.mark.parametrize("is_known", [True, False])
def test_what_an_undone_write_has_left_before_a_roll_is_cut(left, is_known):
    """The power cut came before the truncation was durable; the log had rolled meanwhile."""
    house = House()
    house.open()
    config = {"internal_segment_bytes": 4 * SIZE, "index_interval_bytes": 1 if is_known else 10**6}
    log = house.log(**config)
    append(log, 4)
    flush(log)
    checkpoint(house, log)
    append(log)  # rolls
    flush(log)
    refused = batch(b"w" * 30)
    stamp(refused, 0, 4, 0)
    undone = (bytes(refused) * 2)[:left]
    house.filesystem.edit(house.path(LOG), 4 * SIZE, undone)
    house.kill()
    log = house.restart(**config)
    assert (log.recovery_point, log.end_offset) == (4, 5)
    assert set(read_all(log).values()) == {b"v" * 30}
    assert len(house.filesystem.durable_bytes(house.path(LOG))) == 4 * SIZE
    assert list(quarantined(house).values()) == [undone]
    assert "bytes of a failed write" in report_of(house).lines()[0]
    house.kill()
    house.restart(**config)
    assert not report_of(house).warnings


def test_a_closed_segment_is_cut_only_behind_its_end():
    """Damage before it is bit rot: it stays, as do bytes that there is no room to keep."""
    house = House()
    house.open()
    config = {"internal_segment_bytes": 4 * SIZE, "index_interval_bytes": 10**6}
    log = house.log(**config)
    append(log, 4)
    flush(log)
    checkpoint(house, log)
    append(log)  # rolls
    flush(log)
    house.filesystem.edit(house.path(LOG), 4 * SIZE, b"x" * 12)
    house.kill()
    house.filesystem.fail("pwrite", error=errno.ENOSPC, path_part="quarantine")
    log = house.restart(**config)
    assert log.failed is None
    assert "may end in bytes of a failed write" in warnings_of(house)[0]
    house.filesystem.edit(house.path(LOG), 3 * SIZE + HEADER_SIZE, b"\0")
    house.kill()
    assert house.restart(**config).end_offset == 5
    assert len(house.filesystem.live_bytes(house.path(LOG))) == 4 * SIZE + 12
    assert quarantined(house) == {}
