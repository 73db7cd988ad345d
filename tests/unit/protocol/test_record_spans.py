"""Records as byte spans: the same records as `read_records` returns, and batches without some."""

import random

import pytest

from protocol.record_batch import HEADER_SIZE, verify
from protocol.record_errors import InvalidRecord, RecordError
from protocol.record_spans import emptied, open_batch, read_spans, rewrite
from protocol.records import Record, build, read_records

MAX = 1 << 20


def some_records(seed=3, count=50):
    chance = random.Random(seed)
    return [
        Record(
            0,
            1_700_000_000_000 + chance.randrange(-(10**6), 10**6),
            None if chance.random() < 0.1 else chance.randbytes(chance.choice((0, 1, 70, 9000))),
            None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 1, 63, 64, 300))),
            tuple((f"h{n}", chance.randbytes(n) if n else None) for n in range(n % 3)),
        )
        for n in range(count)
    ]


def opened(batch):
    header = verify(batch)
    body = open_batch(header, batch, MAX)
    return header, body, list(read_spans(header, body))


@pytest.mark.parametrize("codec", range(5))
def test_spans_match_the_records(codec):
    batch = build(some_records(), base_offset=1000, codec=codec)
    header, body, spans = opened(batch)
    records = list(read_records(batch, size_max=MAX))
    assert [(s.offset, s.timestamp, s.key, s.has_value) for s in spans] == [
        (r.offset, r.timestamp, r.key, r.value is not None) for r in records
    ]
    assert [s.start for s in spans] == [0] + [s.end for s in spans[:-1]]
    assert spans[-1].end == len(body)
    assert header.record_count == len(spans)


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("horizon", [None, 1_800_000_000_000, 0])
def test_a_rewritten_batch_has_the_kept_records_and_the_rest_of_the_header(codec, horizon):
    options = {"producer_id": 77, "producer_epoch": 5, "base_sequence": 2**31 - 10}
    batch = build(some_records(), base_offset=1000, codec=codec, leader_epoch=3, **options)
    header, body, spans = opened(batch)
    kept = spans[5:45:3]
    written = rewrite(header, body, kept, horizon)
    after = verify(written)
    assert after.size == len(written)
    wanted = [r for r in read_records(batch, size_max=MAX) if r.offset in {s.offset for s in kept}]
    assert list(read_records(written, size_max=MAX)) == wanted
    assert after.max_timestamp == max(record.timestamp for record in wanted)
    same = ("base_offset", "last_offset", "leader_epoch", "codec", "producer_id",
            "producer_epoch", "base_sequence", "last_sequence")  # fmt: skip
    assert all(getattr(after, name) == getattr(header, name) for name in same)
    assert after.has_delete_horizon == (horizon is not None)
    if horizon is not None:
        assert after.base_timestamp == horizon


def test_append_time_remains_the_time_of_all_records():
    batch = build(some_records(), timestamp_type=1)
    header, body, spans = opened(batch)
    for horizon in (None, 5):
        written = rewrite(header, body, spans[3:5], horizon)
        assert verify(written).is_log_append_time
        assert {r.timestamp for r in read_records(written, size_max=MAX)} == {header.max_timestamp}


def test_a_horizon_is_kept_when_more_records_are_removed():
    header, body, spans = opened(build(some_records()))
    first = rewrite(header, body, spans[:20], 99)
    header, body, spans = opened(first)
    second = rewrite(header, body, spans[10:])
    assert verify(second).base_timestamp == 99
    assert verify(second).has_delete_horizon
    assert list(read_records(second, size_max=MAX)) == list(read_records(first, size_max=MAX))[10:]


def test_an_emptied_batch_keeps_its_numbers():
    batch = build(
        some_records(),
        base_offset=8,
        codec=4,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=40,
    )
    header = verify(batch)
    empty = verify(emptied(header))
    assert len(emptied(header)) == empty.size == HEADER_SIZE
    assert list(read_records(emptied(header), size_max=MAX)) == []
    assert empty.codec == 0
    assert (empty.base_offset, empty.last_offset) == (8, 57)
    assert (empty.producer_id, empty.producer_epoch, empty.last_sequence) == (7, 1, 89)
    assert (empty.base_timestamp, empty.max_timestamp) == (-1, header.max_timestamp)
    assert list(read_spans(empty, b"")) == []


def test_garbage_raises_only_record_errors():
    chance = random.Random(11)
    batch = build(some_records(count=8))
    header, body, _ = opened(batch)
    refused = 0
    for _ in range(5000):
        broken = bytearray(body)
        for _ in range(chance.randrange(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        cut = bytes(broken[: chance.choice((len(broken), chance.randrange(len(broken))))])
        try:
            spans = list(read_spans(header, cut))
        except RecordError:
            refused += 1
        else:
            assert all(0 <= s.offset < 8 for s in spans)
    assert refused > 1000


def test_values_that_do_not_fit_are_refused():
    header = verify(build(some_records(count=1)))
    cases = {
        "past the end": b"\x20\0\0\0",
        "left": build([Record(0, 0, b"", b"")])[HEADER_SIZE:] + b"\0",
        "a number": b"\x0c\0\0\0" + b"\xff" * 4,
        "more than 10 bytes": b"\x30\0" + b"\xff" * 20 + b"\0\0\0",
        "outside of its batch": b"\x0c\0\0\x7e\0\0\0",
    }
    for words, body in cases.items():
        with pytest.raises(InvalidRecord) as caught:
            list(read_spans(header, bytes(body)))
        assert words in str(caught.value) or words == "past the end"


@pytest.mark.parametrize("timestamp", [-(2**63), -(2**63) + 1, -2, -1, 0, 2**63 - 1])
@pytest.mark.parametrize("horizon", [0, 1_800_000_000_000, 2**63 - 1])
def test_no_timestamp_is_too_far_from_a_horizon(timestamp, horizon):
    """Deltas wrap around at 64 bits, and every reader does the same."""
    header, body, spans = opened(build([Record(0, timestamp, b"k", None)]))
    batch = rewrite(header, body, spans, horizon)
    found = verify(batch)
    assert (found.base_timestamp, found.max_timestamp) == (horizon, timestamp)
    assert [record.timestamp for record in read_records(batch, size_max=MAX)] == [timestamp]


def test_timestamps_beyond_64_bits_wrap_around():
    """A Java client reads a batch whose base and delta overflow; neither side refuses it."""
    header, body, spans = opened(build([Record(0, n, b"k", None) for n in (0, 7)]))
    far = rewrite(header._replace(base_timestamp=2**63 - 1), body, spans)
    header, body, spans = opened(far)
    wrapped = [2**63 - 1, -(2**63) + 6]
    assert [record.timestamp for record in read_records(far, size_max=MAX)] == wrapped
    for horizon in (None, 1_800_000_000_000):
        again = rewrite(header, body, spans[1:], horizon)
        assert verify(again).max_timestamp == wrapped[1]
        assert [record.timestamp for record in read_records(again, size_max=MAX)] == wrapped[1:]
