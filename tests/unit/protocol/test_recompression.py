"""A recompressed batch keeps its records and the rest of its header."""

import itertools

import pytest

from protocol.recompression import CODECS, Target, recompress
from protocol.record_batch import HEADER_SIZE, read_header, stamp, verify, write_crc
from protocol.record_errors import (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecord,
    RecordBatchTooLarge,
    RecordsWithoutKey,
)
from protocol.records import Record, build, read_records

RECORDS = [
    Record(0, 1_000, b"key", b"value" * 100, (("header", b"x"), ("null", None))),
    Record(1, 1_005, None, None),
    Record(2, 990, b"", bytes(range(256))),
]
LIMIT = 1 << 20


def made(codec: int, **options: int) -> memoryview:
    return memoryview(build(RECORDS, codec=codec, **options))


def again(batch: memoryview, codec: int, level: int | None = None) -> memoryview:
    return recompress(batch, Target(codec, level), size_max=LIMIT, decompressed_max=LIMIT)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(range(5), range(5))))
def test_the_records_and_the_rest_of_the_header_stay(source: int, target: int) -> None:
    batch = made(source, producer_id=9, producer_epoch=2, base_sequence=40)
    packed = again(batch, target)
    header, before = verify(packed), read_header(batch)
    assert header.codec == target
    assert list(read_records(packed, size_max=LIMIT)) == RECORDS
    same = {"batch_length": 0, "crc": 0, "attributes": 0}
    assert header._replace(**same) == before._replace(**same)
    assert (packed is batch) == (source == target)
    stamp(packed, 0, 7, 3)  # the result is writable


@pytest.mark.parametrize(("codec", "levels"), [(1, (1, 9)), (3, (9,)), (4, (-5, 3, 19))])
def test_every_level_gives_a_readable_batch(codec: int, levels: tuple[int, ...]) -> None:
    for level in levels:
        packed = again(made(0), codec, level)
        assert list(read_records(packed, size_max=LIMIT)) == RECORDS


def test_a_higher_level_compresses_better() -> None:
    text = b" ".join(str(n * n).encode() for n in range(20_000))
    batch = memoryview(build([Record(0, 1, None, text)]))
    for codec, low, high in ((1, 1, 9), (4, 1, 19)):
        assert len(again(batch, codec, high)) < len(again(batch, codec, low)), codec


def test_the_size_is_checked_before_and_after() -> None:
    zeros = build([Record(0, 1, None, bytes(100_000))])
    small = build([Record(0, 1, None, bytes(100_000))], codec=4)
    for batch, codec in ((zeros, 4), (small, 0)):
        with pytest.raises(RecordBatchTooLarge):
            recompress(memoryview(batch), Target(codec), size_max=50_000, decompressed_max=LIMIT)


def test_a_bomb_is_not_decompressed() -> None:
    bomb = build([Record(0, 1, None, bytes(500_000))], codec=4)
    with pytest.raises(DecompressedTooLarge):
        recompress(memoryview(bomb), Target(0), size_max=LIMIT, decompressed_max=100_000)


def test_damage_is_reported_at_its_place() -> None:
    batch = bytearray(made(0))
    batch[HEADER_SIZE] ^= 0x10  # the first record's length
    with pytest.raises(CorruptBatch):
        again(memoryview(bytearray(batch)), 4)
    write_crc(batch, 0)
    with pytest.raises(InvalidRecord):
        again(memoryview(batch), 4)
    with pytest.raises(CorruptBatch):
        again(memoryview(bytearray(20)), 4)


def test_the_names_are_kafkas() -> None:
    assert CODECS == {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def test_records_can_be_checked_without_recompression() -> None:
    batch, limits = made(4), {"size_max": LIMIT, "decompressed_max": LIMIT}
    assert recompress(batch, None, **limits) is batch
    for target in (None, Target(4)):
        with pytest.raises(RecordsWithoutKey):
            recompress(made(0), target, **limits, keys_wanted=True)
    damaged = bytearray(batch)
    damaged[HEADER_SIZE + 8] ^= 0xFF
    write_crc(damaged, 0)
    with pytest.raises(CorruptBatch):
        recompress(memoryview(damaged), None, **limits)
