"""How the broker writes its log: one line an event, as text for people or JSON for programs.

Lines go to standard error, where a container's or a service manager's log collector reads them.
What a client can cause as often as it likes is written through a `RateLimiter`.
"""

from __future__ import annotations

import json
import logging
import sys

from broker.clock import SECOND_NS, Clock


class RateLimiter:
    """Lets a few lines through each second and counts the rest."""

    __slots__ = ("_clock", "_dropped", "_in_second", "_per_second_max", "_second")

    def __init__(self, clock: Clock, per_second_max: int) -> None:
        self._clock = clock
        self._per_second_max = per_second_max
        self._second = -1
        self._in_second = 0
        self._dropped = 0

    def allow(self) -> int | None:
        """Return how many lines were dropped before this one, or None to drop this one too."""
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


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message and, for errors, the trace."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(line_format: str, level: str = "INFO") -> None:
    """Send the project's log lines to standard error, as `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    if line_format == "json":
        handler.setFormatter(_JsonFormatter())
    else:
        handler.setFormatter(
            logging.Formatter(
                "%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S"
            )
        )
    root = logging.getLogger("barnabas")
    root.handlers[:] = [handler]
    root.setLevel(level)
    root.propagate = False
