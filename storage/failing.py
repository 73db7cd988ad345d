"""How one log fails: alone, and until it is opened anew.

    a write found no space, and was taken back      not a failure: the next one is tried
                                                     (`storage.files.room`)
    any other failed write, a failed fsync          the log is `failed`: appends raise LogFailed,
                                                     reads end at the last durable offset

It is said once, at level ERROR, when it happens. The other logs of the directory go on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from storage.errors import AppendFailed, LogFailed
from storage.files.room import PASSING

if TYPE_CHECKING:
    from storage.log import Log

_log = logging.getLogger("barnabas.storage")


def failed_write(log: Log, error: AppendFailed) -> None:
    """Decide whether a log whose write failed may go on: only if there was just no room."""
    log.home.room.note(error.cause, error.size_bytes)
    if not error.rolled_back or error.cause.errno not in PASSING:
        fail(log, error)


def fail(log: Log, failure: LogFailed) -> None:
    """Stop taking appends until the log is opened anew; show only what is durable."""
    if log.failed is None:
        _log.error(
            "%s-%d is offline for writes, readers get what is durable (up to offset %d): %s. "
            "See to the disk, then restart the broker.",
            log.topic,
            log.partition,
            log.durable_offset,
            failure,
        )
    end(log, failure)


def end(log: Log, failure: LogFailed) -> None:
    """As `fail`, but for a log that is closed: nobody needs to be told."""
    if log.failed is None:
        log.failed = failure
        if not log.write_caching:
            log.home.unflushed_bytes -= log.unflushed_bytes
        log.unflushed_bytes = 0
    log.high_watermark = min(log.durable_offset, log.high_watermark)
