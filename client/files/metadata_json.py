"""Metadata records and control records as JSON, with the fields that Kafka's tools print.

It follows Kafka's generated JsonConverter classes: names in camel case, fields in the order of
declaration, only those of the version, tagged ones only if they differ from their default, uuids as
base64url, bytes as base64.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import struct
from typing import Any

from protocol.errors import DecodeError
from protocol.kafka.codec import decode_message
from protocol.kafka.primitives import read_uvarint
from protocol.kafka.schema import Array, Fixed, Struct, WireType, read_layout
from protocol.metadata_records import CONTROL_RECORDS, METADATA_RECORDS, ControlRecordType

FRAME_VERSION = 1
_UUID_FORMAT = "16s"
_CONTROL_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")
# Names of Kafka's whose capitals cannot be derived from snake case.
_CAMEL = {"kraft_version": "kRaftVersion", "kraft_version_feature": "kRaftVersionFeature"}
# Types without a class here: they are named, but not decoded.
_CLOSED = {
    10: "DELEGATION_TOKEN_RECORD",
    11: "USER_SCRAM_CREDENTIAL_RECORD",
    21: "ZK_MIGRATION_STATE_RECORD",
    22: "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    26: "REMOVE_DELEGATION_TOKEN_RECORD",
}
# The text before the JSON of a control record, as in Kafka's tool.
_CONTROL_WORDS = {
    ControlRecordType.LEADER_CHANGE: "LeaderChange: ",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeader ",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooter ",
    ControlRecordType.KRAFT_VERSION: "KRaftVersion ",
    ControlRecordType.KRAFT_VOTERS: "KRaftVoters ",
}


def metadata_object(value: bytes | None) -> dict[str, Any]:
    """Return the metadata record in a value as {"type", "version", "data"}.

    A type that is not decoded here has "apiKey" instead of "data". Raises DecodeError.
    """
    if value is None:
        raise DecodeError("a metadata record without a value")
    view = memoryview(value)
    try:
        frame_version, position = read_uvarint(view, 0)
        record_type, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except IndexError:
        raise DecodeError(
            f"a metadata record of {len(value)} bytes ends within its frame"
        ) from None
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"a metadata record of frame version {frame_version}, expected 1")
    cls = METADATA_RECORDS.get(record_type)
    if cls is None:
        name = _CLOSED.get(record_type, "UNKNOWN_RECORD")
        return {"type": name, "apiKey": record_type, "version": version}
    try:
        record, end = decode_message(cls, version, view, position)
    except ValueError as error:
        raise DecodeError(str(error)) from None
    if end != len(value):
        raise DecodeError(f"{cls.__name__}: {len(value) - end} bytes are left after its body")
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", cls.__name__).upper()
    return {"type": name, "version": version, "data": message_object(record, version)}


def message_object(message: Any, version: int) -> dict[str, Any]:
    """Return a message of `version` as Kafka's JsonConverter does."""
    return _struct_object(message, read_layout(type(message), version))


def _struct_object(value: Any, layout: Struct) -> dict[str, Any]:
    plain = {field.name: field.type for field in layout.fields}
    tagged = {field.name: field.type for field in layout.tagged}
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        member = getattr(value, field.name)
        wire_type = plain.get(field.name)
        if wire_type is None:
            wire_type = tagged.get(field.name)
            if wire_type is None or member == _default(field):
                continue
        found[camel(field.name)] = _plain(member, wire_type)
    return found


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _plain(value: Any, wire_type: WireType) -> Any:
    if value is None:
        return None
    match wire_type:
        case Array():
            return [_plain(one, wire_type.element) for one in value]
        case Struct():
            return _struct_object(value, wire_type)
        case Fixed() if wire_type.format == _UUID_FORMAT:
            return base64.urlsafe_b64encode(value).decode("ascii").rstrip("=")
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    return value


def camel(name: str) -> str:
    """Return a field's name in Kafka's JSON."""
    known = _CAMEL.get(name)
    if known is not None:
        return known
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def compact(value: Any) -> str:
    """Return JSON without spaces, as Kafka writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Return what Kafka's tool appends to a control record's line. Raises DecodeError."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise DecodeError("a control record whose key is not a version and a type")
    _, control_type = _CONTROL_KEY.unpack_from(key)
    body = value or b""
    if control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        if len(body) < _MARKER.size:
            raise DecodeError("a transaction marker without a coordinator epoch")
        _, epoch = _MARKER.unpack_from(body)
        name = ControlRecordType(control_type).name
        return f" endTxnMarker: {name} coordinatorEpoch: {epoch}"
    cls = CONTROL_RECORDS.get(ControlRecordType(control_type)) if control_type in _TYPES else None
    if cls is None:
        return f" controlType: UNKNOWN({control_type})"
    if len(body) < 2:
        raise DecodeError(f"{cls.__name__} without a version")
    version = int.from_bytes(body[:2], "big", signed=True)
    try:
        message, _ = decode_message(cls, version, body)
    except ValueError as error:
        raise DecodeError(str(error)) from None
    words = _CONTROL_WORDS[ControlRecordType(control_type)]
    return f" {words}{compact(message_object(message, version))}"


_TYPES = frozenset(int(one) for one in ControlRecordType)
