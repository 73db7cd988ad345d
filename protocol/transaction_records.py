"""The records of `__transaction_state`, the log of the transaction coordinator.

A record is the state of one transactional id; the newest of an id counts, and one without a value,
a tombstone, removes it. Key and value each begin with an int16: in the key the type of the record,
of which there is one, in the value the version of its body. Kafka writes version 1 since 4.0, which
is version 0 with tagged fields.

Source: TransactionLogKey.json and TransactionLogValue.json, Apache Kafka 4.3.
"""

import struct
from dataclasses import dataclass, field
from typing import Annotated, Final

from protocol.coordinator_records import frame_key, frame_value, read_body, read_type, read_value
from protocol.wire import (
    Buffer,
    Int8,
    Int16,
    Int32,
    Int64,
    Nullable,
    String,
    Tag,
    message,
    message_spec,
    structure,
)

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1


@message(api_key=0, kind="data", versions=(0, 0), flexible_since=None)
@structure
class TransactionKey:
    """A transactional id. Kafka's schema calls it TransactionLogKey."""

    transactional_id: String


@structure
class TransactionPartitions:
    """Partitions of one topic. Kafka's schema calls it PartitionsSchema."""

    topic: String
    partition_ids: list[Int32] = field(default_factory=list)


@message(api_key=0, kind="data", versions=(0, 1), flexible_since=1)
@structure
class TransactionValue:
    """A transactional id's state, times in ms. Kafka's schema calls it TransactionLogValue.

    `transaction_status`: 0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit,
    5 CompleteAbort. `transaction_partitions` is null in Empty and has none in Complete.
    `transaction_start_timestamp_ms` is -1 when nothing was begun. `previous_producer_id` is the id
    before the last epoch of it was used up; while a transaction of that epoch is being ended,
    `next_producer_id` is the one that follows. `client_transaction_version`: 2 if the epoch rises
    with every transaction (KIP-890).
    """

    producer_id: Int64
    producer_epoch: Int16
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: Annotated[list[TransactionPartitions] | None, Nullable()] = field(
        default_factory=list
    )
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    previous_producer_id: Annotated[Int64, Tag(0, since=1)] = NO_PRODUCER_ID
    next_producer_id: Annotated[Int64, Tag(1, since=1)] = NO_PRODUCER_ID
    client_transaction_version: Annotated[Int16, Tag(2, since=1)] = 0
    next_producer_epoch: Annotated[Int16, Tag(3, since=1)] = NO_PRODUCER_EPOCH


_VERSION: Final = message_spec(TransactionValue).version_max
_KEY_TYPE: Final = message_spec(TransactionKey).api_key
_KEY_HEAD: Final = struct.Struct(">hh")  # the type, the length of the id
_NAME_BYTES_MAX: Final = 2**15 - 1
_VALUE_HEAD: Final = struct.Struct(">hqhib")  # the version, then the fields before the partitions
_TIMES: Final = struct.Struct(">qq")
_TAGGED_INT64: Final = struct.Struct(">BBq")  # the tag, the size, the number
_TAGGED_INT16: Final = struct.Struct(">BBh")
_SHORT_MAX: Final = 126  # a length above it takes more than one byte
_IDS: Final = tuple(struct.Struct(f">{count}i") for count in range(_SHORT_MAX + 1))


@dataclass(frozen=True, slots=True)
class UnknownTransactionRecord:
    """A record of an undeclared type."""

    record_type: int


def encode_key(key: TransactionKey) -> bytes:
    """Return the key of a record: the type, then the body."""
    return frame_key(key)


def encode_id(transactional_id: str) -> bytes:
    """As `encode_key`, for the coordinator, which writes several records a transaction."""
    name = transactional_id.encode()
    if len(name) > _NAME_BYTES_MAX:
        return encode_key(TransactionKey(transactional_id=transactional_id))  # raises
    return _KEY_HEAD.pack(_KEY_TYPE, len(name)) + name


def encode_value(value: TransactionValue | None) -> bytes | None:
    """Return the value of a record in the version that Kafka 4.3 writes; None for None."""
    if value is None:
        return None
    try:
        return _encode_short(value)
    except (OverflowError, ValueError, struct.error):
        return frame_value(value, _VERSION)


def _encode_short(value: TransactionValue) -> bytes:
    """As `frame_value`, faster, for a value all of whose lengths take one byte.

    Raises OverflowError, ValueError or struct.error for any other one.
    """
    topics = value.transaction_partitions
    parts = [
        _VALUE_HEAD.pack(
            _VERSION,
            value.producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            value.transaction_status,
        ),
        b"\0" if topics is None else _short(len(topics)),
    ]
    for topic in topics or ():
        name, ids = topic.topic.encode(), topic.partition_ids
        parts += (_short(len(name)), name, _short(len(ids)), _IDS[len(ids)].pack(*ids), b"\0")
    updated_ms = value.transaction_last_update_timestamp_ms
    parts.append(_TIMES.pack(updated_ms, value.transaction_start_timestamp_ms))
    tagged = []
    if value.previous_producer_id != NO_PRODUCER_ID:
        tagged.append(_TAGGED_INT64.pack(0, 8, value.previous_producer_id))
    if value.next_producer_id != NO_PRODUCER_ID:
        tagged.append(_TAGGED_INT64.pack(1, 8, value.next_producer_id))
    if value.client_transaction_version:
        tagged.append(_TAGGED_INT16.pack(2, 2, value.client_transaction_version))
    if value.next_producer_epoch != NO_PRODUCER_EPOCH:
        tagged.append(_TAGGED_INT16.pack(3, 2, value.next_producer_epoch))
    return b"".join((*parts, bytes((len(tagged),)), *tagged))


def _short(length: int) -> bytes:
    """Return a compact length: one more than it is. Raises OverflowError if it is not short."""
    if length > _SHORT_MAX:
        raise OverflowError(f"{length} takes more than one byte")
    return bytes((length + 1,))


def decode(
    key: Buffer, value: Buffer | None
) -> tuple[TransactionKey, TransactionValue | None] | UnknownTransactionRecord:
    """Decode a record into (key, value); the value is None for a tombstone.

    Raises DecodeError for bytes that do not match their type and version, for trailing bytes, and
    for an unknown version of the value.
    """
    record_type = read_type(key, "transaction")
    if record_type != message_spec(TransactionKey).api_key:
        return UnknownTransactionRecord(record_type)
    decoded_key = read_body(TransactionKey, 0, key)
    if value is None:
        return decoded_key, None
    return decoded_key, read_value(TransactionValue, value, "transaction")
