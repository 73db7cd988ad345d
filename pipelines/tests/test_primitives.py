"""The fields of messages, compared with their bytes."""

from __future__ import annotations

import pytest

from pyspark_barnabas.wire.primitives import Reader, array, string, uvarint


@pytest.mark.parametrize(
    ("written", "read", "value", "text"),
    [
        (string("é"), Reader.string, "é", "00 02 c3 a9"),
        (string(None), Reader.string, "", "ff ff"),
        (uvarint(0), Reader.uvarint, 0, "00"),
        (uvarint(300), Reader.uvarint, 300, "ac 02"),
        (uvarint(2**32 - 1), Reader.uvarint, 2**32 - 1, "ff ff ff ff 0f"),
        (b"\x03ab", Reader.compact_string, "ab", "03 61 62"),
        (b"\x01\x05\x02xy", Reader.tags, None, "01 05 02 78 79"),
    ],
)
def test_a_field_byte_by_byte(written, read, value, text):
    reader = Reader(bytearray(written))
    assert (written.hex(" "), read(reader), reader.position) == (text, value, len(written))


def test_an_array_is_its_count_and_its_elements():
    written = array([string("a"), string("b")])
    assert written.hex(" ") == "00 00 00 02 00 01 61 00 01 62"
    reader = Reader(bytearray(written))
    assert reader.array(reader.string) == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (b"\0\x05ab", Reader.string),
        (b"\xff" * 6, Reader.uvarint),
        (b"\x7f\xff\xff\xff", lambda reader: reader.array(reader.int8)),
        (b"\xff\x01ab", lambda reader: reader.compact_array(reader.int8)),
    ],
)
def test_a_size_beyond_the_end_is_refused_before_anything_is_made(data, read):
    with pytest.raises(ValueError, match=r"beyond the end|5 bytes|an array of"):
        read(Reader(bytearray(data)))


def test_topic_ids_are_in_the_form_of_kafkas_tools():
    """Kafka's Uuid.toString: URL-safe base64 without padding; all zeros mean none."""
    data = bytearray(bytes(range(250, 256)) + bytes(10) + bytes(16))
    reader = Reader(data)
    assert (reader.uuid(), reader.uuid()) == ("-vv8_f7_AAAAAAAAAAAAAA", "")
    with pytest.raises(ValueError, match="beyond the end"):
        reader.uuid()
