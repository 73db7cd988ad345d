"""A metadata record and its bytes: the frame around every record of the metadata log.

    uvarint  frame version   1                       (Kafka: AbstractApiMessageSerde, KIP-631)
    uvarint  record type     the record's api key    (Kafka: MetadataRecordType)
    uvarint  record version
             body            flexible-version message, as on the wire

Uvarints are unsigned, 7 bits a byte, low bits first. The frame is the value of a record in a
batch of `__cluster_metadata-0`; keys are null. `RECORDS` names the types that the image applies,
with the version that Kafka 4.3 writes at metadata.version 30; we write the same. Records of any
other type stay in the log and in snapshots without effect, as `UnknownRecord`. A newer version of a
type that we apply is an error, because skipping it would lose topics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from protocol.acl_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from protocol.errors import DecodeError
from protocol.kafka.codec import decode_message, encode_message
from protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from protocol.quota_records import ClientQuotaRecord
from protocol.scram_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from protocol.wire import message_spec

FRAME_VERSION: Final = 1

# Types that change the image or bracket a transaction, and the version to write.
RECORDS: Final[dict[type[Any], int]] = {
    RegisterBrokerRecord: 4,  # read only: the broker epoch of Kafka's last run
    TopicRecord: 0,
    PartitionRecord: 2,
    ConfigRecord: 0,
    PartitionChangeRecord: 2,
    RemoveTopicRecord: 0,
    FeatureLevelRecord: 0,
    ClientQuotaRecord: 0,
    ProducerIdsRecord: 0,
    AccessControlEntryRecord: 0,
    RemoveAccessControlEntryRecord: 0,
    ClearElrRecord: 0,  # read only
    UserScramCredentialRecord: 0,
    RemoveUserScramCredentialRecord: 0,
    BeginTransactionRecord: 0,
    EndTransactionRecord: 0,
    AbortTransactionRecord: 0,
}

_BY_TYPE: Final[dict[int, type[Any]]] = {message_spec(cls).api_key: cls for cls in RECORDS}
assert len(_BY_TYPE) == len(RECORDS)

_UVARINT_BYTES_MAX = 5


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record that this broker keeps and does not interpret; `frame` is all of it."""

    record_type: int
    version: int
    frame: bytes = field(default=b"", compare=False, repr=False)


def encode_record(record: Any) -> bytes:
    """Return the frame of `record`, one of the types in `RECORDS`."""
    version = RECORDS[type(record)]
    frame = bytearray()
    for number in (FRAME_VERSION, message_spec(type(record)).api_key, version):
        _write_uvarint(frame, number)
    return bytes(frame) + encode_message(record, version)


def decode_record(frame: bytes) -> Any:
    """Return the record in `frame`, or an UnknownRecord for a type without a meaning here.

    Raises DecodeError for another frame version, a record version newer than we know, a body
    that is not what its type says, or bytes behind it.
    """
    frame_version, position = _read_uvarint(frame, 0)
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"metadata record with frame version {frame_version}, expected 1")
    record_type, position = _read_uvarint(frame, position)
    version, position = _read_uvarint(frame, position)
    cls = _BY_TYPE.get(record_type)
    if cls is None:
        return UnknownRecord(record_type, version, bytes(frame))
    spec = message_spec(cls)
    oldest, newest = spec.version_min, spec.version_max
    if not oldest <= version <= newest:
        raise DecodeError(
            f"{cls.__name__} of version {version}: versions {oldest} to {newest} are known here; "
            "a newer Kafka wrote it"
        )
    record, end = decode_message(cls, version, frame, position)
    if end != len(frame):
        raise DecodeError(f"{cls.__name__}: {len(frame) - end} bytes are left behind its body")
    return record


def _write_uvarint(frame: bytearray, number: int) -> None:
    while number > 0x7F:
        frame.append(number & 0x7F | 0x80)
        number >>= 7
    frame.append(number)


def _read_uvarint(frame: bytes, position: int) -> tuple[int, int]:
    number = 0
    for index in range(_UVARINT_BYTES_MAX):
        if position + index >= len(frame):
            raise DecodeError(f"metadata record of {len(frame)} bytes ends inside its frame")
        byte = frame[position + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise DecodeError(f"number at position {position} is longer than {_UVARINT_BYTES_MAX} bytes")
