"""The batches of an answer that belong to aborted transactions, asked in their order."""

import pytest

from protocol.aborted_transactions import AbortedTransactions
from protocol.control_records import Marker, build_marker
from protocol.record_batch import read_header, stamp
from protocol.records import Record, build


def data(base_offset, producer_id, *, is_transactional=True):
    batch = bytearray(
        build(
            [Record(0, 1_000, b"key", b"value"), Record(1, 1_000, b"key", b"value")],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=is_transactional,
        )
    )
    stamp(batch, 0, base_offset, 0)
    return read_header(batch)


def marker(base_offset, producer_id, *, is_commit=False):
    batch = build_marker(Marker(producer_id, 0, is_commit, 0), 1_000)
    stamp(batch, 0, base_offset, 0)
    return read_header(batch)


def skipped(aborted, *headers):
    """The base offsets of the batches that are to be skipped."""
    transactions = AbortedTransactions(aborted)
    return [header.base_offset for header in headers if transactions.has(header)]


def test_none_is_skipped_where_none_was_aborted():
    assert skipped([], data(0, 7), marker(2, 7), data(3, 7)) == []


def test_a_transaction_lasts_from_its_first_offset_to_the_marker_of_its_producer():
    batches = data(0, 7), marker(2, 7, is_commit=True), data(3, 7), data(5, 8), data(7, 7)
    assert skipped([(7, 3)], *batches, marker(9, 8), marker(10, 7), data(11, 7)) == [3, 7]


def test_each_of_a_producers_transactions_begins_anew():
    batches = data(0, 7), marker(2, 7), data(3, 7), marker(5, 7, is_commit=True), data(6, 7)
    assert skipped([(7, 6), (7, 0)], *batches) == [0, 6]


def test_an_answer_may_begin_in_the_middle_of_a_transaction():
    assert skipped([(7, 0)], data(40, 7), marker(42, 7), data(43, 7)) == [40]


def test_batches_without_a_transaction_and_markers_themselves_are_not_skipped():
    assert skipped([(7, 0)], data(0, 7, is_transactional=False), marker(2, 7)) == []


@pytest.mark.parametrize("first_offset", [0, 1])
def test_a_transaction_begins_with_the_batch_that_holds_its_first_offset(first_offset):
    assert skipped([(7, first_offset)], data(0, 7)) == [0]
