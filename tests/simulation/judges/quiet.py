"""Quiet: the broker's log holds whole lines, and no complaint that no fault explains.

Every record of the broker's loggers is formatted with the product's own formatter. A line begins
with its time, is printable, and ends where it ends; a trace below it is indented. So whatever
clients have sent cannot forge a line.

What is said is judged, too. An ERROR needs a fault that was injected in this history (`EXPLAINED`).
A failure that the broker itself calls unexpected needs none: it is always an objection, in the log
or in `Metrics`. So are resources that the broker misses at its stop, and what asyncio and the
interpreter report: exceptions that nobody fetched, tasks that were dropped, coroutines that never
ran. While a killed broker is buried nobody listens (`hears`).
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from broker.runtime import log_lines
from broker.runtime.metrics import Metrics

# What a history may inject, as far as it explains an ERROR.
DISK: Final = "disk"  # a call of the disk failed: EIO, ENOSPC
FULL: Final = "full"  # the disk had no room
SLOW: Final = "slow"  # the disk did not answer for a while
FLIP: Final = "flip"  # bits of a file have changed
ACCEPT: Final = "accept"  # accept failed
HURRY: Final = "hurry"  # a stop was told more than once to stop
# A stop came before the markers that a crash has left were looked at, and did not wait for that: it
# was told twice, or a flush took too long. They are left to the next start.
OWED: Final = "owed"

_BROKEN: Final = frozenset({DISK, FULL, FLIP})
_UNWRITTEN: Final = frozenset({DISK, FULL})
EXPLAINED: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    (r"cannot accept on \S+, will retry: ", frozenset({ACCEPT})),
    (r"[A-Z_]+ v\d+ from .* failed, answered (KAFKA_STORAGE_ERROR|CORRUPT_MESSAGE): ", _BROKEN),
    (
        r"[A-Z_]+ v\d+ from .* failed, answered REQUEST_TIMED_OUT: .* the disk is slow",
        frozenset({SLOW}),
    ),
    (r"the disk of \S+ is full, ", frozenset({FULL, DISK})),
    (
        r"the disk of \S+ (does not answer|is slow, .*|is being written to): ",
        frozenset({SLOW, HURRY}),
    ),
    (r"stopped, but not cleanly, ", _BROKEN | {OWED}),
    (r"cannot start or continue: ", _BROKEN),
    (r".*\. It is offline until it can be opened\.", _BROKEN),
    (r"\S+ is offline for writes, ", _BROKEN),
    (r"deleted topic \S+, but some of its files remain: ", _UNWRITTEN),
    (r"log start offsets cannot be written: ", _UNWRITTEN),
    (r"topic \S+: ", _UNWRITTEN),
    (r"(checkpoint|retention|deletion of segments) of \S+ failed", _BROKEN),
    (r"cannot write a metadata snapshot, will retry: ", _BROKEN),
    (r"[a-z ]+ failed, will retry: ", _BROKEN),
    (r"Unexpected exception thrown when cleaning log ", _BROKEN),
    (r"groups of \S+ are not loaded: ", _BROKEN),
    (r"transactions of \S+ are not loaded: ", _BROKEN),
    (r".+: what its partitions say of its transaction is not written yet\.", _UNWRITTEN),
)
_EXPLAINED: Final = tuple((re.compile(pattern), faults) for pattern, faults in EXPLAINED)
# However loud they are, and whatever was injected.
NEVER: Final = (
    "unexpected failure",
    "not at rest at the stop",
    "never retrieved",
    "was destroyed",
    "ended unexpectedly",
    "UNKNOWN_SERVER_ERROR",
)
_LINE: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d [A-Z]+ +.*")
LOGGERS: Final = ("barnabas", "asyncio")


class Quiet(logging.Handler):
    """Listens to one history. `hears` is off while a killed broker is buried."""

    def __init__(self, on_line: Callable[[str, str], None] | None = None) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(_product_formatter())
        self.hears = True
        self.messages: list[str] = []  # of this life, from INFO on
        self._on_line = on_line  # for the story: level, message
        self._found: list[str] = []
        self._errors: list[str] = []

    # -- What is heard ------------------------------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        """Format a record and judge its form."""
        if not self.hears:
            return
        try:
            text = self.format(record)
            message = record.getMessage()
        except Exception as error:
            self._found.append(f"cannot format {record.msg!r} with {record.args!r}: {error!r}")
            return
        self._judge_form(text)
        if record.levelno >= logging.WARNING and any(words in message for words in NEVER):
            self._found.append(f"said: {text}")
        elif record.name.startswith("asyncio"):
            self._found.append(f"asyncio said: {text}")
        elif record.levelno >= logging.ERROR:
            self._errors.append(message)
        if record.levelno >= logging.INFO:
            self.messages.append(message)
        if self._on_line is not None:
            self._on_line(record.levelname, message)

    def _judge_form(self, text: str) -> None:
        first, *trace = text.split("\n")
        is_forged = not first.isprintable() or _LINE.fullmatch(first) is None
        if is_forged or any(
            not line.isprintable() or not line.startswith("    ") for line in trace
        ):
            self._found.append(f"a log line that is not one line: {text!r}")

    def complain(self, what: str) -> None:
        """Note what the interpreter reports."""
        if self.hears:
            self._found.append(what)

    # -- The judgment -------------------------------------------------------------------------

    def end_life(self, metrics: Metrics | None) -> None:
        """Note a broker's counters at its end, and begin the messages of the next one."""
        self.messages.clear()
        if metrics is not None and metrics.unexpected_failures:
            self._found.append(f"{metrics.unexpected_failures} unexpected failures were counted")

    def judge(self, injected: Collection[str], violations: Collection[str] = ()) -> list[str]:
        """Object. `injected`: the faults of this history; `violations`: of the disk's rules."""
        faults = frozenset(injected)
        found = self._found + [
            f"an ERROR that no fault explains: {error}"
            for error in self._errors
            if not _is_explained(error, faults)
        ]
        return found + [f"on the loop: {violation}" for violation in violations]


def _is_explained(error: str, injected: frozenset[str]) -> bool:
    for pattern, faults in _EXPLAINED:
        if pattern.match(error):
            return bool(faults & injected)
    return False


def _product_formatter() -> logging.Formatter:
    """Return the formatter of the broker's text lines, as `log_lines.configure` sets it."""
    root = logging.getLogger("barnabas")
    before = root.handlers[:], root.level, root.propagate
    try:
        log_lines.configure("text")
        formatter = root.handlers[0].formatter
    finally:
        root.handlers[:], root.propagate = before[0], before[2]
        root.setLevel(before[1])
    assert formatter is not None
    return formatter


@contextmanager
def listening(quiet: Quiet) -> Iterator[Quiet]:
    """Send to `quiet` what the broker logs, and what asyncio and the interpreter report."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(one, one.handlers[:], one.level, one.propagate) for one in loggers]
    hook = sys.unraisablehook

    def unraisable(report: Any) -> None:
        quiet.complain(f"ignored by the interpreter: {report.exc_value!r} in {report.err_msg}")

    def warned(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, RuntimeWarning | ResourceWarning):
            quiet.complain(f"the interpreter warned: {message}")

    for logger in loggers:
        logger.handlers[:] = [quiet]
        logger.setLevel(logging.DEBUG if logger.name == "barnabas" else logging.WARNING)
        logger.propagate = False
    sys.unraisablehook = unraisable
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RuntimeWarning)
            warnings.showwarning = warned
            yield quiet
    finally:
        sys.unraisablehook = hook
        for logger, handlers, level, propagate in before:
            logger.handlers[:] = handlers
            logger.setLevel(level)
            logger.propagate = propagate
