"""Records of `__transaction_state` against bytes of Apache Kafka 4.3's own coordinator."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.coordinator_records import frame_value
from protocol.errors import DecodeError, EncodeError
from protocol.kafka.codec import encode_message
from protocol.transaction_records import (
    TransactionKey,
    TransactionPartitions,
    TransactionValue,
    UnknownTransactionRecord,
    decode,
    encode_id,
    encode_key,
    encode_value,
)
from tests.support.message_fields import each_version

ID = TransactionKey(transactional_id="t-0")
ID_HEX = "00000003742d30"


def value(**more: object) -> TransactionValue:
    fields: dict[str, object] = {
        "producer_id": 1000,
        "producer_epoch": 25,
        "transaction_timeout_ms": 60_000,
        "transaction_status": 4,
        "transaction_last_update_timestamp_ms": 1_700_000_000_010,
        "transaction_start_timestamp_ms": 1_700_000_000_000,
    }
    return TransactionValue(**(fields | more))


EMPTY = value(
    transaction_status=0,
    producer_epoch=0,
    transaction_partitions=None,
    transaction_start_timestamp_ms=-1,
)
PARTITIONS = [
    TransactionPartitions(topic="clicks", partition_ids=[3, 4]),
    TransactionPartitions(topic="__consumer_offsets", partition_ids=[27]),
]
ONGOING = value(transaction_status=1, transaction_partitions=PARTITIONS)
EXHAUSTED = value(
    transaction_status=2,
    producer_epoch=32767,
    transaction_partitions=PARTITIONS,
    previous_producer_id=1000,
    next_producer_id=1001,
    client_transaction_version=2,
    next_producer_epoch=0,
)
# Of a running broker: a commit by producer 0 at epoch 25, in the first partition of topic t.
TRIED = TransactionValue(
    producer_id=0,
    producer_epoch=26,
    transaction_timeout_ms=60_000,
    transaction_status=2,
    transaction_partitions=[TransactionPartitions(topic="t", partition_ids=[0])],
    transaction_last_update_timestamp_ms=0x000001A205BB6C49,
    transaction_start_timestamp_ms=0x000001A205BB6C3E,
    previous_producer_id=0,
    client_transaction_version=2,
)

# Value, its version, its bytes.
GOLDEN = [
    (EMPTY, 1, "000100000000000003e800000000ea6000000000018bcfe5680affffffffffffffff00"),
    (EMPTY, 0, "000000000000000003e800000000ea6000ffffffff0000018bcfe5680affffffffffffffff"),
    (
        ONGOING,
        1,
        (
            "000100000000000003e800190000ea60010307636c69636b7303000000030000000400135f5f636f"
            "6e73756d65725f6f666673657473020000001b000000018bcfe5680a0000018bcfe5680000"
        ),
    ),
    (
        ONGOING,
        0,
        (
            "000000000000000003e800190000ea6001000000020006636c69636b730000000200000003000000"
            "0400125f5f636f6e73756d65725f6f666673657473000000010000001b0000018bcfe5680a000001"
            "8bcfe56800"
        ),
    ),
    (value(), 1, "000100000000000003e800190000ea6004010000018bcfe5680a0000018bcfe5680000"),
    (
        value(previous_producer_id=1000, client_transaction_version=2),
        1,
        (
            "000100000000000003e800190000ea6004010000018bcfe5680a0000018bcfe56800020008000000"
            "00000003e802020002"
        ),
    ),
    (
        EXHAUSTED,
        1,
        (
            "000100000000000003e87fff0000ea60020307636c69636b7303000000030000000400135f5f636f"
            "6e73756d65725f6f666673657473020000001b000000018bcfe5680a0000018bcfe5680004000800"
            "000000000003e8010800000000000003e90202000203020000"
        ),
    ),
]
TRIED_HEX = (
    "00010000000000000000001a0000ea6002020274020000000000000001a205bb6c49000001a205bb6c3e"
    "020008000000000000000002020002"
)


def test_a_running_brokers_bytes_are_these() -> None:
    assert encode_value(TRIED) == bytes.fromhex(TRIED_HEX)
    assert decode(encode_key(ID), bytes.fromhex(TRIED_HEX)) == (ID, TRIED)


@pytest.mark.parametrize(("value", "version", "value_hex"), GOLDEN)
def test_kafkas_bytes_are_read(value: TransactionValue, version: int, value_hex: str) -> None:
    assert decode(bytes.fromhex(ID_HEX), bytes.fromhex(value_hex)) == (ID, value)
    assert encode_message(value, version).hex() == value_hex[4:]


@pytest.mark.parametrize(("value", "value_hex"), [row[::2] for row in GOLDEN if row[1] == 1])
def test_written_bytes_and_versions_are_kafkas(value: TransactionValue, value_hex: str) -> None:
    assert encode_key(ID).hex() == ID_HEX
    written = encode_value(value)
    assert written is not None
    assert written.hex() == value_hex


def test_every_version_is_in_the_table() -> None:
    assert set(each_version((TransactionValue,))) == {(type(row[0]), row[1]) for row in GOLDEN}


def test_a_tombstone_has_no_value() -> None:
    assert encode_value(None) is None
    assert decode(bytes.fromhex(ID_HEX), None) == (ID, None)


@pytest.mark.parametrize("record_type", [-1, 1, 2**15 - 1])
def test_other_types_are_skipped(record_type: int) -> None:
    key = record_type.to_bytes(2, "big", signed=True) + b"anything"
    assert decode(key, b"") == UnknownTransactionRecord(record_type)


KEY = bytes.fromhex(ID_HEX)
VALUE = encode_value(ONGOING) or b""
BROKEN = [
    (b"", None, "key of 0 bytes"),
    (b"\x00", None, "key of 1 bytes"),
    (KEY[:-1], None, "TransactionKey"),
    (KEY + b"\x00", None, "1 bytes are left"),
    (KEY, b"", "value of 0 bytes"),
    (KEY, VALUE[:-1], "TransactionValue"),
    (KEY, VALUE + b"\x00", "1 bytes are left"),
    (KEY, b"\x00\x02" + VALUE[2:], "version 2, known are 0 to 1"),
    (KEY, b"\xff\xff" + VALUE[2:], "version -1, known are 0 to 1"),
]


@pytest.mark.parametrize(("key", "value", "reason"), BROKEN)
def test_an_invalid_record_is_refused(key: bytes, value: bytes | None, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode(key, value)


@pytest.mark.parametrize("name", ["", "t-0", "\u00e9\u20ac\U0001f600", "x" * 32_767])
def test_the_key_of_an_id_is_that_of_the_schema(name: str) -> None:
    assert encode_id(name) == encode_key(TransactionKey(transactional_id=name))


def test_an_id_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError):
        encode_id("\u00e9" * 16_384)


_NAMES = st.text(max_size=4) | st.sampled_from(("t" * 126, "t" * 127, "é" * 63, "é" * 64))
_IDS = st.lists(st.integers(0, 2**31 - 1), max_size=3) | st.sampled_from(([1] * 126, [1] * 127))
_TOPICS = st.lists(st.tuples(_NAMES, _IDS), max_size=3) | st.sampled_from(
    ([("t", [1])] * 126, [("t", [1])] * 127)
)


@given(
    st.none() | _TOPICS,
    st.sampled_from((-1, 0, 2**63 - 1)),
    st.sampled_from((-1, 0, 5)),
    st.sampled_from((0, 1, 2)),
    st.sampled_from((-1, 0, 32_767)),
)
def test_the_fast_way_writes_the_same_bytes(
    topics: Sequence[tuple[str, list[int]]] | None,
    previous: int,
    following: int,
    version: int,
    next_epoch: int,
) -> None:
    partitions = (
        None
        if topics is None
        else [TransactionPartitions(topic=topic, partition_ids=ids) for topic, ids in topics]
    )
    made = value(
        transaction_partitions=partitions,
        previous_producer_id=previous,
        next_producer_id=following,
        client_transaction_version=version,
        next_producer_epoch=next_epoch,
    )
    assert encode_value(made) == frame_value(made, 1)


def test_a_number_out_of_range_is_refused_as_ever() -> None:
    with pytest.raises(EncodeError):
        encode_value(value(producer_epoch=2**15))
