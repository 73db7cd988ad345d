"""What `barnabas consume` writes of a record, with or without a group.

The formats are:

    value      one line per record: the bytes of its value
    key-value  one line per record: the bytes of its key, a separator, and its value
    json       one line per record: an object with all fields; bytes that are not UTF-8 are written
               as {"base64": ...}
    raw        the bytes of the values, with nothing between them
    %…         a template with kcat's letters (`client.commands.record_template`)
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from typing import Any, Final, Protocol

import click

from client.commands.record_template import RecordTemplate
from client.suggest import did_you_mean

FORMATS: Final = ("value", "key-value", "json", "raw")


class Written(Protocol):
    """A way to write records."""

    def line(self, partition: int, record: Any) -> bytes:
        """Return a record as bytes."""
        ...


def written_as(shape: str, topic: str, separator: str) -> Written:
    """Return the format that is one of FORMATS, or a template. Raises click.UsageError."""
    if "%" in shape:
        return RecordTemplate(shape, topic)
    if shape not in FORMATS:
        known = f"expected {', '.join(FORMATS)}, or a template such as '%T %o %k %s'"
        hint = did_you_mean(shape, FORMATS)
        raise click.UsageError(f"--format {shape!r} is unknown; {known}. {hint}".rstrip())
    return RecordFormat(shape, topic, os.fsencode(separator))


class RecordFormat:
    """Formats records in one of FORMATS."""

    def __init__(self, shape: str, topic: str, separator: bytes) -> None:
        self._shape = shape
        self._topic = topic
        self._separator = separator

    def line(self, partition: int, record: Any) -> bytes:
        """Return a record as bytes. A null is written as empty where the format has none."""
        if self._shape == "json":
            return json.dumps(self._all(partition, record), ensure_ascii=False).encode() + b"\n"
        value: bytes = record.value or b""
        if self._shape == "raw":
            return value
        if self._shape == "key-value":
            return (record.key or b"") + self._separator + value + b"\n"
        return value + b"\n"

    def _all(self, partition: int, record: Any) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[key, _text(value)] for key, value in record.headers],
        }


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
