"""Failure of one log: it takes no appends until it is opened again.

    a write found no space and was undone      not a failure: the next write is tried
                                               (`storage.files.room`)
    any other failed write, a failed fsync     the log is `failed`: appends raise LogFailed, and
                                               reads end at the last durable offset

The failure is logged once, at level ERROR. The other logs of the directory go on.
"""

from __future__ import annotations

import logging

from storage.errors import AppendFailed, LogFailed
from storage.files.room import PASSING
from storage.log_state import LogState

_log = logging.getLogger("barnabas.storage")


def failed_write(state: LogState, error: AppendFailed) -> None:
    """Fail the log after a failed write, unless the disk was full and the write was undone."""
    state.home.room.note(error.cause, error.size_bytes)
    if not error.rolled_back or error.cause.errno not in PASSING:
        fail(state, error)


def fail(state: LogState, failure: LogFailed) -> None:
    """Refuse appends until the log is opened again, and end reads at the durable offset."""
    if state.failed is None:
        _log.error(
            "%(topic)s-%(partition)d is offline for writes, reads end at the last durable offset,"
            " %(offset)d: %(error)s. Check the disk, then restart the broker.",
            {
                "topic": state.topic,
                "partition": state.partition,
                "offset": state.durable_offset,
                "error": failure,
            },
        )
    end(state, failure)


def end(state: LogState, failure: LogFailed) -> None:
    """As `fail`, without the log line: for a log that is closed."""
    if state.failed is None:
        state.failed = failure
        if not state.write_caching:
            state.home.unflushed_bytes -= state.unflushed_bytes
        state.flushed_bytes += state.unflushed_bytes
        state.unflushed_bytes = 0
    state.high_watermark = min(state.durable_offset, state.high_watermark)
