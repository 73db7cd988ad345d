"""What a record counts for is at least what it takes in a batch."""

import pytest

from client.record_size import record_bytes
from protocol.records import HEADER_SIZE, Record, build


@pytest.mark.parametrize(
    "record",
    [
        Record(0, 0, None, None, ()),
        Record(0, -1, b"", b"", (("", b""),)),
        Record(0, 253_402_300_799_999, b"k" * 1_000, b"v" * 3_000_000, ()),
        Record(0, 1, b"k", b"v", (("ä" * 200, b"1"), ("名" * 70, None), ("🙂" * 40, b"x" * 9_000))),
        Record(0, 1, b"k", b"v", tuple((f"h{n}", b"v") for n in range(300))),
    ],
)
def test_it_is_at_least_what_the_record_takes(record):
    others = [Record(0, 1_700_000_000_000, None, b"v", ())] * 3
    without = build(others, codec=0, leader_epoch=-1)
    added = len(build([*others, record], codec=0, leader_epoch=-1)) - len(without)
    assert added <= record_bytes(record) < added + 60 + 4 * sum(len(n) for n, _ in record.headers)
    assert len(without) <= HEADER_SIZE + sum(map(record_bytes, others))
