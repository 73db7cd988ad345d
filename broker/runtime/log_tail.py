"""The newest lines of the broker's log, kept in memory for those who have no other way to them."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final, NamedTuple

from broker.runtime.log_lines import one_line

LINES_MAX: Final = 1_000
CHARACTERS_MAX: Final = 2_000  # of a line, and of a trace


class LogLine(NamedTuple):
    """One line; `number` counts all lines since the start."""

    number: int
    time_ms: int
    level: str
    logger: str
    message: str
    trace: str


class LogTail(logging.Handler):
    """Keeps the newest lines of the logger that it is attached to."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=LINES_MAX)
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line; a record that cannot be formatted is the other handlers' to report."""
        try:
            message = one_line(record.getMessage())
        except Exception:
            return
        trace = ""
        if record.exc_info and record.exc_info[1] is not None:
            trace = logging.Formatter().formatException(record.exc_info)[-CHARACTERS_MAX:]
        self._count += 1
        self._lines.append(
            LogLine(
                self._count,
                int(record.created * 1000),
                record.levelname,
                record.name,
                message[:CHARACTERS_MAX],
                trace,
            )
        )

    def after(self, number: int) -> list[LogLine]:
        """Return the lines that came after that number, the oldest first."""
        return [line for line in tuple(self._lines) if line.number > number]

    def attach(self) -> None:
        """Keep the broker's lines from now on."""
        logging.getLogger("barnabas").addHandler(self)

    def detach(self) -> None:
        """Keep no more."""
        logging.getLogger("barnabas").removeHandler(self)
