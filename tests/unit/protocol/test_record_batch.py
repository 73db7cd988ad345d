"""The header of a batch: its layout against kafka-python, and an input that fails each check."""

import struct
import warnings

import pytest

from protocol.record_batch import (
    HEADER_SIZE,
    BatchHeader,
    batches,
    check_produced,
    check_structure,
    pack_header,
    read_header,
    stamp,
    stamp_append_time,
    verified_run,
    verify,
    verify_produced,
    write_crc,
)
from protocol.record_errors import (
    CorruptBatch,
    InvalidRecord,
    RecordBatchTooLarge,
    RecordError,
    UnsupportedCompression,
)
from protocol.records import Record, build
from tests.support.raw_batches import batch, record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its schemas use a deprecated interface
    from kafka.record.default_records import DefaultRecordBatch

SIZE_MAX = 10_000
GOOD = batch([b"one", b"two", b"three"], timestamp=1_700_000_000_000)


def test_the_header_is_read_as_by_kafka_python():
    raw = batch(
        [b"a", b"b"],
        base_offset=368_769,
        leader_epoch=7,
        attributes=0x10,
        timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_009,
        producer_id=4_000_000_001,
        producer_epoch=12,
        base_sequence=2**31 - 1,
    )
    header, theirs = verify(raw), DefaultRecordBatch(raw)
    assert theirs.validate_crc()
    assert header.base_offset == theirs.base_offset
    assert header.size == theirs.size_in_bytes == len(raw)
    assert header.leader_epoch == theirs.leader_epoch
    assert header.magic == theirs.magic
    assert header.crc == theirs.crc
    assert header.attributes == theirs.attributes
    assert header.last_offset == theirs.last_offset
    assert header.next_offset == theirs.next_offset
    assert header.base_timestamp == theirs.first_timestamp
    assert header.max_timestamp == theirs.max_timestamp
    assert header.producer_id == theirs.producer_id
    assert header.producer_epoch == theirs.producer_epoch
    assert header.base_sequence == theirs.base_sequence
    assert header.last_sequence == theirs.last_sequence == 0  # 2^31 - 1 is followed by 0
    assert header.record_count == theirs.records_count
    assert header.is_transactional
    assert pack_header(header) == raw[:HEADER_SIZE]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (0x00, (0, False, False, False, False)),
        (0x04, (4, False, False, False, False)),
        (0x07, (7, False, False, False, False)),
        (0x08, (0, True, False, False, False)),
        (0x10, (0, False, True, False, False)),
        (0x20, (0, False, False, True, False)),
        (0x40, (0, False, False, False, True)),
        (0x7B, (3, True, True, True, True)),
        (-0x80, (0, False, False, False, False)),
    ],
)
def test_attributes(attributes, expected):
    header = read_header(batch(attributes=attributes))
    assert expected == (
        header.codec,
        header.is_log_append_time,
        header.is_transactional,
        header.is_control,
        header.has_delete_horizon,
    )


@pytest.mark.parametrize(
    ("base_sequence", "count", "last_sequence"),
    [(-1, 3, -1), (0, 1, 0), (5, 3, 7), (2**31 - 1, 1, 2**31 - 1), (2**31 - 1, 3, 1)],
)
def test_last_sequence_wraps_around_after_the_highest(base_sequence, count, last_sequence):
    header = read_header(batch([b""] * count, base_sequence=base_sequence))
    assert header.last_sequence == last_sequence


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"", CorruptBatch),
        (GOOD[:-1], CorruptBatch),
        (GOOD[:HEADER_SIZE], CorruptBatch),
        (GOOD[: HEADER_SIZE - 1], CorruptBatch),
        (bytes(100), CorruptBatch),
        (b"\xff" * 100, CorruptBatch),
        (batch(batch_length=-1), CorruptBatch),
        (batch(batch_length=13), CorruptBatch),
        (batch(batch_length=48), CorruptBatch),
        (batch(batch_length=2**31 - 1), CorruptBatch),
        (batch(magic=0), InvalidRecord),
        (batch(magic=1), InvalidRecord),
        (batch(magic=3), CorruptBatch),
        (batch(magic=-1), CorruptBatch),
        (batch(last_offset_delta=-1), CorruptBatch),
        (batch(record_count=-1), CorruptBatch),
        (batch(crc=0), CorruptBatch),
        (GOOD[:30] + bytes([GOOD[30] ^ 1]) + GOOD[31:], CorruptBatch),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 0x80]), CorruptBatch),
    ],
)
def test_verify_refuses(raw, error):
    with pytest.raises(error):
        verify(raw)


def test_verify_accepts_batches_that_only_a_log_may_hold():
    """Batches emptied by compaction, control batches, and offsets and epochs set by a broker."""
    emptied = batch([], last_offset_delta=4, record_count=0, base_offset=99, leader_epoch=3)
    assert verify(emptied).record_count == 0
    assert verify(batch(attributes=0x20)).is_control


def test_every_flipped_bit_is_found_or_lies_outside_the_crc():
    for bit in range(len(GOOD) * 8):
        position = bit // 8
        damaged = bytearray(GOOD)
        damaged[position] ^= 1 << (bit % 8)
        if position < 8 or 12 <= position < 16:  # base offset and leader epoch
            assert verify(damaged)
        else:
            with pytest.raises(RecordError):
                verify(damaged)


def test_errors_carry_the_place_and_the_reason():
    raw = b"junk" + batch(crc=1)
    with pytest.raises(
        CorruptBatch, match=r"position 4: CRC-32C 0x[0-9a-f]{8}, .* 0x00000001"
    ) as e:
        verify(raw, 4)
    assert e.value.position == 4
    with pytest.raises(CorruptBatch, match="3 bytes are left, a header takes 61"):
        read_header(b"abc")


# Apache Kafka 4.3's answers to the same bytes in Produce 8: 2 CorruptBatch, 87 InvalidRecord,
# 10 RecordBatchTooLarge. A comment marks each line where our answer differs.
KAFKA_ANSWERS = [
    (b"", 87),
    (b"x" * 10, 87),
    (bytes(16), 2),
    (bytes(61), 2),
    (bytes(100), 2),
    (GOOD[:-1], 87),
    (GOOD[:40], 87),
    (GOOD[:17], 87),
    (GOOD + GOOD, 87),
    (GOOD + b"x", 87),  # Kafka: 0, after it cut off the tail
    (GOOD + bytes(17), 87),  # Kafka: 2
    (batch(crc=1), 2),
    (batch(batch_length=2**31 - 1), 87),  # Kafka: -1, its arithmetic overflows
    (batch(batch_length=-1), 2),
    (batch(batch_length=13), 2),
    (batch(batch_length=14), 2),
    (batch(batch_length=48), 2),
    (batch(magic=0), 87),
    (batch(magic=1), 87),
    (batch(magic=0, batch_length=15), 87),
    (batch(magic=3), 2),
    (batch(magic=-1), 2),
    (batch(base_offset=7), 87),
    (batch(base_offset=-1), 87),
    (batch(record_count=0), 87),
    (batch(record_count=-1), 87),
    (batch(record_count=2), 87),
    (batch(last_offset_delta=1), 87),
    (batch(last_offset_delta=-1), 87),
    (batch(last_offset_delta=-5), 87),
    (batch([], last_offset_delta=-1, record_count=0), 87),
    (batch(attributes=0x20), 87),
    (batch(producer_id=1000, producer_epoch=0), 87),
    (batch([b"x" * SIZE_MAX]), 10),
    (batch([b"x" * SIZE_MAX], crc=1), 10),
    (batch(crc=1, record_count=0), 2),
    (batch(attributes=5), 76),  # Kafka: -1, an exception it does not expect
    (batch(attributes=6), 76),
    (batch(attributes=7), 76),
    (GOOD, 0),
    (batch(producer_id=1000, producer_epoch=0, base_sequence=0), 0),
    (batch(producer_id=-2, base_sequence=0), 0),
    (batch(base_sequence=5), 0),
    (batch(attributes=0x08), 0),
    (batch(attributes=0x40), 0),
    (batch(leader_epoch=99), 0),
    (batch(timestamp=-1), 0),
]
CODES = {CorruptBatch: 2, InvalidRecord: 87, RecordBatchTooLarge: 10, UnsupportedCompression: 76}


@pytest.mark.parametrize(("raw", "code"), KAFKA_ANSWERS)
@pytest.mark.parametrize("kind", [bytes, bytearray, lambda raw: memoryview(bytearray(raw))])
def test_produced_batches_get_kafkas_answer(raw, code, kind):
    found = 0
    try:
        assert verify_produced(kind(raw), SIZE_MAX) == read_header(raw)
    except RecordError as error:
        found = CODES[type(error)]
    assert found == code


def test_a_batch_of_just_the_limit_is_taken():
    assert verify_produced(GOOD, len(GOOD)).size == len(GOOD)
    with pytest.raises(RecordBatchTooLarge) as error:
        verify_produced(GOOD, len(GOOD) - 1)
    assert (error.value.size, error.value.size_max) == (len(GOOD), len(GOOD) - 1)


def test_check_produced_agrees_with_verify_produced():
    """check_produced, for callers that have already verified, refuses the same batches."""
    for raw, code in KAFKA_ANSWERS:
        try:
            header = verify(raw)
        except RecordError:
            continue
        if header.size != len(raw):
            continue
        found = 0
        try:
            check_produced(header, SIZE_MAX)
        except RecordError as error:
            found = CODES[type(error)]
        assert found == code, header


def test_check_structure_with_a_size_beyond_the_end():
    header = read_header(GOOD)
    check_structure(header, len(GOOD))
    with pytest.raises(CorruptBatch, match=f"size {len(GOOD)}, but only {len(GOOD) - 1} bytes"):
        check_structure(header, len(GOOD) - 1)


def test_batches_walks_to_the_last_whole_batch():
    raw = GOOD + batch([b"x"]) + GOOD
    starts = [0, len(GOOD), len(raw) - len(GOOD)]
    assert [position for position, _ in batches(raw)] == starts
    assert [position for position, _ in batches(raw, starts[1])] == starts[1:]
    for cut in (1, len(GOOD) - 61, len(GOOD) - 60, len(GOOD) - 1):
        assert [position for position, _ in batches(raw[:-cut])] == starts[:2]
    assert list(batches(b"")) == []
    assert all(isinstance(header, BatchHeader) for _, header in batches(raw))


@pytest.mark.parametrize("length", [0, -1, 48, -(2**31)])
def test_batches_always_advances(length):
    walk = batches(GOOD + batch(batch_length=length))
    assert next(walk)[0] == 0
    with pytest.raises(CorruptBatch) as error:
        next(walk)
    assert error.value.position == len(GOOD)


def test_stamp_changes_offset_and_epoch_and_leaves_the_crc_right():
    frame = bytearray(b"head" + GOOD + b"tail")
    stamp(memoryview(frame), 4, 2**62, 9)
    header = verify(frame, 4)
    assert (header.base_offset, header.leader_epoch) == (2**62, 9)
    assert header._replace(base_offset=0, leader_epoch=-1) == read_header(GOOD)
    assert frame[:4] == b"head"
    assert frame[4 + len(GOOD) :] == b"tail"


def test_stamp_append_time_works_as_in_kafka():
    frame = bytearray(b"head" + GOOD)
    stamp_append_time(frame, 4, 1_800_000_000_000)
    header = verify(frame, 4)
    before = read_header(GOOD)
    assert header == before._replace(
        attributes=0x08, max_timestamp=1_800_000_000_000, crc=header.crc
    )
    theirs = DefaultRecordBatch(bytes(frame[4:]))
    assert theirs.validate_crc()
    assert {taken.timestamp for taken in theirs} == {1_800_000_000_000}


def test_write_crc_repairs_a_batch():
    frame = bytearray(batch([b"x"], crc=0))
    write_crc(frame, 0)
    assert verify(frame)


def test_a_record_is_not_opened_on_the_data_path():
    damaged_inside = batch([b"a"], body=record(b"a", size=1000))
    assert verify_produced(damaged_inside, SIZE_MAX).record_count == 1


def test_numbers_are_big_endian_and_at_their_places():
    raw = bytearray(GOOD)
    struct.pack_into(">i", raw, 57, 77)
    assert read_header(raw).record_count == 77


RUN = [build([Record(0, 5, None, b"v" * 9)] * n, base_offset=n * (n - 1) // 2) for n in (1, 2, 3)]


def _rebased(one: bytearray, base_offset: int) -> bytearray:
    made = bytearray(one)
    made[:8] = base_offset.to_bytes(8, "big", signed=True)
    return made


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"".join(RUN), 3),
        (b"".join(RUN)[:-1], 2),
        (b"", 0),
        (bytes(RUN[0]) + bytes(60), 1),
        (bytes(RUN[0]) + bytes(200), 1),
        (bytes(RUN[0] + _rebased(RUN[1], 2) + RUN[2]), 1),
        (bytes(RUN[0] + _rebased(RUN[1], 0) + RUN[2]), 1),
        (bytes(_rebased(RUN[0], 4)), 0),
    ],
    ids=["all", "torn", "none", "short end", "zeros", "gap", "overlap", "begins elsewhere"],
)
def test_a_run_ends_at_the_first_batch_that_is_not_whole_and_dense(data: bytes, count: int) -> None:
    headers = verified_run(memoryview(data), 0, 0)
    assert [header.base_offset for header in headers] == [0, 1, 3][:count]
    assert headers == [read_header(one) for one in RUN[:count]]


@pytest.mark.parametrize("position", [8, 11, 16, 17, 21, 23, 26, 57, 60, 61])
def test_a_run_ends_at_a_flipped_bit(position: int) -> None:
    damaged = bytearray(RUN[1])
    damaged[position] ^= 0x80
    assert len(verified_run(memoryview(RUN[0] + damaged + RUN[2]), 0, 0)) == 1
