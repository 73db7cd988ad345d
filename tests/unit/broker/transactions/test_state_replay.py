"""Reading `__transaction_state`: the newest record of an id counts, wherever it is."""

import pytest

from broker.runtime.steps import finished
from broker.transactions import state_replay
from broker.transactions.state_replay import Newest, read_states
from broker.transactions.transaction_states import TransactionState as State
from protocol.record_errors import RecordError
from protocol.records import Record, build
from protocol.transaction_records import (
    TransactionKey,
    TransactionValue,
    encode_key,
    encode_value,
)


def values(newest):
    found = {}
    for _ in newest.give(found):
        pass
    return found


def value(epoch=0, pid=7, state=State.EMPTY):
    return TransactionValue(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_timeout_ms=60_000,
        transaction_status=state,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=-1,
    )


def batch(*records, timestamp_ms=1):
    return bytes(
        build(
            [
                Record(0, timestamp_ms, encode_key(TransactionKey(transactional_id=one)), encoded)
                for one, encoded in (
                    (one, written if isinstance(written, bytes) else encode_value(written))
                    for one, written in records
                )
            ]
        )
    )


def newest_of(*partitions):
    newest = Newest()
    for chunk in partitions:
        finished(newest.take(read_states(chunk)))
        finished(newest.end_partition())
    return {one: (found.producer_id, found.producer_epoch) for one, found in values(newest).items()}


def test_the_last_record_of_an_id_counts():
    chunk = batch(("a", value(3)), ("b", value(1, 8))) + batch(("a", value(2)))
    assert newest_of(chunk) == {"a": (7, 2), "b": (8, 1)}


def test_a_tombstone_removes_an_id():
    assert newest_of(batch(("a", value()), ("b", value())) + batch(("a", None))) == {"b": (7, 0)}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (value(3), value(4), {"a": (7, 4)}),
        (value(32_000, pid=7), value(0, pid=8), {"a": (8, 0)}),
    ],
    ids=["the higher epoch", "the later producer id"],
)
def test_of_two_partitions_the_newest_record_wins(one, other, expected):
    """Whatever the clock said."""
    found = batch(("a", one), timestamp_ms=9), batch(("a", other), timestamp_ms=5)
    assert newest_of(*found) == expected
    assert newest_of(*reversed(found)) == expected


def test_of_two_records_of_an_epoch_the_later_one_wins():
    early = batch(("a", value(3)), timestamp_ms=5)
    late = batch(("a", value(3, state=State.ONGOING)), timestamp_ms=6)
    for order in ((early, late), (late, early)):
        newest = Newest()
        for chunk in order:
            finished(newest.take(read_states(chunk)))
            finished(newest.end_partition())
        assert values(newest)["a"].transaction_status == State.ONGOING


@pytest.mark.parametrize(("removed_ms", "expected"), [(6, {}), (4, {"a": (7, 3)})])
def test_a_tombstone_in_another_partition_counts_if_it_is_later(removed_ms, expected):
    found = batch(("a", value(3)), timestamp_ms=5), batch(("a", None), timestamp_ms=removed_ms)
    assert newest_of(*found) == expected
    assert newest_of(*reversed(found)) == expected


def test_a_partition_that_cannot_be_read_to_its_end_does_not_count():
    newest = Newest()
    finished(newest.take(read_states(batch(("a", value())))))
    newest.drop_partition()
    finished(newest.end_partition())
    assert values(newest) == {}


@pytest.mark.parametrize(
    "written", [b"\x00", b"\x00\x07", encode_value(value(state=6))], ids=["torn", "new", "Dead"]
)
def test_an_id_whose_newest_record_cannot_be_read_begins_anew(written, caplog):
    """Going on from an older record, it could give a transaction that has ended another outcome."""
    found = batch(("a", value(3)), ("b", value())) + batch(("a", written))
    assert newest_of(found) == {"b": (7, 0)}
    assert "transactional id a is as good as new: its record at offset 0 cannot" in caplog.text


def test_a_record_without_an_id_is_left_out(caplog):
    torn = bytes(build([Record(0, 1, b"\x00\x00\x00\x09a", None)]))
    assert newest_of(torn + batch(("b", value()))) == {"b": (7, 0)}
    assert "transaction record at offset 0 ignored" in caplog.text


def test_other_records_and_control_batches_are_skipped():
    unknown = bytes(build([Record(0, 1, b"\x00\x09", b"")]))
    control = bytes(
        build(
            [Record(0, 1, b"\x00\x00\x00\x00", b"\x00" * 6)],
            producer_id=1,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
    )
    assert newest_of(unknown + control + batch(("a", value()))) == {"a": (7, 0)}


def test_bytes_that_are_no_batch_are_an_error():
    with pytest.raises(RecordError):
        read_states(b"\xff" * 100)


def test_others_run_between_many_records(monkeypatch):
    monkeypatch.setattr(state_replay, "RECORDS_PER_TURN", 2)
    newest = Newest()
    read = read_states(batch(*((f"id-{number}", value()) for number in range(5))))
    assert len(list(newest.take(read))) == 2
    assert len(list(newest.end_partition())) == 2
    assert len(values(newest)) == newest.record_count == 5
