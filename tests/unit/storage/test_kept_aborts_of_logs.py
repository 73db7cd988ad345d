"""What was aborted in a read: looked up once for all readers of it, and again where it may grow."""

import sys

import pytest

from protocol.packed_pairs import PACKED_PAIR
from storage.segments.abort_index import AbortIndex
from tests.support.log_house import House, append, batch, flush
from tests.support.log_transactions import end, send

SIZE = len(batch())


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


def history(log):
    """Append transactions, of which every other one is aborted."""
    for n in range(30):
        send(log, 5, epoch=n)
        append(log, n % 3)
        end(log, 5, commit=n % 2 == 0, epoch=n + 1)


def test_another_reader_gets_what_the_first_one_has_found(house, monkeypatch):
    log = house.log(internal_segment_bytes=10**6)
    history(log)
    limit = log.last_stable_offset
    piece = log.read(0, 5 * SIZE, end_offset=limit)
    found = log.aborted_in(piece, 0, limit)
    assert found
    with monkeypatch.context() as patch:
        patch.setattr(AbortIndex, "collect", lambda *_: pytest.fail("looked up again"))
        assert log.aborted_in(piece, 0, limit) == found
    assert log.aborted_in(log.read(40, 5 * SIZE, end_offset=limit), 40, limit) != found


def test_what_may_still_grow_is_looked_up_again(house):
    """The list cannot say that it is the last word on what begins below an open bound."""
    log = house.log()
    first = send(log, 5)
    end(log, 5, commit=False, epoch=1)
    send(log, 6)
    flush(log)
    whole = log.end_offset
    piece = log.read(0, 10**6)
    assert [*PACKED_PAIR.iter_unpack(log.aborted_in(piece, 0, whole))] == [(5, first)]
    end(log, 6, commit=False, epoch=1)
    assert [*PACKED_PAIR.iter_unpack(log.aborted_in(piece, 0, whole))] == [(5, first), (6, 2)]


def test_a_list_that_is_filled_anew_is_looked_up_anew(house):
    log = house.log(internal_segment_bytes=10**6)
    history(log)
    limit = log.last_stable_offset
    piece = log.read(0, 5 * SIZE, end_offset=limit)
    assert log.aborted_in(piece, 0, limit)
    (aborts,) = (segment.aborts for segment in log.segments.aborting)
    last_marker = aborts.last_marker
    aborts.begin_anew()
    aborts.last_marker = last_marker
    assert log.aborted_in(piece, 0, limit) == b""


def test_a_list_is_not_held_by_what_was_found_in_it(house):
    """Its log may be deleted: then its entries in memory would stay, and are not counted."""
    log = house.log(internal_segment_bytes=10**6)
    history(log)
    limit = log.last_stable_offset
    (aborts,) = (segment.aborts for segment in log.segments.aborting)
    holders = sys.getrefcount(aborts)
    assert log.aborted_in(log.read(0, 5 * SIZE, end_offset=limit), 0, limit)
    assert sys.getrefcount(aborts) == holders
    assert log.home.kept_aborts.size_bytes
