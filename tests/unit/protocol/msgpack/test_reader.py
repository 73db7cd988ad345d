"""Values from a frame: output of msgpack itself is read back, and anything else is refused."""

import struct
import tracemalloc
from typing import Any

import msgpack
import pytest

from protocol.msgpack.reader import BodyError, Reader, TooManyBytes, kind_of

INTEGERS = [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1]
INTEGERS += [-1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63)]
SIZES = [0, 1, 31, 32, 255, 256, 65535, 65536]


def reader(data: bytes, elements_max: int = 1 << 20) -> Reader:
    return Reader(memoryview(data), elements_max)


@pytest.mark.parametrize("number", INTEGERS)
def test_integers(number: int) -> None:
    assert reader(msgpack.packb(number)).integer() == number


@pytest.mark.parametrize("size", SIZES)
def test_strings_and_binaries(size: int) -> None:
    text, data = "x" * size, bytes(size)
    for packed, method, expected in [
        (msgpack.packb(text), Reader.text, text),
        *([(msgpack.packb(text), Reader.name, text.encode())] if size <= 0x7FFF else ()),
        *([(msgpack.packb(text), Reader.string, text)] if size <= 0x7FFF else ()),
        (msgpack.packb(text), Reader.binary, text.encode()),
        (msgpack.packb(data), Reader.binary, data),
        (msgpack.packb(data), Reader.view, data),
    ]:
        taken = reader(packed)
        assert method(taken) == expected
        assert taken.position == len(packed)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65535, 65536])
def test_arrays_and_maps(count: int) -> None:
    array, map_ = msgpack.packb([0] * count), msgpack.packb(dict.fromkeys(range(count), 0))
    assert reader(array).array() == count
    assert reader(map_).map() == count


@pytest.mark.parametrize("number", [0.0, -1.5, 1e300])
def test_floats_and_integers_as_floats(number: float) -> None:
    assert reader(msgpack.packb(number)).number() == number
    assert reader(msgpack.packb(7)).number() == 7.0
    assert reader(msgpack.packb(1.5, use_single_float=True)).number() == 1.5


def test_booleans_and_nil() -> None:
    assert reader(b"\xc3").boolean() is True
    assert reader(b"\xc2").boolean() is False
    assert reader(b"\xc0").take_nil() is True
    assert reader(b"\xc2").take_nil() is False


VALUES: dict[str, Any] = {
    "an integer": [0, -1, 300],
    "a float": [0.5],
    "a boolean": [True, False],
    "nil": [None],
    "a str": ["", "x" * 300],
    "a bin": [b"", b"x" * 300],
    "an array": [[], [1] * 300],
    "a map": [{}, dict.fromkeys(range(300))],
    "an extension": [msgpack.ExtType(1, b"x"), msgpack.Timestamp(1)],
}
WANTED = {
    "an integer": Reader.integer,
    "a boolean": Reader.boolean,
    "a str": Reader.text,
    "a bin": Reader.binary,
    "an array": Reader.array,
    "a map": Reader.map,
}


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("found", VALUES)
def test_another_type_is_refused_and_named(wanted: str, found: str) -> None:
    if wanted == found or (wanted, found) == ("a bin", "a str"):
        return
    for value in VALUES[found]:
        packed = msgpack.packb(value)
        assert kind_of(packed[0]) == found
        with pytest.raises(BodyError, match=f"found {found}"):
            WANTED[wanted](reader(packed))


HUGE = {
    "array 16": b"\xdc\xff\xff",
    "array 32": b"\xdd\xff\xff\xff\xff",
    "map 16": b"\xde\xff\xff",
    "map 32": b"\xdf\xff\xff\xff\xff",
    "bin 32": b"\xc6\xff\xff\xff\xff",
    "str 32": b"\xdb\xff\xff\xff\xff",
}


@pytest.mark.parametrize("name", HUGE)
def test_a_size_beyond_the_frame_is_refused_before_anything_is_allocated(name: str) -> None:
    methods = {"array": [Reader.array], "map": [Reader.map]}
    for method in methods.get(name[:-3].strip(), [Reader.view, Reader.binary]):
        tracemalloc.start()
        with pytest.raises(BodyError, match="remain"):
            method(reader(HUGE[name] + bytes(100)))
        assert tracemalloc.get_traced_memory()[1] < 100_000
        tracemalloc.stop()


def test_all_arrays_of_a_frame_share_one_bound() -> None:
    taken = reader(msgpack.packb([0] * 10) * 3, elements_max=25)
    for _ in range(2):
        assert taken.array() == 10
        taken.position += 10
    with pytest.raises(BodyError, match="more than one request may have"):
        taken.array()


@pytest.mark.parametrize(
    "value", [300, 70_000, 2**40, "x" * 40, b"x" * 300, [0] * 20, dict.fromkeys(range(20), 0), 1.5]
)
def test_a_frame_that_ends_inside_a_value_is_refused(value: Any) -> None:
    packed = msgpack.packb(value)
    methods = [Reader.integer, Reader.text, Reader.name, Reader.binary, Reader.array, Reader.map]
    for end in range(len(packed) if len(packed) < 30 else 5):
        for method in methods:
            with pytest.raises((BodyError, IndexError, struct.error)):
                method(reader(packed[:end]))


def test_a_str_must_be_utf8_and_its_bytes_need_not() -> None:
    with pytest.raises(BodyError, match="UTF-8"):
        reader(b"\xa2\xff\xfe").text()
    assert reader(b"\xa2\xff\xfe").binary() == b"\xff\xfe"


def test_an_error_names_the_place() -> None:
    error = BodyError("expected an integer").within("partition").within("topics")
    assert str(error) == "topics.partition: expected an integer"


@pytest.mark.parametrize("method", [Reader.string, Reader.name])
def test_names_and_strings_have_kafkas_maximum_lengths(method: Any) -> None:
    assert len(method(reader(msgpack.packb("x" * 0x7FFF)))) == 0x7FFF
    with pytest.raises(BodyError, match="32768 bytes"):
        method(reader(msgpack.packb("x" * 0x8000)))


def test_copies_are_bounded_and_views_are_not() -> None:
    packed = b"".join(msgpack.packb(bytes(40)) for _ in range(4))
    taken = Reader(memoryview(packed), 10, copied_bytes_max=100)
    taken.view()
    for _ in range(2):
        assert taken.binary() == bytes(40)
    with pytest.raises(TooManyBytes):
        taken.binary()
