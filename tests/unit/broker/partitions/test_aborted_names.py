"""The aborted transactions in the answer of a fetch: few at once, many in steps."""

from typing import Any

import pytest

from broker.partitions import aborted_names
from broker.partitions.aborted_names import AbortedNames
from broker.runtime.steps import finished
from protocol.messages.fetch import FetchResponse, PartitionData
from protocol.packed_pairs import PACKED_PAIR, PAIR_BYTES


class FakeLog:
    """Says that so many transactions were aborted."""

    def __init__(self, count: int) -> None:
        self._count = count

    def aborted_in(self, piece: Any, offset: int, limit: int) -> bytes:
        return b"".join(PACKED_PAIR.pack(70 + number, number) for number in range(self._count))


@pytest.fixture(autouse=True)
def few_per_step(monkeypatch):
    monkeypatch.setattr(aborted_names, "NAMED_PER_STEP", 4)


def data() -> PartitionData:
    return PartitionData(
        partition_index=0, high_watermark=9, aborted_transactions=[], records=b"..."
    )


def named(some: PartitionData) -> list[tuple[int, int]]:
    return [(one.producer_id, one.first_offset) for one in some.aborted_transactions or ()]


def test_few_are_named_at_once():
    names, one, response = AbortedNames(takes_steps=True), data(), FetchResponse()
    names.name(one, FakeLog(4), None, 0)
    assert names.whole(response) is response
    assert named(one) == [(70, 0), (71, 1), (72, 2), (73, 3)]


def test_many_are_named_a_few_per_step():
    names, one, other, response = AbortedNames(takes_steps=True), data(), data(), FetchResponse()
    names.name(one, FakeLog(10), None, 0)
    names.name(other, FakeLog(1), None, 0)
    steps = names.whole(response)
    assert (len(named(one)), len(named(other))) == (0, 1)
    grown = [(len(named(one)), size // PAIR_BYTES) for size in steps]
    assert grown == [(4, 4), (8, 4), (10, 2)]
    assert finished(names.whole(response)) is response


def test_an_answer_that_a_thread_encodes_is_named_at_once():
    names, one, response = AbortedNames(takes_steps=False), data(), FetchResponse()
    names.name(one, FakeLog(10), None, 0)
    assert names.whole(response) is response
    assert len(named(one)) == 10


def test_a_partition_that_is_read_again_is_named_once():
    names, one, again, response = AbortedNames(takes_steps=True), data(), data(), FetchResponse()
    names.name(one, FakeLog(10), None, 0)
    names.begin()
    names.name(again, FakeLog(5), None, 0)
    assert finished(names.whole(response)) is response
    assert (len(named(one)), len(named(again))) == (0, 5)
