"""Batches encoded and decoded, and batches damaged under a valid CRC: a result or a RecordError."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch import HEADER_SIZE, verify_produced, write_crc
from protocol.record_errors import RecordError
from protocol.record_walks import offset_of_timestamp
from protocol.records import Record, batches, build, read_records, verify
from tests.support.thorough import examples

SIZE_MAX = 1 << 20

blobs = st.one_of(st.none(), st.binary(max_size=200))
headers = st.lists(st.tuples(st.text(max_size=10), blobs), max_size=3).map(tuple)
some_records = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(-(2**63), 2**63 - 1),
        key=blobs,
        value=blobs,
        headers=headers,
    ),
    min_size=1,
    max_size=8,
)
codecs = st.integers(0, 4)


@given(some_records, codecs, st.integers(0, 2**62))
def test_a_built_batch_reads_back(taken, codec, base_offset):
    raw = build(taken, codec=codec, base_offset=base_offset)
    header = verify(raw)
    found = list(read_records(raw, size_max=SIZE_MAX))
    assert [one[1:] for one in found] == [one[1:] for one in taken]
    assert [one.offset for one in found] == list(range(base_offset, header.next_offset))
    assert header.max_timestamp == max(one.timestamp for one in taken)


@given(some_records, codecs, st.integers(-(2**63), 2**63 - 1))
def test_offset_of_timestamp_agrees_with_a_scan(taken, codec, timestamp):
    raw = build(taken, codec=codec)
    later = [(n, one.timestamp) for n, one in enumerate(taken) if one.timestamp >= timestamp]
    assert offset_of_timestamp(raw, timestamp, SIZE_MAX) == (later[0] if later else None)


def open_fully(raw: bytes | bytearray) -> None:
    """Do everything that the broker ever does to bytes of a client."""
    with contextlib.suppress(RecordError):
        verify_produced(raw, SIZE_MAX)
    with contextlib.suppress(RecordError):
        verify(raw)
    with contextlib.suppress(RecordError):
        offset_of_timestamp(raw, 0, SIZE_MAX)
    with contextlib.suppress(RecordError):
        for position, header in batches(raw):
            assert position + header.size <= len(raw)
    with contextlib.suppress(RecordError):
        for one in read_records(raw, size_max=SIZE_MAX):
            assert isinstance(one, Record)


edits = st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=6)


@settings(max_examples=examples(400))
@given(some_records, codecs, edits, st.booleans())
def test_damage_behind_the_crc_is_a_record_error_or_harmless(taken, codec, places, in_records):
    """Change bytes and correct the CRC, so that the damage passes the check."""
    raw = build(taken, codec=codec)
    for place, byte in places:
        start = HEADER_SIZE if in_records else 12
        raw[start + place % (len(raw) - start)] = byte
    write_crc(raw, 0)
    open_fully(raw)


@given(some_records, codecs, st.integers(0), st.integers(0))
def test_cut_and_doubled_bytes_behind_the_crc(taken, codec, first, second):
    whole = bytes(build(taken, codec=codec))
    start = HEADER_SIZE + first % (len(whole) - HEADER_SIZE)
    end = start + second % (len(whole) - start + 1)
    for body in (whole[:start] + whole[end:], whole[:end] + whole[start:]):
        raw = bytearray(body)
        raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
        write_crc(raw, 0)
        open_fully(raw)


@settings(max_examples=examples(300))
@given(st.binary(max_size=300))
def test_any_bytes(raw):
    open_fully(raw)
    body = bytearray(build([Record(0, 0, None, b"")])[:HEADER_SIZE]) + raw
    body[8:12] = (len(body) - 12).to_bytes(4, "big")
    write_crc(body, 0)
    open_fully(body)
