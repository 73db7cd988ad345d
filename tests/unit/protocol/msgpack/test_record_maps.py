"""Records as maps, both ways, and every bound of opening batches."""

from typing import Any

import msgpack
import pytest

from protocol.control_records import Marker, build_marker
from protocol.errors import ErrorCode
from protocol.msgpack import record_maps
from protocol.msgpack.reader import BodyError, Reader
from protocol.msgpack.record_maps import Opener, read_batch
from protocol.records import Record, build, read_records, stamp, verify_produced

NOW_MS = 1_700_000_000_000
NONE = ErrorCode.NONE


def batch_of(value: Any) -> memoryview:
    return read_batch(Reader(memoryview(bytearray(msgpack.packb(value))), 1000), NOW_MS)


def records_of(value: Any) -> list[Record]:
    batch = batch_of(value)
    verify_produced(batch, 1 << 20)
    return list(read_records(batch, size_max=1 << 20))


def batch(count: int, base_offset: int = 0, codec: int = 0, value: bytes = b"v") -> bytearray:
    records = [Record(0, NOW_MS + n, b"k%d" % n, value) for n in range(count)]
    return build(records, base_offset=base_offset, codec=codec)


RECORDS = [
    ({}, (NOW_MS, None, None, ())),
    ({"value": b"v"}, (NOW_MS, None, b"v", ())),
    ({"value": "é", "key": "k"}, (NOW_MS, b"k", "é".encode(), ())),
    ({"value": None, "key": b""}, (NOW_MS, b"", None, ())),
    ({"timestamp": 0}, (0, None, None, ())),
    ({"timestamp": -1}, (-1, None, None, ())),
    ({"timestamp": None, "headers": None}, (NOW_MS, None, None, ())),
    (
        {"headers": [["a", b"1"], ["a", None], ["", "2"]]},
        (NOW_MS, None, None, (("a", b"1"), ("a", None), ("", b"2"))),
    ),
]


@pytest.mark.parametrize(("given", "expected"), RECORDS)
def test_a_map_is_a_record(given: Any, expected: Any) -> None:
    assert [tuple(record[1:]) for record in records_of([given])] == [expected]


def test_an_array_is_one_batch_in_the_same_order() -> None:
    values = [record.value for record in records_of([{"value": b"%d" % n} for n in range(100)])]
    assert values == [b"%d" % n for n in range(100)]


def test_a_bin_holds_raw_batches_and_can_be_stamped() -> None:
    raw = bytes(batch(3))
    taken = batch_of(raw)
    assert bytes(taken) == raw
    taken[0] = 1  # a view of the frame; the broker stamps the batches in it


REFUSED = [
    ([], "an empty array of records"),
    ([1], "expected a map"),
    ([{"offset": 1}], "unknown field 'offset' of a record"),
    ([{"key": 1}], "key: found an integer, expected a bin"),
    ([{"timestamp": 2**63}], "timestamp: found 9223372036854775808, exp"),
    ([{"timestamp": "now"}], "timestamp: found a str, expected an integer"),
    ([{"headers": {"a": b"b"}}], "headers: found a map, expected an array"),
    ([{"headers": [["a"]]}], "headers: found 1 elements, expected an array of key and value"),
    ([{"headers": [[b"a", b"b"]]}], "headers: found a bin, expected a str"),
    ([{"headers": [[None, b"b"]]}], "headers: found nil, expected a str"),
    (7, "found an integer, expected a bin"),
    ({}, "found a map, expected a bin"),
]


@pytest.mark.parametrize(("given", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_an_invalid_record_is_refused(given: Any, reason: str) -> None:
    with pytest.raises(BodyError) as caught:
        batch_of(given)
    assert reason in str(caught.value)


def test_a_repeated_field_of_a_record_is_refused() -> None:
    packed = b"\x91\x82" + (msgpack.packb("key") + b"\xc0") * 2
    with pytest.raises(BodyError, match="field 'key' stands twice"):
        read_batch(Reader(memoryview(packed), 10), NOW_MS)


@pytest.mark.parametrize("codec", range(5))
def test_batches_are_maps_from_the_requested_offset_on(codec: int) -> None:
    data = batch(3, 10, codec) + batch(2, 13, codec)
    for offset in range(10, 15):
        records, next_offset, code = Opener().open(data, offset)
        assert [record["offset"] for record in records] == list(range(offset, 15))
        assert (next_offset, code) == (15, NONE)
    assert records[0] == {
        "offset": 14,
        "timestamp": NOW_MS + 1,
        "key": b"k1",
        "value": b"v",
        "headers": (),
    }


def test_no_bytes_give_no_records_and_the_offset_stays() -> None:
    assert Opener().open(b"", 7) == ([], 7, NONE)


def test_control_records_are_skipped() -> None:
    control = build([Record(0, 0, b"\0\0\0\1", b"")], base_offset=1, control=True)
    records, next_offset, _ = Opener().open(batch(1, 0) + control, 0)
    assert ([record["offset"] for record in records], next_offset) == ([0], 2)
    assert Opener().open(control, 1) == ([], 2, NONE)


def test_records_of_aborted_transactions_are_skipped() -> None:
    def sent(value: bytes, pid: int, *, is_transactional: bool = True) -> bytearray:
        offset = len(kinds)
        kinds.append(value)
        return build(
            [Record(0, 0, None, value)],
            base_offset=offset,
            producer_id=pid,
            producer_epoch=0,
            base_sequence=0,
            transactional=is_transactional,
        )

    def ended(pid: int, *, is_commit: bool) -> bytearray:
        marker = build_marker(Marker(pid, 0, is_commit=is_commit, coordinator_epoch=0), 0)
        stamp(marker, 0, len(kinds), 0)
        kinds.append(b"marker")
        return marker

    kinds: list[bytes] = []
    data = b"".join(
        (
            sent(b"committed", 1),
            sent(b"aborted", 2),
            sent(b"plain", 2, is_transactional=False),
            ended(1, is_commit=True),
            sent(b"aborted", 2),
            ended(2, is_commit=False),
            sent(b"committed", 2),
            sent(b"aborted", 1),
            sent(b"plain", -1, is_transactional=False),
        )
    )
    aborted = [(1, 7), (2, 1)]
    records, next_offset, code = Opener().open(data, 0, aborted)
    assert [record["value"] for record in records] == [b"committed", b"plain"] * 2
    assert [record["offset"] for record in records] == [0, 2, 6, 8]
    assert (next_offset, code) == (9, NONE)
    records, _, _ = Opener().open(data, 2, aborted)
    assert [record["offset"] for record in records] == [2, 6, 8]
    records, _, _ = Opener().open(data, 0)
    assert len(records) == 7


def walk(data: bytes, end: int) -> tuple[list[int], int]:
    """Fetch until `end` as a client does; return the offsets seen and the answers it took."""
    seen: list[int] = []
    offset = answers = 0
    while offset < end:
        records, next_offset, code = Opener().open(data, offset)
        assert code is NONE
        assert next_offset > offset
        seen += [record["offset"] for record in records]
        offset = next_offset
        answers += 1
    return seen, answers


def test_an_answer_ends_at_its_bounds_and_gives_the_next_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = bytes(batch(7, 0) + batch(7, 7) + batch(7, 14))
    monkeypatch.setattr(record_maps, "RECORDS_MAX", 5)
    assert walk(data, 21) == (list(range(21)), 5)
    monkeypatch.setattr(record_maps, "RECORDS_MAX", 1000)
    monkeypatch.setattr(record_maps, "OPENED_BYTES_MAX", 100)
    seen, answers = walk(data, 21)
    assert seen == list(range(21))
    assert answers > 3


def test_all_partitions_of_an_answer_share_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_maps, "RECORDS_MAX", 5)
    opener = Opener()
    assert len(opener.open(batch(4), 0)[0]) == 4
    records, next_offset, _ = opener.open(batch(4), 0)
    assert (len(records), next_offset) == (1, 1)
    assert opener.open(batch(4), 2) == ([], 2, NONE)


def damaged(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


BAD = [
    ("a flipped bit", damaged(batch(2)), ErrorCode.CORRUPT_MESSAGE),
    ("half a batch", batch(2)[:-3], ErrorCode.CORRUPT_MESSAGE),
    ("a bomb", batch(1, codec=1, value=bytes(20_000)), ErrorCode.MESSAGE_TOO_LARGE),
    ("many records", batch(30), ErrorCode.MESSAGE_TOO_LARGE),
]


@pytest.mark.parametrize(("name", "data", "code"), BAD, ids=[name for name, _, _ in BAD])
def test_an_unreadable_batch_is_an_error_after_the_readable_ones(
    monkeypatch: pytest.MonkeyPatch, name: str, data: bytearray, code: ErrorCode
) -> None:
    monkeypatch.setattr(record_maps, "BATCH_BYTES_MAX", 10_000)
    monkeypatch.setattr(record_maps, "BATCH_RECORDS_MAX", 20)
    assert Opener().open(data, 0) == ([], 0, code)
    data[0:8] = (1).to_bytes(8, "big")  # the CRC does not cover the offset
    records, next_offset, first_code = Opener().open(batch(1) + data, 0)
    assert ([record["offset"] for record in records], next_offset) == ([0], 1)
    assert first_code is NONE
    assert Opener().open(data, 1) == ([], 1, code)


def with_headers(*counts: int, base_offset: int = 0, codec: int = 0) -> bytes:
    """Return a batch of records with these numbers of headers."""
    records = [Record(0, NOW_MS, b"k", b"v", (("h", b"x"),) * count) for count in counts]
    return bytes(build(records, base_offset=base_offset, codec=codec))


def test_headers_count_like_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_maps, "RECORDS_MAX", 10)
    assert walk(with_headers(6, 6, 1, 1, 12, 0), 6) == (list(range(6)), 3)
    monkeypatch.setattr(record_maps, "RECORDS_MAX", 1000)
    monkeypatch.setattr(record_maps, "OPENED_BYTES_MAX", 200)
    assert walk(with_headers(100, 100, 100), 3) == ([0, 1, 2], 3)


def test_a_record_with_too_many_headers_is_an_error_after_the_records_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_maps, "RECORD_HEADERS_MAX", 5)
    data = with_headers(1, 5, 6, 0, codec=4)
    records, next_offset, code = Opener().open(data, 0)
    assert ([len(record["headers"]) for record in records], next_offset, code) == ([1, 5], 2, NONE)
    opener = Opener()
    assert opener.open(data, 2) == ([], 2, ErrorCode.MESSAGE_TOO_LARGE)
    assert opener.refused_count == 1
    assert [record["offset"] for record in Opener().open(data, 3)[0]] == [3]


def test_an_answer_bounds_the_bytes_decompressed_to_find_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each partition may have a large batch with only one record left to read."""
    monkeypatch.setattr(record_maps, "BATCH_BYTES_MAX", 10_000)
    large = bytes(batch(6, codec=4, value=bytes(1_500)))
    opener = Opener()
    opened = [len(opener.open(large, 5)[0]) for _ in range(5)]
    assert opened == [1, 1, 0, 0, 0]
    assert len(Opener().open(large, 0)[0]) == 6, "a batch is read to its end once begun"


def test_other_threads_run_while_a_thread_opens_many_records() -> None:
    rests: list[int] = []
    records, _, _ = Opener(lambda: rests.append(1)).open(batch(5_000), 0)
    assert len(records) == 5_000
    assert len(rests) == 10


def test_records_of_aborted_transactions_are_left_out() -> None:
    def sent(offset: int, pid: int, *, transactional: bool = True) -> bytearray:
        records = [Record(0, NOW_MS, None, b"%d" % offset)]
        return build(records, base_offset=offset, producer_id=pid, producer_epoch=0,
                     base_sequence=0, transactional=transactional)  # fmt: skip

    def marked(offset: int, pid: int, *, commit: bool) -> bytearray:
        marker = build_marker(Marker(pid, 1, commit, 0), NOW_MS)
        stamp(marker, 0, offset, 0)
        return marker

    answer = (
        sent(0, 5) + sent(1, 6) + sent(2, 5, transactional=False) + marked(3, 6, commit=True)
        + marked(4, 5, commit=False) + sent(5, 5) + marked(6, 5, commit=True) + sent(7, 5)
    )  # fmt: skip
    for aborted, wanted in (
        ([], [0, 1, 2, 5, 7]),
        ([(5, 0)], [1, 2, 5, 7]),
        ([(5, 7)], [0, 1, 2, 5]),
        ([(5, 7), (5, 0)], [1, 2, 5]),
        ([(6, 0)], [0, 2, 5, 7]),
    ):
        records, next_offset, code = Opener().open(answer, 0, aborted)
        assert ([record["offset"] for record in records], next_offset, code) == (wanted, 8, NONE)
    assert Opener().open(answer[-len(sent(7, 5)) :], 7, [(5, 7)]) == ([], 8, NONE)
