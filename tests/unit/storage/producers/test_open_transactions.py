"""Open and unsettled transactions: what they hold back, and in which order."""

import time

from protocol.control_records import Marker
from storage.files.filenames import OFFSET_MAX
from storage.producers.open_transactions import LastMarkers, OpenTransactions, ReplayedMarker


def facts(open_):
    return open_.first_unstable, open_.first_open, open_.unsettled_from, len(open_)


def test_nothing_open_holds_nothing_back():
    assert facts(OpenTransactions()) == (OFFSET_MAX, -1, None, 0)


def test_a_transaction_is_unstable_until_it_is_settled():
    open_ = OpenTransactions()
    open_.begin(5, 1)
    assert facts(open_) == (5, 5, None, 1)
    open_.end(5, 9)
    assert facts(open_) == (5, -1, 9, 0)
    open_.settle(9)
    assert facts(open_) == (OFFSET_MAX, -1, None, 0)


def test_the_oldest_counts_in_whatever_order_they_end():
    open_ = OpenTransactions()
    for first_offset, pid in ((5, 1), (6, 2), (7, 3)):
        open_.begin(first_offset, pid)
    open_.end(6, 10)
    open_.end(5, 11)
    assert facts(open_) == (5, 7, 10, 1)
    open_.settle(11)
    assert facts(open_) == (6, 7, 10, 1), "the marker before is not settled"
    open_.settle(10)
    assert facts(open_) == (7, 7, None, 1)
    assert list(open_.open_ones()) == [(7, 3)]


def test_a_producer_begins_anew_while_its_last_marker_is_unsettled():
    open_ = OpenTransactions()
    open_.begin(5, 1)
    open_.end(5, 6)
    open_.begin(7, 1)
    assert facts(open_) == (5, 7, 6, 1)
    open_.settle(6)
    assert facts(open_) == (7, 7, None, 1)


def test_a_marker_that_ends_nothing_is_unsettled_too():
    open_ = OpenTransactions()
    open_.end(-1, 3)
    assert facts(open_) == (OFFSET_MAX, -1, 3, 0)
    open_.settle(3)
    open_.settle(3)
    assert facts(open_) == (OFFSET_MAX, -1, None, 0)


def test_a_held_marker_bounds_the_recovery_point_and_no_reader():
    open_ = OpenTransactions()
    open_.hold(4)
    open_.begin(9, 1)
    open_.end(9, 12)
    assert facts(open_) == (9, -1, 4, 0)
    open_.settle_before(10)
    assert facts(open_) == (9, -1, 12, 0)


def test_many_transactions_that_end_in_order_take_linear_time():
    open_, count = OpenTransactions(), 100_000
    for offset in range(count):
        open_.begin(offset, offset)
    before = time.process_time()
    for offset in range(count):
        open_.end(offset, count + offset)
        open_.settle(count + offset)
        assert open_.first_open in (offset + 1, -1)
    assert time.process_time() - before < 5


def replayed(offset, pid, closed_epoch):
    marker = Marker(pid, offset, is_commit=True, coordinator_epoch=0)
    return ReplayedMarker(offset, marker, closed_epoch, offset - 1)


def test_of_each_producer_the_last_markers_are_kept():
    last = LastMarkers()
    found = [replayed(1, 5, 0), replayed(3, 5, 2), replayed(4, 6, None), replayed(5, 5, None),
             replayed(6, 6, None), replayed(7, 5, None)]  # fmt: skip
    for one in found:
        last.add(one)
    assert last.in_order() == [found[1], found[4], found[5]]
    assert LastMarkers().in_order() == []
