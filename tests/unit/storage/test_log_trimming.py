"""The start of a log beside its transactions: what may go, and what a reader of committed sees."""

import pytest

from tests.support.log_house import (
    NOW,
    House,
    append,
    apply_retention,
    batch,
    checkpoint,
    delete_records,
    flush,
)
from tests.support.log_transactions import end, mark, send

SEGMENTS = {"internal_segment_bytes": 3 * len(batch())}


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


def test_the_start_of_the_log_goes_past_an_open_transaction(house):
    log = house.log()
    append(log)
    send(log, 5, 3)
    append(log, 2)
    flush(log)
    delete_records(house, log, 3)
    assert (log.start_offset, log.last_stable_offset) == (3, 3)
    delete_records(house, log, 6)
    assert (log.start_offset, log.last_stable_offset, log.high_watermark) == (6, 6, 6)
    append(log)
    flush(log)
    assert (log.last_stable_offset, log.high_watermark) == (6, 7), "the transaction is open"
    assert log.first_open_offset_of(5) == 1
    end(log, 5, commit=True)
    assert log.last_stable_offset == log.high_watermark == 8


@pytest.mark.parametrize("how", ["stop", "kill", "crash"])
def test_retention_deletes_what_is_open_and_the_transaction_stays(house, how):
    log = house.log(retention_bytes=0, **SEGMENTS)
    send(log, 5)
    append(log, 8)
    flush(log)
    checkpoint(house, log)
    assert apply_retention(house, log, NOW)
    assert log.start_offset > 0
    append(log)
    flush(log)
    assert log.last_stable_offset == log.start_offset
    assert log.open_transactions() == [(5, 0, 0)]
    {"stop": house.stop, "kill": house.kill, "crash": house.crash}[how]()
    log = house.restart(retention_bytes=0, **SEGMENTS)
    assert log.open_transactions() == [(5, 0, 0)]
    assert log.last_stable_offset == log.start_offset > 0
    end(log, 5, commit=True)
    assert log.last_stable_offset == log.high_watermark


def test_no_segment_with_an_unsettled_marker_is_deleted(house):
    log = house.log(retention_bytes=0, **SEGMENTS)
    append(log, 4)
    offset = mark(log, 5, commit=True)
    append(log, 9)
    flush(log)
    checkpoint(house, log)
    apply_retention(house, log, NOW)
    assert log.segments.all[0].base_offset <= offset
    assert log.segments.all[0].base_offset > 0, "what is below may go"
    delete_records(house, log, log.end_offset)
    apply_retention(house, log, NOW)
    assert log.segments.all[0].base_offset <= offset
    house.crash()
    log = house.restart(**SEGMENTS)
    assert [one.offset for one in log.replayed_markers] == [offset]
    assert log.start_offset == 14
    log.settle_replayed()
    checkpoint(house, log)
    apply_retention(house, log, NOW)
    assert log.segments.all[0].base_offset > offset
