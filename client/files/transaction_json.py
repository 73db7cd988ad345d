"""Records of `__transaction_state` as JSON, with the fields that Kafka's tool prints.

That is DumpLogSegments with --transaction-log-decoder: a key and a value each as type or version
and data, `<DELETE>` for the value of a tombstone. Fields are in the order of Kafka's schema.
"""

from __future__ import annotations

from typing import Any, Final

from client.files.metadata_json import compact, message_object
from protocol.errors import DecodeError
from protocol.records import Record
from protocol.transaction_records import UnknownTransactionRecord, decode

KEY_VERSION: Final = 0
_VALUE_ORDER: Final = (
    "producerId", "previousProducerId", "nextProducerId", "producerEpoch", "nextProducerEpoch",
    "transactionTimeoutMs", "transactionStatus", "transactionPartitions",
    "transactionLastUpdateTimestampMs", "transactionStartTimestampMs", "clientTransactionVersion",
)  # fmt: skip


def transaction_object(record: Record) -> dict[str, Any]:
    """Return {"key": …, "value": …}; the value of a tombstone is None.

    An unknown type of record has none but {"type": number}. Raises DecodeError.
    """
    if record.key is None:
        raise DecodeError("a transaction record without a key")
    decoded = decode(record.key, record.value)
    if isinstance(decoded, UnknownTransactionRecord):
        return {"type": decoded.record_type}
    key, value = decoded
    found = None
    if value is not None:
        version = int.from_bytes((record.value or b"")[:2], "big")
        fields = message_object(value, version)
        data: dict[str, Any] = {name: fields[name] for name in _VALUE_ORDER if name in fields}
        found = {"version": str(version), "data": data}
    record_type = int.from_bytes(record.key[:2], "big")
    key_data = message_object(key, KEY_VERSION)
    return {"key": {"type": str(record_type), "data": key_data}, "value": found}


def transaction_words(record: Record) -> str:
    """Return what Kafka's tool appends to a record's line. Raises DecodeError."""
    found = transaction_object(record)
    if "type" in found:
        return f" key: Unknown record type {found['type']} at offset {record.offset}, skipping."
    value = "<DELETE>" if found["value"] is None else compact(found["value"])
    return f" key: {compact(found['key'])} payload: {value}"
