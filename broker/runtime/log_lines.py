"""How the broker writes its log: one line per event, as text for people or JSON for programs.

Lines go to standard error, where a container's or a service manager's log collector reads them, or
to `barnabas.log.file` (`broker.runtime.line_file`).

The arguments of a line are a mapping (`"%(topic)s …", {"topic": …}`), which are its `fields` in
JSON, so that programs need not parse the message; those of a library, without names, are its
`values`, in order. `template` is the message before the arguments are filled in; lines of one kind
have the same.

Lines that a client can cause at will go through a `RateLimiter`.

Lines quote what clients have sent: ids, names, hosts, values, and exceptions that repeat them. No
character of a message may end its line or change how the log is displayed, so the formatters
escape every character that is not printable; callers need not think of it. Traces are indented, so
the start of a line is always the broker's own.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from broker.runtime.clock import SECOND_NS, Clock


class RateLimiter:
    """Lets `per_second_max` lines through each second, and counts the rest."""

    __slots__ = ("_clock", "_dropped", "_in_second", "_per_second_max", "_second")

    def __init__(self, clock: Clock, per_second_max: int) -> None:
        self._clock = clock
        self._per_second_max = per_second_max
        self._second = -1
        self._in_second = 0
        self._dropped = 0

    def allow(self) -> int | None:
        """Return how many lines were dropped since the last one; None: drop this one too."""
        second = self._clock.monotonic_ns() // SECOND_NS
        if second != self._second:
            self._second = second
            self._in_second = 0
        self._in_second += 1
        if self._in_second > self._per_second_max:
            self._dropped += 1
            return None
        dropped, self._dropped = self._dropped, 0
        return dropped


def one_line(text: str) -> str:
    r"""Return `text` with what is not printable escaped, as `\n` or `\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _local_time(record: logging.LogRecord, separator: str) -> str:
    """Return the record's local time in ISO 8601, with milliseconds and the offset from UTC."""
    when = datetime.fromtimestamp(record.created).astimezone()
    return when.isoformat(separator, "milliseconds")


class _TextFormatter(logging.Formatter):
    """One line per event; for errors, the indented trace below it."""

    def formatTime(self, record: logging.LogRecord, _format: str | None = None) -> str:  # noqa: N802
        return _local_time(record, " ")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, exc_info: Any) -> str:  # noqa: N802 - logging's name
        lines = super().formatException(exc_info).split("\n")
        return "\n".join(f"    {one_line(line)}" for line in lines)


class _JsonFormatter(logging.Formatter):
    """One JSON object per line: when, how bad, from where, what, and its fields or its trace."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _local_time(record, "T"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "template": str(record.msg),
        }
        if isinstance(record.args, Mapping) and record.args:
            line["fields"] = {str(name): _plain(value) for name, value in record.args.items()}
        elif isinstance(record.args, tuple) and record.args:
            line["values"] = [_plain(value) for value in record.args]
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        # JSON does not escape some characters that end a line or reverse text in some viewers.
        return "".join(
            char if char.isprintable() else json.dumps(char)[1:-1]
            for char in json.dumps(line, ensure_ascii=False)
        )


def _plain(value: object) -> object:
    """Return a value as JSON has it: what is no number and no flag becomes its text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)


def configure(
    line_format: str, level: str = "INFO", handler: logging.Handler | None = None
) -> None:
    """Write the project's log lines as `text` or `json`, to standard error if not to `handler`."""
    if handler is None:
        handler = logging.StreamHandler(sys.stderr)
    if line_format == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(_TextFormatter("%(asctime)s %(levelname)-7s %(message)s"))
    root = logging.getLogger("barnabas")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False


def set_level(level: str) -> None:
    """Write lines of this level and above from now on."""
    logging.getLogger("barnabas").setLevel(level)
