"""The ledger finds all changes between two lives of a broker, and reports nothing else."""

from collections.abc import Callable

import pytest

from tests.support.log_ledger import EPOCH, HIGH_WATERMARK, START, Ledger, SeenBatch, batches_in
from tests.support.raw_batches import batch

A, COMPACTED, VOLATILE = ("a", 0), ("c", 0), ("v", 0)


def seen(
    base: int, count: int = 1, *, epoch: int = 0, time: int = 0, digest: bytes = b""
) -> SeenBatch:
    records = [(base + n, b"%d" % (base + n)) for n in range(count)]
    return SeenBatch(base, base + count - 1, epoch, time, digest, records)


def found(*steps: Callable[[Ledger], None]) -> list[str]:
    ledger = Ledger([VOLATILE], [COMPACTED])
    for step in steps:
        step(ledger)
    return [anomaly.name for anomaly in ledger.found]


def log(*batches: SeenBatch, key=A, start: int = 0) -> Callable[[Ledger], None]:
    return lambda ledger: ledger.saw_log(key, start, batches)


def mark(name: str, value: int, key=A) -> Callable[[Ledger], None]:
    return lambda ledger: ledger.saw_mark(key, name, value)


def time_of(asked: int, told: int, start: int = 0) -> Callable[[Ledger], None]:
    batches = [seen(0, 2, time=5), seen(2, 2, time=3), seen(4, 2, time=9)]
    return lambda ledger: ledger.saw_offset_of_time(A, start, batches, asked, told)


def sent(offset: int) -> Callable[[Ledger], None]:
    return lambda ledger: ledger.sent_commit("g", A, offset)


def told(offset: int, *, group: str = "g", metadata: str = "") -> Callable[[Ledger], None]:
    wanted = metadata or ("" if offset < 0 else str(offset))
    return lambda ledger: ledger.saw_committed(group, A, offset, wanted)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([log(seen(0)), log(seen(0), seen(1))], []),
        ([log(seen(0)), log(seen(0, digest=b"x"))], ["H1"]),
        ([log(seen(0), key=COMPACTED), log(seen(0, digest=b"x"), key=COMPACTED)], []),
        ([log(seen(0), seen(2))], ["H2"]),
        ([log(seen(0), seen(2), key=COMPACTED)], []),
        ([log(seen(0, 2), seen(1))], ["H2"]),
        ([log(seen(0, 2), seen(1), key=COMPACTED)], ["H2"]),
        ([log(seen(3), start=3)], []),
        ([log(seen(2, 3), start=3)], []),  # the log begins within a batch
        ([log(seen(4), start=3)], ["H2"]),
        ([log(seen(0, epoch=1), seen(1, epoch=2))], []),
        ([log(seen(0, epoch=2), seen(1, epoch=1))], ["H4"]),
        ([mark(START, 5), mark(START, 5), mark(START, 6)], []),
        ([mark(START, 5), mark(START, 4)], ["H4"]),
        ([mark(START, 5), log(seen(0))], ["H4"]),
        ([mark(HIGH_WATERMARK, 5), mark(HIGH_WATERMARK, 4)], ["H4"]),
        ([mark(HIGH_WATERMARK, 5), mark(HIGH_WATERMARK, 4, VOLATILE)], []),
        ([mark(HIGH_WATERMARK, 5, VOLATILE), mark(HIGH_WATERMARK, 4, VOLATILE)], []),
        ([mark(EPOCH, 2), mark(EPOCH, 1)], ["H4"]),
        ([time_of(4, 0), time_of(6, 4), time_of(10, -1)], []),
        ([time_of(4, 2)], ["H5"]),
        ([time_of(4, 1, start=1)], []),
        ([time_of(4, 4, start=2)], []),
        ([time_of(10, 5)], ["H5"]),
        ([told(-1)], []),
        ([sent(5), told(-1), told(5), sent(9), told(5)], []),
        ([sent(5), told(5), told(-1)], ["H4"]),
        ([sent(5), told(5), sent(9), told(9), told(5)], ["H4"]),
        ([sent(5), sent(4), told(5)], []),
        ([sent(5), told(6)], ["H4"]),
        ([sent(5), told(5, group="h")], ["H4"]),
        ([sent(5), told(4, metadata="5")], ["H4"]),
        ([lambda book: book.saw_producer_id(1), lambda book: book.saw_producer_id(2)], []),
        ([lambda book: book.saw_producer_id(1), lambda book: book.saw_producer_id(1)], ["H6"]),
    ],
)
def test_the_ledger_flags_the_breach_and_not_its_near_miss(
    steps: list, expected: list[str]
) -> None:
    assert found(*steps) == expected


@pytest.mark.parametrize(("key", "expected"), [(VOLATILE, []), (A, ["H1"])])
def test_a_power_cut_may_change_the_end_of_a_volatile_key_alone(key, expected) -> None:
    def cut(ledger: Ledger) -> None:
        ledger.cut({key: 1})

    anew = log(seen(0), seen(1, digest=b"x"), key=key)
    assert found(log(seen(0), seen(1), key=key), cut, anew) == expected
    below = log(seen(0, digest=b"x"), key=key)
    assert found(log(seen(0), key=key), cut, below) == ["H1"]


def test_whole_batches_are_read_with_their_offsets() -> None:
    first = batch([b"x", b"y"], base_offset=7, timestamp=5, leader_epoch=3)
    second = batch([b"z"], base_offset=9, timestamp=6, leader_epoch=3)
    got = list(batches_in(first + second + second[:-1]))
    assert [(b.base_offset, b.last_offset, b.epoch, b.timestamp) for b in got] == [
        (7, 8, 3, 5),
        (9, 9, 3, 6),
    ]
    assert [record for one in got for record in one.records] == [(7, b"x"), (8, b"y"), (9, b"z")]
    assert got[0].digest != got[1].digest
    changed = bytearray(first)
    changed[-1] ^= 1
    assert next(batches_in(bytes(changed))).digest != got[0].digest
