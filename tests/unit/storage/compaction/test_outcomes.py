"""The outcomes of transactions in a log that is compacted, and whole passes over such logs."""

import pickle

import pytest

from protocol.control_records import Marker, build_marker
from protocol.record_batch import verify, write_crc
from storage.compaction.outcomes import Abort, Outcomes, TransactionsPassed
from storage.errors import DamagedLog
from tests.support.compacted_transactions import Life, by_lists, by_markers, live
from tests.support.compacting import (
    FIVE,
    clean,
    headers_of,
    keyed,
    nothing,
    placed,
    settle,
    source_of,
)
from tests.support.log_house import NOW, House
from tests.support.old_messages import message
from tests.support.thorough import share_of, some_of

DAY = 86_400_000


def data(offset, pid):
    return placed(offset, keyed([(b"a", b"1")], pid=pid, epoch=0, sequence=0, transactional=True))


def marker(offset, pid, *, commit):
    return placed(offset, build_marker(Marker(pid, 1, commit, 0), NOW))


LOG = [
    placed(0, keyed([(b"a", b"1")])),
    data(1, 5),
    data(2, 6),
    marker(3, 7, commit=False),
    marker(4, 6, commit=False),
    data(5, 6),
    marker(6, 5, commit=False),
    marker(7, 6, commit=True),
    data(8, 5),
]


def test_aborts_are_found_in_the_order_of_their_first_offsets():
    found = Outcomes([source_of(*LOG)], [], nothing)
    assert found.aborts() == [Abort(1, 5, 6), Abort(2, 6, 4)]
    assert [found.is_open(verify(batch)) for batch in (LOG[1], LOG[5], LOG[8])] == [0, 0, 1]


def test_nothing_is_read_before_it_is_asked_for_and_then_once():
    read = []
    found = Outcomes([source_of(*LOG)], [], read.append)
    assert read == []
    found.aborts()
    found.is_open(verify(LOG[1]))
    assert sum(read) == sum(map(len, LOG))


def test_the_rest_is_read_up_to_the_last_marker_that_is_missing():
    read = []
    rest = [
        source_of(data(10, 6), data(11, 5), base_offset=10, end_offset=20),
        source_of(marker(20, 5, commit=False), base_offset=20, end_offset=30),
        source_of(data(30, 5), base_offset=30),
    ]
    found = Outcomes([source_of(*LOG, end_offset=10)], rest, read.append)
    assert found.aborts()[-1] == Abort(8, 5, 20)
    assert not found.is_open(verify(LOG[8]))
    assert len(read) == len(LOG) + 3, "a transaction that began behind is nothing to wait for"
    decided = Outcomes([source_of(*LOG[:8], end_offset=10)], rest, read.append)
    decided.aborts()
    assert len(read) == 2 * len(LOG) + 2


def test_damage_ends_the_pass_where_it_cleans_and_the_search_behind_that():
    broken = bytearray(LOG[8])
    broken[-1] ^= 1
    with pytest.raises(DamagedLog):
        Outcomes([source_of(*LOG[:8], broken)], [], nothing).aborts()
    behind = source_of(broken, marker(9, 5, commit=False), base_offset=8)
    found = Outcomes([source_of(*LOG[:6], end_offset=8)], [behind], nothing)
    assert found.aborts() == [Abort(2, 6, 4)]
    assert found.is_open(verify(LOG[1]))


def test_a_marker_that_cannot_be_read_is_damage():
    batch = bytearray(marker(0, 5, commit=True))
    batch[61] = 0x7F
    write_crc(batch, 0)
    with pytest.raises(DamagedLog, match="records that can be read"):
        Outcomes([source_of(batch)], [], nothing).aborts()


def test_old_messages_belong_to_no_transaction():
    old = message(0, b"1", key=b"a", attributes=0x30)
    assert Outcomes([source_of(old)], [], nothing).aborts() == []


def test_a_reader_may_begin_anywhere():
    outcomes = Outcomes([source_of(*LOG)], [], nothing)
    from_the_middle = TransactionsPassed(outcomes)
    assert not from_the_middle.is_aborted(verify(LOG[5])), "an abort of before is over"
    from_the_start = TransactionsPassed(outcomes)
    assert [from_the_start.is_aborted(verify(LOG[n])) for n in (1, 2)] == [True, True]
    assert not from_the_start.ended(verify(LOG[3]))
    assert from_the_start.ended(verify(LOG[4]))
    assert not from_the_start.is_aborted(verify(LOG[5]))


@pytest.mark.parametrize("seed", range(12))
def test_readers_of_committed_records_see_the_same_before_and_after(seed):
    """Through passes, restarts and horizons; at the end nothing of an aborted one is left."""
    life = Life(seed)
    now_ms = NOW
    for _ in range(6):
        for _ in range(25):
            life.step()
        settle(life.house, life.log)
        assert live(by_markers(life.log)) == live(life.committed)
        clean(life.house, life.log, now_ms)
        assert live(by_markers(life.log)) == live(life.committed)
        if not life.open:
            assert live(by_lists(life.log)) == live(life.committed)
        now_ms += DAY
    for pid in list(life.open):
        life.end(pid, commit=False)
    for _ in range(4):
        life.log.roll(NOW)
        life.log.append(keyed([(b"end", b"")]), NOW)
        clean(life.house, life.log, now_ms)
        now_ms += 2 * DAY
    assert live(by_markers(life.log)) | live(life.committed) == live(by_markers(life.log))
    assert by_lists(life.log) == by_markers(life.log)
    inactive = [
        one for one in headers_of(life.log) if one.base_offset < life.log.segments.cleaned.offset
    ]
    data = [one for one in inactive if one.record_count and not one.is_control]
    assert sum(one.record_count for one in data) <= 7
    markers = [one for one in inactive if one.is_control and one.record_count]
    transactional = {one.producer_id for one in data if one.is_transactional}
    assert {one.producer_id for one in markers} <= transactional


class _Stop(BaseException):
    """The process ends here."""


def life_to_clean():
    """Return a life whose log was cleaned once, and has more transactions since."""
    life = Life(3)
    for _ in range(2):
        for _ in range(25):
            life.step()
        for pid in list(life.open):
            life.end(pid, commit=pid % 2 == 0)
        life.log.roll(NOW)
        life.append(None)
        if life.log.segments.cleaned.offset == 0:
            clean(life.house, life.log)
    settle(life.house, life.log)
    return life


@pytest.fixture(scope="module")
def stopped():
    """Return the table, and the disks of processes that ended at each call of a pass."""
    life = life_to_clean()
    first = len(life.house.filesystem.calls)
    clean(life.house, life.log)
    call_count = len(life.house.filesystem.calls) - first
    assert live(by_lists(life.log)) == live(life.committed)
    disks = []
    for nth in share_of(range(1, call_count + 1)):
        life = life_to_clean()
        left = iter(range(nth - 1, -1, -1))
        life.house.filesystem.before = lambda *_, left=left: (
            None if next(left, 0) else (_Stop(), 0.5)
        )
        with pytest.raises(_Stop):
            clean(life.house, life.log)
        life.house.filesystem.before = None
        life.house.manager.abandon()
        life.house.filesystem.calls.clear()
        disks.append((nth, pickle.dumps(life.house.filesystem)))
    return live(life.committed), disks


LOST = [None, "lost", "kept", "torn", "zeros"]


@pytest.mark.parametrize("lost", LOST)
def test_a_crash_at_every_call_shows_nothing_aborted_and_loses_nothing(stopped, lost):
    table, disks = stopped
    for nth, disk in some_of(disks, LOST.index(lost)):
        house = House(pickle.loads(disk))
        house.filesystem.kill() if lost is None else house.filesystem.crash(lost)
        log = house.restart(**FIVE)
        assert live(by_markers(log)) == table, nth
        assert live(by_lists(log)) == table, nth
        log.settle_replayed()
        clean(house, log)
        assert live(by_lists(log)) == table, nth
        house.stop()
        assert live(by_lists(house.restart(**FIVE))) == table, nth
