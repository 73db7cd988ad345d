"""Varints and the refusals that compiled codecs call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError, EncodeError
from protocol.kafka import primitives
from tests.unit.protocol.kafka.strategies import MANY

VARINTS = [
    (0, b"\x00"),
    (1, b"\x01"),
    (127, b"\x7f"),
    (128, b"\x80\x01"),
    (300, b"\xac\x02"),
    (16_383, b"\xff\x7f"),
    (16_384, b"\x80\x80\x01"),
    (2_097_151, b"\xff\xff\x7f"),
    (2_097_152, b"\x80\x80\x80\x01"),
    (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
]


@pytest.mark.parametrize(("value", "wire"), VARINTS)
def test_varints(value: int, wire: bytes) -> None:
    assert primitives.uvarint(value) == wire
    assert primitives.read_uvarint(memoryview(b"?" + wire + b"?"), 1) == (value, 1 + len(wire))


@MANY
@given(st.integers(0, 2**32 - 1))
def test_varints_survive_a_round_trip(value: int) -> None:
    wire = primitives.uvarint(value)
    assert primitives.read_uvarint(memoryview(wire), 0) == (value, len(wire))


@MANY
@given(st.binary(max_size=12))
def test_any_bytes_as_a_varint(wire: bytes) -> None:
    try:
        value, end = primitives.read_uvarint(memoryview(wire), 0)
    except (DecodeError, IndexError):
        return
    assert 0 <= value < 2**32
    assert 0 < end <= 5


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (b"\xff\xff\xff\xff\x10", "exceeds 32 bits"),
        (b"\xff\xff\xff\xff\x7f", "exceeds 32 bits"),
        (b"\x80\x80\x80\x80\x80\x01", "longer than 5 bytes"),
        (b"\xff" * 10, "longer than 5 bytes"),
    ],
)
def test_varints_that_are_too_long(wire: bytes, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        primitives.read_uvarint(memoryview(wire), 0)


def test_a_padded_varint_is_read_as_kafka_reads_it() -> None:
    assert primitives.read_uvarint(memoryview(b"\x81\x80\x00"), 0) == (1, 3)


@pytest.mark.parametrize("stored", [1, 2, 128, primitives.STRING_BYTES_MAX + 1])
def test_string_sizes(stored: int) -> None:
    wire = primitives.uvarint(stored)
    assert primitives.read_string_size(memoryview(wire), 0, "f") == (stored, len(wire))


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (0, "non-nullable field f was serialized as null"),
        (primitives.STRING_BYTES_MAX + 2, "string field f had invalid length 32768"),
    ],
)
def test_string_sizes_refused(stored: int, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        primitives.read_string_size(memoryview(primitives.uvarint(stored)), 0, "f")


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (-1, "non-nullable field f was serialized as null"),
        (-2, "field f had invalid length -2"),
        (9, "Error reading f: 9 bytes are announced, but there are only 8 bytes remaining."),
    ],
)
def test_sizes_refused(size: int, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        primitives.refuse_size(size, "f", 8)


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (-1, "non-nullable field f was serialized as null"),
        (-3, "array field f had invalid length -3"),
        # Kafka's text since CVE-2022-34917.
        (9, "Tried to allocate a collection of size 9, but there are only 8 bytes remaining."),
    ],
)
def test_counts_refused(count: int, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        primitives.refuse_count(count, "f", 8)


@pytest.mark.parametrize(
    ("wire", "count", "end"),
    [(b"", 0, 0), (b"\x05\x00", 1, 2), (b"\x05\x02ab\x06\x01c?", 2, 7), (b"\x80\x01\x00", 1, 3)],
)
def test_tags_are_skipped(wire: bytes, count: int, end: int) -> None:
    assert primitives.skip_tags(memoryview(wire), 0, len(wire), count, "f") == end


@pytest.mark.parametrize(
    ("wire", "count", "words"),
    [
        (b"\x05\x00\x05\x00", 2, "tag 5 of f appears twice"),
        (b"\x05\x03ab", 1, "tagged field 5: 3 bytes are announced, but there are only 2"),
        (b"\x05\x00", 3, "collection of size 3"),
    ],
)
def test_tags_refused(wire: bytes, count: int, words: str) -> None:
    with pytest.raises(DecodeError, match=words):
        primitives.skip_tags(memoryview(wire), 0, len(wire), count, "f")


def test_a_tagged_field_that_is_not_read_to_its_end() -> None:
    with pytest.raises(DecodeError, match="tagged field 3 of f has 5 bytes, 4 were read"):
        primitives.refuse_tag_size(3, "f", 4, 5)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_uuids_of_another_size(size: int) -> None:
    with pytest.raises(EncodeError, match=f"f has {size} bytes, a uuid has 16"):
        primitives.check_uuid(bytes(size), "f")


def test_strings_that_a_client_could_not_read() -> None:
    primitives.check_string(b"a" * 32767, "f")
    with pytest.raises(EncodeError, match="f has 32768 bytes, a string may have 32767"):
        primitives.check_string(b"a" * 32768, "f")


def test_texts_for_people_are_cut_between_characters() -> None:
    for text in ("a" * 32767, "é" * 16383):
        assert primitives.cut_text(text.encode()) == text.encode()
    for text in ("a" * 32768, "é" * 16384, "a" + "😀" * 8192):
        found = primitives.cut_text(text.encode())
        assert 32767 - 4 <= len(found) <= 32767
        assert found.decode() == text[: len(found.decode()) - 1] + "…"
