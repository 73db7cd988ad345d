"""The frame of records in coordinators' logs; the bytes of each type are tested beside its type."""

import pytest

from protocol.coordinator_records import (
    frame_key,
    frame_value,
    read_body,
    read_type,
    read_value,
)
from protocol.errors import DecodeError
from protocol.transaction_records import TransactionKey, TransactionValue


def value():
    return TransactionValue(
        producer_id=7,
        producer_epoch=1,
        transaction_timeout_ms=60_000,
        transaction_status=0,
        transaction_last_update_timestamp_ms=1_000,
        transaction_start_timestamp_ms=-1,
    )


def test_what_is_framed_is_read_back():
    framed = frame_key(TransactionKey(transactional_id="a"))
    assert framed[:2] == b"\x00\x00"
    assert read_type(framed, "transaction") == 0
    assert read_body(TransactionKey, 0, framed) == TransactionKey(transactional_id="a")
    for version in (0, 1):
        framed = frame_value(value(), version)
        assert framed[:2] == bytes([0, version])
        assert read_value(TransactionValue, framed, "transaction").producer_id == 7


def test_short_ones_trailing_bytes_and_unknown_versions_are_refused():
    with pytest.raises(DecodeError, match="a group record's key of 1 bytes: its int16 takes 2"):
        read_type(b"\x00", "group")
    with pytest.raises(DecodeError, match="a group record's value of 0 bytes"):
        read_value(TransactionValue, b"", "group")
    with pytest.raises(DecodeError, match="TransactionKey: 1 bytes are left after its body"):
        read_body(TransactionKey, 0, frame_key(TransactionKey(transactional_id="a")) + b"x")
    with pytest.raises(DecodeError, match="has version 9, known are 0 to 1: a newer Kafka wrote"):
        read_value(TransactionValue, b"\x00\x09", "transaction")
