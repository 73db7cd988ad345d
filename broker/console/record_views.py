"""A record as the console shows it: cut, guessed, and decoded where the broker wrote it itself.

text     UTF-8 without control characters; `json` if it begins like JSON
msgpack  a map or a list of the msgpack format, whole within the cut
avro     Confluent's frame: a zero byte and the number of a schema
binary   anything else, in base64
"""

from __future__ import annotations

import base64
import codecs
import re
from dataclasses import asdict, is_dataclass
from typing import Any, Final

from broker.metadata.topic_rules import GROUP_TOPIC, TRANSACTION_TOPIC
from protocol import group_records, transaction_records
from protocol.errors import DecodeError
from protocol.record_batch import BatchHeader
from protocol.records import Record

CUT_BYTES: Final = 1_024
HEADERS_SHOWN: Final = 20
HEADER_CUT: Final = 256
DECODED_BYTES_MAX: Final = 64 * 1024  # some milliseconds at the worst
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
MARKERS: Final = {0: "abort", 1: "commit", 2: "leader change", 3: "snapshot header"}
AVRO_FRAME: Final = 5
CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def shown_bytes(found: bytes | None, cut: int = CUT_BYTES) -> dict[str, Any] | None:
    """Return a key or value, cut; None for null."""
    if found is None:
        return None
    head = found[:cut]
    shown: dict[str, Any] = {"size": len(found), "cut": len(found) > cut}
    text = _text(head, is_cut=len(found) > cut)
    if text is not None:
        shown["kind"] = "json" if text.lstrip()[:1] in ("{", "[") else "text"
        shown["text"] = text
        return shown
    shown["kind"] = "binary"
    shown["base64"] = base64.b64encode(head).decode()
    if len(found) > AVRO_FRAME and found[0] == 0:
        shown["kind"] = "avro"
        shown["schema"] = int.from_bytes(found[1:AVRO_FRAME], "big")
    elif len(found) <= min(cut, DECODED_BYTES_MAX) and (unpacked := _unpacked(found)) is not None:
        shown["kind"] = "msgpack"
        shown["text"] = unpacked
    return shown


def _text(head: bytes, *, is_cut: bool) -> str | None:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=not is_cut)
    except UnicodeDecodeError:
        return None
    return None if CONTROL.search(text) else text


def _unpacked(found: bytes) -> str | None:
    """Return a msgpack map or list in words; None if it is none."""
    if not found or not (0x80 <= found[0] <= 0x9F or 0xDC <= found[0] <= 0xDF):
        return None
    import msgpack

    try:
        return repr(msgpack.unpackb(found, strict_map_key=False))
    except (ValueError, RecursionError, TypeError, msgpack.UnpackException):
        return None


def view(
    topic: str, partition: int, header: BatchHeader, record: Record, *, is_whole: bool = False
) -> dict[str, Any]:
    """Return one record."""
    cut = (1 << 62) if is_whole else CUT_BYTES
    shown: dict[str, Any] = {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": shown_bytes(record.key, cut),
        "value": shown_bytes(record.value, cut),
        "headers": [
            [name[:HEADER_CUT], shown_bytes(value, HEADER_CUT)]
            for name, value in record.headers[:HEADERS_SHOWN]
        ],
        "header_count": len(record.headers),
        "batch": _batch(header),
    }
    if header.is_control:
        kind = int.from_bytes(record.key[2:4], "big") if record.key else -1
        shown["control"] = MARKERS.get(kind, f"type {kind}")
    elif topic in (GROUP_TOPIC, TRANSACTION_TOPIC):
        shown["decoded"] = _decoded(topic, record)
    return shown


def _batch(header: BatchHeader) -> dict[str, Any]:
    codec = header.codec
    return {
        "base_offset": header.base_offset,
        "records": header.record_count,
        "bytes": header.size,
        "codec": CODECS[codec] if codec < len(CODECS) else str(codec),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "leader_epoch": header.leader_epoch,
        "is_transactional": header.is_transactional,
        "is_log_append_time": header.is_log_append_time,
    }


def _decoded(topic: str, record: Record) -> Any:
    """Return what a record of a coordinator's log says; None if that cannot be read."""
    key, value = record.key, record.value
    if key is None or len(key) + len(value or b"") > DECODED_BYTES_MAX:
        return None
    found: Any
    try:
        if topic == GROUP_TOPIC:
            found = group_records.decode(key, value)
        else:
            found = transaction_records.decode(key, value)
    except DecodeError as error:
        return {"error": str(error)}
    if not isinstance(found, tuple):
        return None
    decoded_key, decoded_value = found
    return {
        "type": type(decoded_key).__name__.removesuffix("Key"),
        "key": _plain(decoded_key),
        "value": _plain(decoded_value),
    }


def _plain(found: Any) -> Any:
    """Return a message as JSON can say it."""
    if is_dataclass(found) and not isinstance(found, type):
        return _plain(asdict(found))
    if isinstance(found, dict):
        return {str(name): _plain(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_plain(one) for one in found]
    if isinstance(found, bytes | bytearray | memoryview):
        return bytes(found).hex()
    return found if isinstance(found, int | str | bool | float) or found is None else str(found)
