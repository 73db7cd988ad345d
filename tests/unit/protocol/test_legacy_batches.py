"""Messages of magic 0 and 1 as batches: their headers, and bytes that are no message."""

import pytest

from protocol.legacy_batches import (
    LegacyHeader,
    batches_any,
    is_legacy,
    read_legacy_header,
    read_records_any,
    verify_any,
)
from protocol.record_errors import CorruptBatch, RecordError
from tests.support.old_messages import GZIP, LZ4, SNAPPY, message, new_batch, segments, wrapper

CASES = [
    ("magic 0", message(7, b"v", magic=0), (7, 7, 1, -1)),
    ("magic 1", message(7, b"v", timestamp=50), (7, 7, 1, 50)),
    ("no value", message(7, None, timestamp=50), (7, 7, 1, 50)),
    ("wrapper of magic 0", wrapper(5, [-1] * 3, magic=0, codec=GZIP), (5, 7, 3, -1)),
    ("wrapper of magic 1", wrapper(5, [9, 50, 10], magic=1, codec=SNAPPY), (5, 7, 3, 50)),
    ("append time", wrapper(5, [9, 8, 7], magic=1, codec=LZ4, append_time=60), (5, 7, 3, 60)),
    ("not to be unpacked", message(7, b"junk", timestamp=50, attributes=GZIP), (7, 7, 1, 50)),
]


@pytest.mark.parametrize(("name", "data", "wanted"), CASES, ids=[case[0] for case in CASES])
def test_a_message_has_the_header_of_a_batch(name, data, wanted):
    behind = b"before" + data + b"behind"
    assert is_legacy(behind, 6)
    for header in (read_legacy_header(behind, 6), verify_any(behind, 6)):
        assert isinstance(header, LegacyHeader)
        assert header.size == len(data)
        assert (
            header.base_offset, header.last_offset, header.record_count, header.max_timestamp
        ) == wanted  # fmt: skip
        assert (header.leader_epoch, header.producer_id, header.is_control) == (-1, -1, False)


def test_every_flipped_bit_that_the_checksum_covers_is_found():
    data = message(7, b"value", key=b"key", timestamp=50)
    for bit in range(12 * 8, len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError):
            verify_any(flipped)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_with_a_damaged_magic_is_no_message(magic):
    rotten = bytearray(new_batch(3, [10, 11]))
    rotten[16] = magic
    assert is_legacy(rotten)
    for read in (verify_any, read_legacy_header):
        with pytest.raises(CorruptBatch):
            read(rotten)


def test_all_formats_are_read_and_a_partial_end_is_skipped():
    parts = segments(1_000)[0]
    data = b"".join(parts)
    for end in (len(data), len(data) - 1, len(data) - len(parts[-1]) + 20):
        found = list(batches_any(data[:end]))
        whole = len(parts) - (end < len(data))
        assert [header.size for _, header in found] == [len(part) for part in parts[:whole]]
    records = [
        record
        for position, _ in batches_any(data)
        for record in read_records_any(data, position, size_max=1 << 20)
    ]
    assert [record.offset for record in records] == list(range(11))
    assert [record.timestamp for record in records[5:9]] == [1_005, 1_006, 1_009, 1_007]
    with pytest.raises(CorruptBatch):
        list(batches_any(b"\0" * 40))
