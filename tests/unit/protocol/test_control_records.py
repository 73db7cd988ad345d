"""Transaction markers, against bytes of Apache Kafka 4.3's own library."""

import pytest

from protocol.control_records import MARKER_BYTES, Marker, build_marker, read_marker
from protocol.record_batch import HEADER_SIZE, pack_header, read_header, verify, write_crc
from protocol.record_errors import RecordError
from protocol.records import Record, build

NOW_MS = 1_700_000_000_000
ABORT = Marker(producer_id=1000, producer_epoch=26, is_commit=False, coordinator_epoch=7)
COMMIT = ABORT._replace(is_commit=True)
GOLDEN = [
    (
        ABORT,
        (
            "0000000000000000000000420000000002cd0aa5170030000000000000018bcfe568000000018bcf"
            "e5680000000000000003e8001affffffff000000012000000008000000000c00000000000700"
        ),
    ),
    (
        COMMIT,
        (
            "00000000000000000000004200000000023934735f0030000000000000018bcfe568000000018bcf"
            "e5680000000000000003e8001affffffff000000012000000008000000010c00000000000700"
        ),
    ),
]
KEY = b"\x00\x00\x00\x01"
VALUE = b"\x00\x00\x00\x00\x00\x07"


@pytest.mark.parametrize(("marker", "golden"), GOLDEN)
def test_bytes_are_kafkas(marker: Marker, golden: str) -> None:
    batch = build_marker(marker, NOW_MS)
    assert batch.hex() == golden
    assert read_marker(batch) == marker
    assert len(batch) == MARKER_BYTES
    verify(batch)


def test_the_record_is_that_of_a_running_broker() -> None:
    # Apache Kafka 4.3: a commit by a coordinator that was never moved.
    record = bytes.fromhex("2000000008000000010c00000000000000")
    batch = build_marker(Marker(0, 1, is_commit=True, coordinator_epoch=0), NOW_MS)
    assert batch[HEADER_SIZE:] == record


@pytest.mark.parametrize("epoch", [0, 32767])
def test_any_epoch_and_coordinator_epoch_survive(epoch: int) -> None:
    marker = Marker(2**63 - 1, epoch, is_commit=True, coordinator_epoch=2**31 - 1)
    assert read_marker(build_marker(marker, 0)) == marker


def batch_of(key: bytes | None, value: bytes | None, **flags: bool) -> bytearray:
    return build([Record(0, NOW_MS, key, value)], producer_id=1000, producer_epoch=26, **flags)


BOTH = {"transactional": True, "control": True}
NO_MARKERS = [
    batch_of(KEY, VALUE),
    batch_of(KEY, VALUE, transactional=True),
    batch_of(KEY, VALUE, control=True),
    batch_of(b"\x00\x00\x00\x02", VALUE, **BOTH),
    batch_of(b"\x00\x00\x00\x06", VALUE, **BOTH),
    batch_of(b"\x00\x00\xff\xff", VALUE, **BOTH),
    batch_of(KEY[:3], VALUE, **BOTH),
    batch_of(None, VALUE, **BOTH),
    batch_of(KEY, VALUE[:5], **BOTH),
    batch_of(KEY, None, **BOTH),
]


@pytest.mark.parametrize("batch", NO_MARKERS)
def test_another_batch_is_no_marker(batch: bytearray) -> None:
    assert read_marker(batch) is None


def test_an_emptied_batch_is_no_marker() -> None:
    header = read_header(build_marker(COMMIT, NOW_MS))
    emptied = bytearray(pack_header(header._replace(batch_length=HEADER_SIZE - 12, record_count=0)))
    write_crc(emptied, 0)
    assert read_marker(emptied) is None


def test_later_versions_are_read_as_the_known_ones() -> None:
    batch = batch_of(b"\x00\x01\x00\x00more", b"\x00\x02\x00\x00\x00\x07more", **BOTH)
    assert read_marker(batch) == ABORT


def test_damage_is_told_as_such() -> None:
    batch = build_marker(COMMIT, NOW_MS)
    for size in range(len(batch)):
        with pytest.raises(RecordError):
            read_marker(batch[:size])
    batch[HEADER_SIZE] = 0x7E
    with pytest.raises(RecordError):
        read_marker(batch)
