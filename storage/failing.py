"""How one log fails: alone, and until it is opened anew.

    a write found no space, and was taken back      not a failure: the next one is tried
                                                     (`storage.files.room`)
    any other failed write, a failed fsync          the log is `failed`: appends raise LogFailed,
                                                     reads end at the last durable offset

It is said once, at level ERROR, when it happens. The other logs of the directory go on.
"""

from __future__ import annotations

import logging

from storage.errors import AppendFailed, LogFailed
from storage.files.room import PASSING
from storage.log_state import LogState

_log = logging.getLogger("barnabas.storage")


def failed_write(state: LogState, error: AppendFailed) -> None:
    """Decide whether a log whose write failed may go on: only if there was just no room."""
    state.home.room.note(error.cause, error.size_bytes)
    if not error.rolled_back or error.cause.errno not in PASSING:
        fail(state, error)


def fail(state: LogState, failure: LogFailed) -> None:
    """Stop taking appends until the log is opened anew; show only what is durable."""
    if state.failed is None:
        _log.error(
            "%s-%d is offline for writes, readers get what is durable (up to offset %d): %s. "
            "See to the disk, then restart the broker.",
            state.topic,
            state.partition,
            state.durable_offset,
            failure,
        )
    end(state, failure)


def end(state: LogState, failure: LogFailed) -> None:
    """As `fail`, but for a log that is closed: nobody needs to be told."""
    if state.failed is None:
        state.failed = failure
        if not state.write_caching:
            state.home.unflushed_bytes -= state.unflushed_bytes
        state.unflushed_bytes = 0
    state.high_watermark = min(state.durable_offset, state.high_watermark)
