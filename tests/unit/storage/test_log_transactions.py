"""Transactions in a log: last stable offset, unsettled markers, and what a restart finds."""

import pytest

from protocol.control_records import Marker, build_marker, read_marker
from protocol.packed_pairs import PACKED_PAIR
from protocol.record_batch import batches
from protocol.record_errors import InvalidRecord
from storage.compaction.cleanable import find_cleanable
from storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    LogFailed,
    NoTransaction,
    OutOfOrderSequence,
    TransactionOpen,
)
from storage.segments import row
from storage.segments.cold import Cold, Pulled, without_waiting
from tests.support.log_house import (
    NOW,
    House,
    append,
    batch,
    checkpoint,
    flush,
)
from tests.support.log_transactions import end, mark, send

SIZE = len(batch())
SEGMENTS = {"internal_segment_bytes": 3 * SIZE}


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


# -- Appending ----------------------------------------------------------------------------------


def test_a_transactional_batch_needs_a_transaction(house):
    log = house.log()
    with pytest.raises(NoTransaction):
        log.append(batch(pid=5, epoch=0, sequence=0, transactional=True), NOW)
    with pytest.raises(NoTransaction):
        log.append(batch(transactional=True), NOW)
    assert (log.end_offset, log.open_transactions()) == (0, [])


@pytest.mark.parametrize("version", [1, 2])
def test_a_transactional_batch_needs_a_producer_id(house, version):
    log = house.log()
    with pytest.raises(InvalidRecord):
        log.append(batch(transactional=True), NOW, version)
    assert log.end_offset == 0


def test_only_version_2_knows_what_comes_before_an_unknown_producer(house):
    log = house.log()
    data = [batch(pid=5, epoch=3, sequence=7, transactional=True) for _ in range(2)]
    with pytest.raises(OutOfOrderSequence) as caught:
        log.append(data[0], NOW, 2)
    assert (caught.value.found, caught.value.wanted) == (7, 0)
    assert log.append(data[1], NOW, 1).base_offset == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_newer_epoch_begins_with_sequence_0(house, version):
    log = house.log()
    send(log, 5)
    with pytest.raises(OutOfOrderSequence):
        log.append(batch(pid=5, epoch=1, sequence=1, transactional=True), NOW, version)


def test_a_repeated_batch_gets_its_first_offset(house):
    log = house.log()
    append(log)
    send(log, 5)
    again = log.append(batch(pid=5, epoch=0, sequence=0, transactional=True), NOW, 2)
    assert (again.base_offset, again.is_duplicate) == (1, True)
    assert log.end_offset == 2


def test_a_plain_batch_is_refused_in_a_transaction_and_taken_outside(house):
    log = house.log()
    send(log, 5)
    with pytest.raises(TransactionOpen) as caught:
        log.append(batch(pid=5, epoch=0, sequence=1), NOW, 2)
    assert caught.value.first_offset == 0
    end(log, 5, commit=True)
    assert log.append(batch(pid=5, epoch=1, sequence=0), NOW, 2).base_offset == 2
    assert log.open_transactions() == []


def test_the_brokers_own_batches_open_transactions(house):
    log = house.log()
    for sequence in (0, 0):  # of offsets: the sequence is always 0
        data = batch(pid=6, epoch=2, sequence=sequence, transactional=True)
        log.append_own(bytearray(data), NOW)
    assert log.open_transactions() == [(6, 2, 0)]
    with pytest.raises(AssertionError):
        log.append_own(build_marker(Marker(6, 3, is_commit=True, coordinator_epoch=0), NOW), NOW)


def test_a_marker_is_kafkas_batch(house):
    log = house.log()
    send(log, 5)
    assert mark(log, 5, commit=False) == 1
    flush(log)
    data = log.read(1, 1000).read()
    assert len(data) == 78
    assert read_marker(data) == Marker(5, 1, is_commit=False, coordinator_epoch=0)


def test_a_marker_of_the_next_epoch_fences_the_one_before(house):
    log = house.log()
    send(log, 5)
    end(log, 5, commit=True)
    with pytest.raises(InvalidProducerEpoch):
        log.append(batch(pid=5, epoch=0, sequence=1, transactional=True), NOW, 2)
    assert send(log, 5, epoch=1) == 2


def test_a_marker_of_the_same_epoch_lets_sequences_go_on(house):
    log = house.log()
    send(log, 5)
    end(log, 5, commit=True, epoch=0)
    assert send(log, 5, sequence=1) == 2


def test_a_failed_write_of_a_marker_leaves_the_transaction_open(house):
    log = house.log()
    send(log, 5)
    house.filesystem.fail("pwrite")
    with pytest.raises(LogFailed):
        mark(log, 5, commit=True)
    assert log.open_transactions() == [(5, 0, 0)]
    assert log.unsettled_from is None


@pytest.mark.parametrize(
    ("version", "is_open", "epoch", "allowed"),
    [
        (1, True, 3, True),
        (1, True, 2, False),
        (1, False, 3, True),
        (2, True, 4, True),
        (2, True, 3, False),
        (2, False, 3, True),  # a repetition (KAFKA-19999)
        (2, False, 2, False),
    ],
)
def test_markers_by_hand_are_checked(house, version, is_open, epoch, allowed):
    log = house.log()
    send(log, 5, epoch=3)
    if not is_open:
        end(log, 5, commit=True, epoch=3)
    marker = Marker(5, epoch, is_commit=False, coordinator_epoch=0)
    if allowed:
        log.check_marker(marker, version=version)
        return
    with pytest.raises(InvalidProducerEpoch):
        log.check_marker(marker, version=version)


def test_markers_of_an_older_coordinator_are_fenced(house):
    log = house.log()
    log.check_marker(Marker(5, 0, is_commit=True, coordinator_epoch=0), version=2)
    log.append_marker(Marker(5, 0, is_commit=True, coordinator_epoch=4), NOW)
    with pytest.raises(CoordinatorFenced) as caught:
        log.check_marker(Marker(5, 0, is_commit=True, coordinator_epoch=3), version=1)
    assert (caught.value.found, caught.value.wanted) == (3, 4)
    log.check_marker(Marker(5, 0, is_commit=True, coordinator_epoch=4), version=1)


# -- The last stable offset ----------------------------------------------------------------------


def test_the_last_stable_offset_is_that_of_the_oldest_transaction(house):
    log = house.log()
    append(log)
    assert log.last_stable_offset == 0, "nothing is durable"
    flush(log)
    send(log, 5)
    send(log, 6)
    assert log.last_stable_offset == 1
    flush(log)
    assert (log.high_watermark, log.last_stable_offset) == (3, 1)
    end(log, 6, commit=True)
    assert log.last_stable_offset == 1
    assert log.open_transactions() == [(5, 0, 1)]
    end(log, 5, commit=False)
    assert log.last_stable_offset == log.high_watermark == 5


@pytest.mark.parametrize("write_caching", [False, True])
def test_readers_wait_for_the_settlement(house, write_caching):
    log = house.log(write_caching=write_caching)
    send(log, 5)
    offset = mark(log, 5, commit=True)
    flush(log)
    assert (log.last_stable_offset, log.unsettled_from) == (0, offset)
    assert log.open_transactions() == []
    assert log.first_open_offset_of(5) == -1
    log.settle(offset)
    assert (log.last_stable_offset, log.unsettled_from) == (2, None)


def test_a_marker_that_is_not_durable_cannot_be_settled(house):
    log = house.log()
    send(log, 5)
    offset = mark(log, 5, commit=True)
    with pytest.raises(AssertionError):
        log.settle(offset)


def test_a_failed_log_ends_at_what_is_durable(house):
    log = house.log()
    append(log)
    flush(log)
    send(log, 5)
    append(log)
    house.filesystem.fail("fdatasync")
    flush(log)
    assert (log.high_watermark, log.last_stable_offset) == (1, 1)


# -- Restarts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill", "crash"])
@pytest.mark.parametrize("has_caches", [True, False])
def test_open_transactions_survive(house, how, has_caches):
    log = house.log()
    append(log)
    send(log, 6)
    send(log, 5)
    end(log, 6, commit=True)
    send(log, 7, 2)
    flush(log)
    if how != "crash":
        checkpoint(house, log)
    {"stop": house.stop, "kill": house.kill, "crash": house.crash}[how]()
    if not has_caches:
        for name in house.names(".snapshot") + house.names(".producers"):
            house.filesystem.unlink(house.path(name))
    log = house.restart()
    assert log.open_transactions() == [(5, 0, 2), (7, 0, 4)]
    assert (log.last_stable_offset, log.high_watermark) == (2, 6)


@pytest.mark.parametrize("how", ["stop", "kill", "lost", "kept", "torn", "zeros"])
def test_an_unsettled_marker_does_not_vanish_into_a_cache(house, how):
    """It may stand for a record of the decision that a power cut has taken."""
    log = house.log()
    send(log, 5)
    append(log)
    offset = mark(log, 5, commit=True)
    append(log, 3)
    flush(log)
    for _ in range(3):
        append(log)
        flush(log)
        assert checkpoint(house, log) == offset
    log.roll(NOW)
    checkpoint(house, log)
    if how == "stop":
        assert not house.stop(), "the next start must look for the marker"
    elif how == "kill":
        house.kill()
    else:
        house.crash(how)
    for name in house.names(".snapshot") + house.names(".producers"):
        house.filesystem.unlink(house.path(name))
    log = house.restart()
    assert log.last_stable_offset == log.high_watermark
    assert log.take_replayed_markers() == [(offset, Marker(5, 1, True, 0), 0, 0)]


def test_a_marker_is_found_again_until_what_it_says_is_settled(house):
    """The reconciliation of a start may be interrupted before it is durable."""
    log = house.log()
    send(log, 5)
    offset = mark(log, 5, commit=False)
    flush(log)
    for _ in range(3):
        house.kill()
        log = house.restart()
        assert [one.offset for one in log.replayed_markers] == [offset]
        log.take_replayed_markers()
        append(log)
        flush(log)
        assert checkpoint(house, log) == offset
    log.settle_replayed()
    assert checkpoint(house, log) == log.end_offset
    house.kill()
    assert house.restart().take_replayed_markers() == []


def test_settling_what_was_replayed_leaves_later_markers_unsettled(house):
    log = house.log()
    mark(log, 5, commit=False)
    flush(log)
    house.kill()
    log = house.restart()
    send(log, 5, epoch=1)
    offset = mark(log, 5, commit=True, epoch=2)
    flush(log)
    log.settle_replayed()
    assert (log.unsettled_from, log.last_stable_offset) == (offset, 1)


def test_replayed_markers_say_what_they_ended(house):
    log = house.log()
    send(log, 5, epoch=2)
    end(log, 5, commit=True, epoch=3)
    end(log, 5, commit=True, epoch=3)
    send(log, 6, 4)
    mark(log, 6, commit=False, epoch=0)
    flush(log)
    house.kill()
    log = house.restart()
    assert log.take_replayed_markers() == [
        (1, Marker(5, 3, True, 0), 2, 0),
        (2, Marker(5, 3, True, 0), None, -1),
        (7, Marker(6, 0, False, 0), 0, 3),
    ]
    assert log.take_replayed_markers() == []


def test_after_a_clean_stop_no_marker_is_replayed(house):
    log = house.log()
    send(log, 5)
    end(log, 5, commit=True)
    assert house.stop()
    log = house.restart()
    assert (log.take_replayed_markers(), log.unsettled_from) == ([], None)


def test_neither_open_nor_unsettled_transactions_are_cleaned(house):
    log = house.log(cleanup_policy=("compact",), **SEGMENTS)
    append(log, 4)
    send(log, 5)
    append(log, 9)
    flush(log)
    checkpoint(house, log)
    assert 0 < find_cleanable(log, NOW).end_offset <= 4
    offset = mark(log, 5, commit=True)
    append(log, 9)
    flush(log)
    checkpoint(house, log)
    assert 0 < find_cleanable(log, NOW).end_offset <= 4
    log.settle(offset)
    checkpoint(house, log)
    assert find_cleanable(log, NOW).end_offset > offset


# -- What was aborted ----------------------------------------------------------------------------


def history(log, count=30):
    """Append transactions of two producers; return the marker of each that was aborted."""
    aborted = []
    for n in range(count):
        first = send(log, 5, epoch=n)
        append(log, n % 3)
        marker = end(log, 5, commit=n % 2 == 0, epoch=n + 1)
        if n % 2:
            aborted.append((5, first, marker))
    return aborted


def test_each_read_gets_what_was_aborted_in_it_and_little_more(house):
    log = house.log(internal_segment_bytes=10 * SIZE, index_interval_bytes=2 * SIZE)
    aborted = history(log)
    limit = log.last_stable_offset
    for start in range(limit):
        for size_max in (1, 2 * SIZE, 5 * SIZE, 10**6):
            piece = log.read(start, size_max, end_offset=limit)
            upper = [header.next_offset for _, header in batches(piece.read())][-1]
            wanted = [(p, first) for p, first, marker in aborted if marker >= start > -1]
            wanted = [one for one in wanted if one[1] < upper]
            found = [*PACKED_PAIR.iter_unpack(log.aborted_in(piece, start, limit))]
            assert found[: len(wanted)] == wanted
            assert len(found) <= len(wanted) + 1, (start, size_max)
            again = [*PACKED_PAIR.iter_unpack(log.aborted_in(piece, start, limit))]
            assert again == found


def test_without_aborts_a_read_asks_nothing(house, monkeypatch):
    log = house.log()
    send(log, 5)
    end(log, 5, commit=True)
    monkeypatch.setattr(type(log.segments), "aborted", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(type(log.segments), "offset_behind", lambda *_: pytest.fail("asked"))
    assert log.aborted_in(log.read(0, 100), 0, 2) == b""


def test_a_reader_behind_the_last_abort_asks_nothing(house, monkeypatch):
    log = house.log()
    send(log, 5)
    end(log, 5, commit=False)
    append(log)
    flush(log)
    monkeypatch.setattr(type(log.segments), "aborted", lambda *_: pytest.fail("asked"))
    assert log.aborted_in(log.read(2, 100), 2, 3) == b""


def test_a_marker_of_nothing_is_not_listed(house):
    log = house.log()
    append(log)
    end(log, 5, commit=False)
    assert log.aborted(0, 2) == []
    assert house.stop()
    assert not house.names(".txnindex")


def test_the_list_outlives_the_mending_of_its_segments_indexes(house):
    log = house.log(internal_segment_bytes=10 * SIZE, index_interval_bytes=2 * SIZE)
    aborted = [one[:2] for one in history(log)]
    log.segments.all[0].indexes.damage = "a test"
    checkpoint(house, log)
    assert not log.segments.all[0].indexes.damage
    assert log.aborted(0, log.end_offset) == aborted


def test_a_deletion_that_fails_puts_lists_back(house):
    log = house.log(internal_segment_bytes=10 * SIZE, retention_bytes=0)
    aborted = [one[:2] for one in history(log)]
    checkpoint(house, log)
    assert log.apply_retention(NOW)
    house.manager.write_checkpoints()
    house.filesystem.fail("rename", forever=True)
    deletion = log.begin_deletion(NOW)
    assert len(log.aborted(0, log.end_offset)) < len(aborted)
    deletion.run()
    with pytest.raises(OSError):
        deletion.finish()
    assert log.aborted(0, log.end_offset) == aborted


def test_the_name_of_a_new_list_is_durable_before_the_recovery_point_relies_on_it(house):
    log = house.log(internal_segment_bytes=10**6)
    aborted = [one[:2] for one in history(log)]
    checkpoint(house, log)
    house.crash()
    assert house.names(".txnindex")
    assert house.restart(internal_segment_bytes=10**6).aborted(0, 10**6) == aborted


def test_a_walk_over_the_lists_of_many_segments_is_left_to_a_thread(house, monkeypatch):
    """A transaction that was open for long has each list end below it."""
    monkeypatch.setattr(row, "BLOCK_ENTRIES", 2)
    monkeypatch.setattr(row, "LIST_ENTRIES", 0)
    log = house.log(internal_segment_bytes=4 * len(batch()))
    wanted = []
    send(log, 1)
    for n in range(12):
        wanted.append((2, send(log, 2, epoch=n)))
        mark(log, 2, commit=False, epoch=n + 1)
    end(log, 1, commit=True)
    flush(log)
    checkpoint(house, log)
    assert len(log.segments.aborting) > 5
    pulled, starts = Pulled(), 0
    found = None
    while found is None:
        before = house.filesystem.counts["pread"]
        try:
            with without_waiting(pulled):
                found = log.aborted(0, log.end_offset)
        except Cold as cold:
            assert house.filesystem.counts["pread"] - before < 20
            starts += 1
            cold.pull()
            cold.keep(pulled)
    assert (found, starts) == (wanted, 1)
    assert log.aborted(0, log.end_offset) == wanted
