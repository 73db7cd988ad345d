"""A `.log` file or a metadata snapshot as lines: Kafka's form, the short form, or JSON.

Kafka's form is what its DumpLogSegments prints with --deep-iteration and --print-data-log: a line
per batch, and a line that begins with `|` per record. The short form is that of older versions of
the tool: a line per record, none per batch. JSON is one object per line, including header values.

Damage does not end the output: a batch with a wrong checksum is printed with `isvalid: false`, one
that cannot be opened is passed to `complain`, and bytes that are not a batch are counted at the
end, as Kafka does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from client.files.batches import Entry, LogBytes, entries
from client.files.metadata_json import compact, control_text, metadata_object
from client.files.texts import as_json, one_line, shown
from client.files.transaction_json import transaction_object, transaction_words
from protocol.compression import NAMES
from protocol.errors import DecodeError
from protocol.record_errors import CorruptBatch, RecordError
from protocol.records import BatchHeader, Record

KAFKA, SHORT, JSON = "kafka", "short", "json"
_SEQUENCE_COUNT = 1 << 31

Complain = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What to show of a log. `offset_start` is inclusive; `record_count_max` None means all."""

    form: str = KAFKA
    records: bool = True
    values: bool = True
    metadata: bool = False
    transactions: bool = False  # records of __transaction_state
    offset_start: int = 0
    record_count_max: int | None = None


def log_lines(
    source: LogBytes, name: str, shown_as: Shown, complain: Complain, *, position: int = 0
) -> Iterator[str]:
    """Yield the lines of a file, starting at the batch at `position`; `name` is for complaints."""
    left = shown_as.record_count_max
    walk = entries(source, position)
    while True:
        try:
            entry = next(walk)
        except StopIteration:
            return
        except CorruptBatch as error:
            complain(f"{name}: not readable from position {error.position} on: {error.reason}")
            if shown_as.form != JSON:
                invalid = source.size - error.position
                yield f"Found {invalid} invalid bytes at the end of {name}"
            return
        if entry.last_offset < shown_as.offset_start:
            continue
        if left is not None and left <= 0:
            return
        batch = _batch_line(entry, shown_as.form)
        if batch:
            yield batch
        if not shown_as.records:
            left = None if left is None else left - 1
            continue
        for line in _record_lines(entry, name, shown_as, complain):
            yield line
            if left is not None:
                left -= 1
                if left <= 0:
                    return


def _batch_line(entry: Entry, form: str) -> str:
    if form == SHORT:
        return ""
    is_valid = not entry.damage()
    if form == JSON:
        return json.dumps(_batch_object(entry, is_valid=is_valid))
    if entry.header is None:
        words = f"offset: {entry.last_offset}"
    else:
        words = _header_words(entry.header)
    return (
        f"{words} position: {entry.position} {entry.timestamp_type}: {entry.max_timestamp} "
        f"size: {entry.size} magic: {entry.magic} compresscodec: {codec_name(entry.codec)} "
        f"crc: {entry.crc} isvalid: {_java(is_valid)}"
    )


def _header_words(header: BatchHeader) -> str:
    horizon = f"[{header.base_timestamp}]" if header.has_delete_horizon else ".empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} "
        f"count: {header.record_count} baseSequence: {header.base_sequence} "
        f"lastSequence: {header.last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)} "
        f"deleteHorizonMs: OptionalLong{horizon}"
    )


def _batch_object(entry: Entry, *, is_valid: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "batch",
        "position": entry.position,
        "size": entry.size,
        "magic": entry.magic,
        "base_offset": entry.base_offset,
        "last_offset": entry.last_offset,
        "codec": codec_name(entry.codec),
        "timestamp_type": entry.timestamp_type,
        "max_timestamp": entry.max_timestamp,
        "crc": entry.crc,
        "is_valid": is_valid,
    }
    header = entry.header
    if header is not None:
        found |= {
            "count": header.record_count,
            "leader_epoch": header.leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "is_transactional": header.is_transactional,
            "is_control": header.is_control,
            "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
        }
    return found


def _record_lines(entry: Entry, name: str, shown_as: Shown, complain: Complain) -> Iterator[str]:
    try:
        if entry.header is None:
            for message in entry.messages():
                record = Record(message.offset, message.timestamp, message.key, message.value)
                if record.offset >= shown_as.offset_start:
                    check = f" isValid: {_java(message.is_valid)} crc: {message.crc}"
                    yield _record_line(entry, record, check, shown_as)
            return
        for record in entry.records():
            if record.offset >= shown_as.offset_start:
                yield _record_line(entry, record, "", shown_as)
    except (RecordError, DecodeError) as error:
        complain(
            f"{name}: the batch at position {entry.position} "
            f"(offsets {entry.base_offset} to {entry.last_offset}) cannot be opened: {error}"
        )


def _record_line(entry: Entry, record: Record, check: str, shown_as: Shown) -> str:
    header = entry.header
    is_control = header is not None and header.is_control
    if shown_as.form == JSON:
        return json.dumps(_record_object(entry, record, shown_as, is_control=is_control))
    control = one_line(control_text(record.key, record.value)) if is_control else ""
    contents = ""
    if shown_as.values and not is_control:
        contents = _contents(record, shown_as)
    if shown_as.form == SHORT:
        return (
            f"offset: {record.offset} position: {entry.position} "
            f"{entry.timestamp_type}: {record.timestamp}{control}{contents}"
        )
    line = (
        f"| offset: {record.offset} {entry.timestamp_type}: {record.timestamp} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    )
    if header is not None:
        keys = ",".join(key for key, _ in record.headers)
        line += f" sequence: {_sequence(header, record)} headerKeys: [{one_line(keys)}]"
    return line + check + control + contents


def _contents(record: Record, shown_as: Shown) -> str:
    if shown_as.metadata:
        return f" payload: {one_line(compact(metadata_object(record.value)))}"
    if shown_as.transactions:
        return one_line(transaction_words(record))
    words = "" if record.key is None else f" key: {shown(record.key)}"
    return words if record.value is None else f"{words} payload: {shown(record.value)}"


def _record_object(
    entry: Entry, record: Record, shown_as: Shown, *, is_control: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "record",
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key_size": _size(record.key),
        "value_size": _size(record.value),
    }
    if is_control:
        return found | {"control": control_text(record.key, record.value).strip()}
    if entry.header is not None:
        found["sequence"] = _sequence(entry.header, record)
        found["headers"] = [{"key": key} | as_json("value", data) for key, data in record.headers]
    if not shown_as.values:
        return found
    if shown_as.metadata:
        return found | {"metadata": metadata_object(record.value)}
    if shown_as.transactions:
        return found | {"transaction": transaction_object(record)}
    return found | as_json("key", record.key) | as_json("value", record.value)


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + record.offset - header.base_offset) % _SEQUENCE_COUNT


def codec_name(codec: int) -> str:
    """Return Kafka's name of a codec id."""
    return NAMES[codec] if codec < len(NAMES) else f"unknown({codec})"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _java(flag: bool) -> str:  # noqa: FBT001  (the value to print)
    return "true" if flag else "false"
