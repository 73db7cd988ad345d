"""Prepares a log for a clean stop: flushes it, writes its indexes, moves its recovery point.

Then the recovery point is the end of the log, which is what a clean start checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from storage.errors import StorageError
from storage.log import Log

_Finish = Callable[[OSError | None], object]


def stop_log(log: Log) -> str:
    """Flush and checkpoint a log; return why the stop is not clean, or "". Blocks."""
    try:
        for job, finish in _last_jobs(log):
            error: OSError | None = None
            try:
                job()
            except OSError as caught:
                error = caught
            finish(error)
    except (OSError, StorageError) as error:
        return f"{log.directory} could not be closed cleanly: {error}"
    if log.failed is not None or log.recovery_point != log.end_offset:
        offsets = f"recovery point {log.recovery_point}, end offset {log.end_offset}"
        return f"{log.directory} was not closed cleanly: {log.failed or offsets}"
    return ""


def _last_jobs(log: Log) -> Iterator[tuple[Callable[[], None], _Finish]]:
    flush = log.begin_flush()
    if flush is not None:
        yield flush.run, lambda error: log.finish_flush(flush, error)
    log.segments.active.on_roll()  # its largest timestamp, as a roll notes it
    checkpoint = log.begin_checkpoint(with_snapshot=True)
    if checkpoint is not None:
        yield checkpoint.run, lambda error: log.finish_checkpoint(checkpoint, error)
