"""Every codec in both directions, the framings of other clients, and hostile streams."""

from __future__ import annotations

import random

import cramjam
import pytest

from pyspark_barnabas.wire.compression import NAMES, SNAPPY, compress, decompress
from pyspark_barnabas.wire.errors import BatchTooLarge, CorruptBatch

CODECS = range(len(NAMES))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 64 * 1024, 200_001])
@pytest.mark.parametrize("repeat", [1, 40])
def test_there_and_back(codec, size, repeat):
    raw = (random.Random(size).randbytes(size // repeat + 1) * repeat)[:size]
    assert bytes(decompress(codec, memoryview(compress(codec, raw)), max(1, size))) == raw


@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_bound_holds(codec):
    packed = memoryview(compress(codec, b"a" * 100_000))
    assert bytes(decompress(codec, packed, 100_000)) == b"a" * 100_000
    with pytest.raises(BatchTooLarge, match="more than 99999 bytes"):
        decompress(codec, packed, 99_999)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_garbage_is_corrupt_and_nothing_else(codec):
    dice = random.Random(codec)
    whole = bytes(compress(codec, dice.randbytes(500) * 3))
    for _ in range(300):
        broken = bytearray(whole[: dice.randrange(len(whole))])
        for _ in range(dice.randrange(3)):
            if broken:
                broken[dice.randrange(len(broken))] = dice.randrange(256)
        try:
            decompress(codec, memoryview(broken), 1 << 20)
        except CorruptBatch as error:
            assert NAMES[codec] in str(error)  # noqa: PT017


def test_a_raw_snappy_block_is_read():
    packed = bytes(cramjam.snappy.compress_raw(b"hello" * 9))
    assert decompress(SNAPPY, memoryview(packed), 1000) == b"hello" * 9


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec):
    with pytest.raises(CorruptBatch, match=f"codec {codec} is none of"):
        decompress(codec, memoryview(b"x"), 10)
