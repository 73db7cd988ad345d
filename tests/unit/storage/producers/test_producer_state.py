"""Producer state: which batches are new, which repeat, which are refused."""

import pytest

from protocol.record_batch import CONTROL, TRANSACTIONAL, BatchHeader
from storage.errors import InvalidProducerEpoch, OutOfOrderSequence, ProducerInDoubt
from storage.producers.producer_state import (
    SEQUENCE_MAX,
    AppendedBatch,
    ProducerEntry,
    ProducerState,
)

PID = 7


def header(sequence, count=1, *, epoch=0, pid=PID, timestamp=1000, attributes=0):
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def state_after(*batches):
    """A state with (sequence, count, epoch) batches applied at consecutive offsets."""
    state = ProducerState()
    for sequence, count, epoch in batches:
        state.take(header(sequence, count, epoch=epoch), state.end_offset, 1000)
        state.end_offset += count
    return state


SIX = [(sequence, 10, 0) for sequence in range(0, 60, 10)]


@pytest.mark.parametrize(
    ("name", "before", "batch"),
    [
        ("unknown producer, from 0", [], header(0)),
        ("unknown producer, any sequence", [], header(1234)),
        ("the next", [(0, 10, 0)], header(10)),
        ("next after six", SIX, header(60)),
        ("wraps after a batch that ended at the largest", [(SEQUENCE_MAX, 1, 0)], header(0)),
        ("wraps inside the batch", [(SEQUENCE_MAX - 1, 3, 0)], header(1)),
        ("newer epoch from 0", [(0, 10, 3)], header(0, epoch=4)),
    ],
)
def test_appends(name, before, batch):
    state = state_after(*before)
    before_entries = repr(state.entries)
    assert state.check(batch) is None, name
    assert repr(state.entries) == before_entries, "check must not change the state"


@pytest.mark.parametrize(
    ("name", "before", "batch", "original"),
    [
        ("the last", [(0, 10, 0)], header(0, 10), AppendedBatch(9, 9, 9, 1000)),
        ("the oldest of five", SIX, header(10, 10), AppendedBatch(19, 19, 9, 1000)),
        (
            "across the wrap",
            [(SEQUENCE_MAX - 1, 3, 0), (1, 1, 0)],
            header(SEQUENCE_MAX - 1, 3),
            AppendedBatch(0, 2, 2, 1000),
        ),
        (
            "the wrapped one itself, repeated at once",
            [(SEQUENCE_MAX, 1, 0)],
            header(SEQUENCE_MAX, 1),
            AppendedBatch(SEQUENCE_MAX, 0, 0, 1000),
        ),
    ],
)
def test_a_duplicate_returns_its_original(name, before, batch, original):
    assert state_after(*before).check(batch) == original, name


@pytest.mark.parametrize(
    ("name", "before", "batch", "error", "wanted"),
    [
        ("gap", [(0, 10, 0)], header(11), OutOfOrderSequence, 10),
        ("sixth oldest is forgotten", SIX, header(0, 10), OutOfOrderSequence, 60),
        ("same start, other length", SIX, header(50, 9), OutOfOrderSequence, 60),
        ("same end, other start", SIX, header(51, 9), OutOfOrderSequence, 60),
        ("0 without a wrap", [(5, 10, 0)], header(0), OutOfOrderSequence, 15),
        ("after the wrap, not 0", [(SEQUENCE_MAX, 1, 0)], header(1), OutOfOrderSequence, 0),
        ("newer epoch not from 0", [(0, 10, 0)], header(10, epoch=1), OutOfOrderSequence, 0),
        ("older epoch", [(0, 10, 2)], header(10, epoch=1), InvalidProducerEpoch, 2),
        ("duplicate under an older epoch", [(0, 9, 2)], header(0, 9, epoch=1),
         InvalidProducerEpoch, 2),
    ],
)  # fmt: skip
def test_refusals(name, before, batch, error, wanted):
    with pytest.raises(error) as caught:
        state_after(*before).check(batch)
    assert (caught.value.producer_id, caught.value.wanted) == (PID, wanted), name


@pytest.mark.parametrize(
    ("name", "damaged_below", "batch", "in_doubt"),
    [
        ("the next of one not heard of since", 11, header(10), True),
        ("a repeated one of it", 11, header(0, 10), True),
        ("any of an unknown one", 11, header(5, pid=8), True),
        ("the first of an unknown one", 11, header(0, pid=8), False),
        ("the first of a newer epoch", 11, header(0, epoch=1), False),
        ("the next of one heard of since", 9, header(10), False),
    ],
)
def test_damage_leaves_a_batch_in_doubt(name, damaged_below, batch, in_doubt):
    state = state_after((0, 10, 0))
    assert state.check(header(10)) is None
    state.damaged_below = damaged_below
    if not in_doubt:
        assert state.check(batch) is None, name
        return
    with pytest.raises(ProducerInDoubt) as raised:
        state.check(batch)
    assert (raised.value.producer_id, raised.value.offset) == (batch.producer_id, damaged_below)


def test_a_new_epoch_forgets_the_old_batches():
    state = state_after((0, 10, 0), (10, 10, 0), (0, 5, 1))
    assert state.entries[PID].batches == [AppendedBatch(4, 24, 4, 1000)]
    with pytest.raises(InvalidProducerEpoch):
        state.check(header(10, 10, epoch=0))


def test_producers_are_independent():
    state = state_after((0, 10, 0))
    assert state.check(header(500, pid=8)) is None
    state.take(header(500, pid=8), 10, 1000)
    assert state.check(header(10)) is None


def test_a_marker_ends_the_transaction_and_fences_the_older_epoch():
    state = ProducerState()
    state.take(header(0, 10, attributes=TRANSACTIONAL), 40, 1000)
    state.take(header(10, 10, attributes=TRANSACTIONAL), 50, 1000)
    assert state.entries[PID].txn_first_offset == 40
    ended = state.take_marker(header(-1, epoch=1, attributes=TRANSACTIONAL | CONTROL), 6, 60, 2000)
    assert ended == (0, 40, -1)
    entry = state.entries[PID]
    assert (entry.txn_first_offset, entry.coordinator_epoch, entry.epoch) == (-1, 6, 1)
    with pytest.raises(InvalidProducerEpoch):
        state.check(header(20, epoch=0))
    assert state.check(header(0, epoch=1)) is None


def test_a_marker_of_the_same_epoch_keeps_the_sequence():
    state = state_after((0, 10, 0))
    ended = state.take_marker(header(-1, attributes=TRANSACTIONAL | CONTROL), 0, 60, 2000)
    assert ended == (None, -1, -1)
    assert state.check(header(10)) is None
    with pytest.raises(OutOfOrderSequence):
        state.check(header(11))


@pytest.mark.parametrize(
    ("name", "timestamp", "seen_ms", "txn", "now_ms", "expired"),
    [
        ("just not", 1000, 1000, -1, 1999, False),
        ("just", 1000, 1000, -1, 2000, True),
        ("old records, heard of lately", 5, 1500, -1, 2000, False),
        ("records from the future, as Kafka", 9000, 1000, -1, 2000, False),
        ("open transaction", 1000, 1000, 3, 99_000, False),
    ],
)
def test_expiry(name, timestamp, seen_ms, txn, now_ms, expired):
    state = ProducerState()
    entry = ProducerEntry(PID, 0, last_timestamp=timestamp, seen_ms=seen_ms, txn_first_offset=txn)
    state.replace([entry], 10)
    assert state.expire(now_ms, 1000) == int(expired), name
    assert (PID in state.entries) is not expired


def test_changes_count_since_the_snapshot():
    state = state_after(*SIX)
    assert state.changes == 6
    state.replace(list(state.entries.values()), 60)
    assert (state.changes, state.end_offset) == (0, 60)


def test_a_copy_of_the_state_does_not_change():
    state = ProducerState()
    state.take(header(0, pid=7), 100, 1)
    (before,) = state.frozen()
    state.take(header(1, pid=7), 101, 2)
    state.take(header(0, pid=8), 102, 3)
    assert [batch.last_offset for batch in before.batches] == [100]
    assert [batch.last_offset for batch in state.entries[7].batches] == [100, 101]
    again, other = state.frozen()
    assert again is state.entries[7]
    assert other.producer_id == 8
    kept = state.entries[7]
    state.take(header(1, pid=8), 103, 4)
    assert state.entries[7] is kept, "unchanged entries are shared, not copied"


def test_each_step_of_expiry_is_bounded_and_skips_removed_producers(monkeypatch):
    monkeypatch.setattr("storage.producers.producer_state.PRODUCERS_A_STEP", 2)
    state = ProducerState()
    for pid in range(5):
        state.take(header(0, pid=pid, timestamp=0), 100 + pid, 0 if pid != 3 else 50)
    steps = state.expiring(60, 20)
    assert next(steps) == 2
    del state.entries[2]  # meanwhile
    assert list(steps) == [0, 1]
    assert list(state.entries) == [3]


def test_the_last_batch_of_a_producer_says_what_it_sent_last():
    state = ProducerState()
    data = header(0, pid=5)
    marker = data._replace(attributes=0x30, producer_epoch=1)
    assert not state.is_last_of_its_producer(data)
    state.entries[5] = ProducerEntry(5, 1)
    assert state.is_last_of_its_producer(marker), "it has only markers"
    assert not state.is_last_of_its_producer(marker._replace(producer_epoch=0))
    assert not state.is_last_of_its_producer(data._replace(producer_epoch=1))
    state.entries[5].batches.append(AppendedBatch(3, data.last_offset, 3, 1))
    assert state.is_last_of_its_producer(data)
    assert not state.is_last_of_its_producer(data._replace(base_offset=data.base_offset + 1))
