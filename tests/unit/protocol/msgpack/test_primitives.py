"""The wider encodings of values: read as msgpack writes them, or left to the other reader."""

from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from protocol.msgpack.primitives import (
    GIVES_UP,
    Irregular,
    read_binary_size,
    read_count,
    read_integer,
    read_string_size,
)

INT64 = (-(2**63), 2**63 - 1)
EDGES = [2**bits + more for bits in (0, 5, 7, 8, 15, 16, 31, 32, 62) for more in (-1, 0, 1)]


@pytest.mark.parametrize("number", [*EDGES, *(-number for number in EDGES), *INT64])
def test_integers_of_every_width(number: int) -> None:
    packed = b"?" + msgpack.packb(number)
    assert read_integer(packed, 1, *INT64) == (number, len(packed))
    for end in range(1, len(packed)):
        with pytest.raises(GIVES_UP):
            read_integer(packed[:end], 1, *INT64)
    for first, last in ((number + 1, INT64[1]), (INT64[0], number - 1)):
        with pytest.raises(Irregular):
            read_integer(packed, 1, first, last)


SIZES = [0, 31, 32, 255, 256, 65535, 65536]
EXTENTS: list[tuple[Callable[..., Any], type]] = [
    (read_binary_size, bytes),
    (read_string_size, str),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("read", "kind"), EXTENTS)
def test_bins_and_strings_have_a_start_and_an_end(read: Any, kind: type, size: int) -> None:
    packed = msgpack.packb(bytes(size) if kind is bytes else "x" * size)
    if kind is str and size < 32:
        with pytest.raises(Irregular):
            read(packed, 0)
        return
    assert read(packed, 0) == (len(packed) - size, len(packed))
    if size:
        with pytest.raises(Irregular):
            read(packed[:-1], 0)
    with pytest.raises(GIVES_UP):
        read(packed[:1], 0)


@pytest.mark.parametrize("count", [16, 65535, 65536])
def test_counts(count: int) -> None:
    array = msgpack.packb([0] * count)
    pairs = msgpack.packb(dict.fromkeys(range(count), 0))
    assert read_count(array, 0, 0xDC) == (count, 3 if count < 65536 else 5)
    assert read_count(pairs, 0, 0xDE) == (count, 3 if count < 65536 else 5)
    for data, short in ((array, 0xDE), (pairs, 0xDC), (array[:10], 0xDC), (b"\xdc", 0xDC)):
        with pytest.raises(GIVES_UP):
            read_count(data, 0, short)


@pytest.mark.parametrize("value", [None, True, 0.5, [], {}, msgpack.Timestamp(1)])
def test_another_type_is_left_to_the_other_reader(value: Any) -> None:
    packed = msgpack.packb(value)
    for read in (read_binary_size, read_string_size):
        with pytest.raises(Irregular):
            read(packed, 0)
    with pytest.raises(Irregular):
        read_integer(packed, 0, *INT64)
