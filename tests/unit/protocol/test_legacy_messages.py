"""Messages of magic 0 and 1: read as other libraries write them, and refused if damaged."""

import contextlib
import struct
import warnings
import zlib

import pytest

from protocol.legacy_messages import _xxh32_short, inner_messages, read_message
from protocol.record_errors import CorruptBatch, DecompressedTooLarge, InvalidRecord, RecordError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

SIZE_MAX = 1 << 20


def written(magic, codec, records, size=1 << 16):
    """Return the messages that kafka-python writes for (timestamp, key, value) records."""
    builder = LegacyRecordBatchBuilder(magic, codec, size)
    for offset, (timestamp, key, value) in enumerate(records):
        builder.append(offset, timestamp, key, value)
    return bytes(builder.build())


def message(
    offset=7, *, magic=1, attributes=0, timestamp=5, key=b"k", value=b"v", crc=None, length=None
):
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    crc = zlib.crc32(body) if crc is None else crc
    return struct.pack(">qiI", offset, 4 + len(body) if length is None else length, crc) + body


RECORDS = [(100, b"a", b"one"), (101, None, b"two" * 50), (102, b"c", None)]


@pytest.mark.parametrize("magic", [0, 1])
def test_each_uncompressed_message_is_a_record(magic):
    data = written(magic, 0, RECORDS)
    position, found = 0, []
    while position < len(data):
        one = read_message(data, position)
        assert one.is_valid
        assert inner_messages(one, size_max=SIZE_MAX) == [one]
        found.append((one.offset, one.timestamp, one.key, one.value))
        position += one.size
    assert found == [
        (n, timestamp if magic else -1, key, value)
        for n, (timestamp, key, value) in enumerate(RECORDS)
    ]


@pytest.mark.parametrize(("magic", "codec"), [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)])
def test_a_wrapper_contains_its_messages(magic, codec):
    data = bytearray(written(magic, codec, RECORDS * 20))
    if magic == 1:
        data[:8] = struct.pack(">q", 1059)  # as a broker does; offsets inside stay relative
    wrapper = read_message(data)
    assert (wrapper.codec, wrapper.size, wrapper.is_valid) == (codec, len(data), True)
    inner = inner_messages(wrapper, size_max=SIZE_MAX)
    base = 1000 if magic else 0
    assert [one.offset for one in inner] == list(range(base, base + 60))
    assert [(one.key, one.value) for one in inner] == [record[1:] for record in RECORDS * 20]
    assert all(one.is_valid for one in inner)


@pytest.mark.parametrize("content_size", [False, True])
def test_the_wrong_header_checksum_of_old_lz4_frames_is_forgiven(content_size):
    import lz4.frame

    frame = bytearray(
        lz4.frame.compress(message(4, magic=0), block_linked=False, store_size=content_size)
    )
    frame[14 if content_size else 6] ^= 0xFF
    (inner,) = inner_messages(
        read_message(message(4, magic=0, attributes=3, value=bytes(frame))), size_max=SIZE_MAX
    )
    assert (inner.offset, inner.value) == (4, b"v")


def test_log_append_time_of_a_wrapper_is_that_of_its_messages():
    inner = message(0, timestamp=1) + message(1, timestamp=2)
    wrapper = message(9, attributes=8 | 1, timestamp=99, value=_gzip(inner))
    found = inner_messages(read_message(wrapper), size_max=SIZE_MAX)
    assert [(one.offset, one.timestamp) for one in found] == [(8, 99), (9, 99)]
    assert read_message(message(magic=0, attributes=8)).is_log_append_time is False


def _gzip(data):
    import gzip

    return gzip.compress(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes"),
        (bytes(25), "25 bytes"),
        (message(magic=2), "magic 2"),
        (message(length=13), "size 13"),
        (message(length=500), "size 500"),
        (message(magic=1, length=21), "size 21"),
        (message()[:18] + bytes(8) + struct.pack(">i", 99) + bytes(6), "99 bytes"),
        (message(key=b"", value=b"") + b"", None),
    ],
)
def test_sizes_that_do_not_fit_are_refused(data, words):
    if words is None:
        assert read_message(data).value == b""
        return
    with pytest.raises(CorruptBatch, match=words):
        read_message(data)


def test_bytes_after_the_value_are_refused():
    data = bytearray(message(value=b"four"))
    data[-8:-4] = struct.pack(">i", 2)
    with pytest.raises(CorruptBatch, match="2 bytes are left"):
        read_message(data)


def test_every_flipped_bit_is_found_or_lies_outside_the_checksum():
    data = message(3, key=b"key", value=b"value")
    for bit in range(16 * 8, len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(RecordError):
            assert not read_message(flipped).is_valid


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, InvalidRecord),
        (b"no gzip", CorruptBatch),
        (_gzip(b""), InvalidRecord),
        (_gzip(b"no message"), CorruptBatch),
        (_gzip(message(magic=0)), InvalidRecord),
        (_gzip(message(attributes=1, value=_gzip(message()))), InvalidRecord),
        (_gzip(message(value=bytes(SIZE_MAX))), DecompressedTooLarge),
    ],
    # A gzip stream contains its creation time, so a name made of its bytes would change every time.
    ids=["nothing", "no-gzip", "empty", "no-message", "magic-0", "wrapped-twice", "a-bomb"],
)
def test_a_wrapper_of_something_else_is_refused(value, error):
    with pytest.raises(error):
        inner_messages(read_message(message(attributes=1, value=value)), size_max=SIZE_MAX)


@pytest.mark.parametrize("data", [b"", b"\x04", b"\x04\x22\x4d\x18\x60\x40", bytes(20)])
def test_an_lz4_wrapper_without_a_frame_is_refused(data):
    with pytest.raises(RecordError):
        inner_messages(read_message(message(magic=0, attributes=3, value=data)), size_max=SIZE_MAX)


def test_the_hash_of_the_lz4_header_is_the_one_of_the_header_that_kafka_writes():
    assert (_xxh32_short(b"\x60\x40") >> 8) & 0xFF == 0x82
    assert _xxh32_short(b"") == 0x02CC5D05
    assert _xxh32_short(b"abc") == 0x32D153FF
    assert _xxh32_short(b"abcd") == 0xA3643705
