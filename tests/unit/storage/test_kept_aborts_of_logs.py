"""What was aborted in a read: looked up once for all readers of it, and again where it may grow."""

import sys

import pytest

from protocol.aborted_transactions import AbortedTransactions
from protocol.control_records import read_marker
from protocol.packed_pairs import PACKED_PAIR
from protocol.record_batch import batches
from storage.segments.abort_index import AbortIndex
from tests.support.compacted_transactions import Life
from tests.support.compacting import FIVE, ONE, clean
from tests.support.log_house import House, append, batch, flush
from tests.support.log_transactions import end, send

SIZE = len(batch())
SEGMENTS = FIVE | {"internal_segment_bytes": 60 * ONE}


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


@pytest.mark.parametrize("seed", range(4))
def test_readers_that_come_back_skip_what_was_aborted_whatever_has_become_of_the_log(seed):
    """Two logs: what is kept is kept for all of a broker's."""
    house = House()
    lives = [Life(2 * seed), Life(2 * seed + 1)]
    rng = lives[0].rng
    ranges = [(rng.randrange(200), rng.choice([2, 5, 99]) * ONE) for _ in range(12)]
    for number in range(160):
        if number in (0, 100):
            open_all(house, lives, epoch=number)
        for life in lives:
            life.step()
            if number % 40 == 39:
                clean(house, life.log)
            aborted = aborted_batches(life.log)
            for start, size in rng.sample(ranges, 4):
                assert_skips(life.log, start, size, aborted)


def open_all(house, lives, epoch):
    """Open a log for each, after a kill if any is open."""
    if epoch:
        house.kill()
    house.open()
    for partition, life in enumerate(lives):
        life.house, life.log = house, house.log(partition=partition, epoch=epoch, **SEGMENTS)


def aborted_batches(log):
    """Return the base offsets of aborted batches, as the markers in the log say."""
    open_ones, aborted = {}, set()
    for segment in log.segments:
        whole = segment.log_file.read(0, segment.size)
        for position, header in batches(whole):
            of_producer = open_ones.setdefault(header.producer_id, set())
            if header.is_control:
                marker = read_marker(memoryview(whole)[position : position + header.size])
                if marker is not None and not marker.is_commit:
                    aborted |= of_producer
                of_producer.clear()
            elif header.is_transactional:
                of_producer.add(header.base_offset)
    return aborted


def assert_skips(log, start, size, aborted):
    """Read as a consumer does, and check which batches it skips."""
    limit = log.last_stable_offset
    piece = log.read(start, size, end_offset=limit) if start < limit else None
    if piece is None:
        return
    named = AbortedTransactions(PACKED_PAIR.iter_unpack(log.aborted_in(piece, start, limit)))
    headers = [header for _, header in batches(piece.read())]
    skipped = {header.base_offset for header in headers if named.has(header)}
    sent = {header.base_offset for header in headers if not header.is_control}
    assert skipped == aborted & sent, (start, size)
