"""The last steps of a log before a clean stop: flush, write the indexes, move the recovery point.

After them the recovery point is the end of the log, which is what a clean start asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from storage.errors import StorageError
from storage.log import Log

_Finish = Callable[[OSError | None], object]


def stop_log(log: Log) -> str:
    """Flush and checkpoint a log; returns why that was not clean, "" if it was. Blocks."""
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
        return f"{log.directory} was not closed cleanly: {log.failed or 'see above'}"
    return ""


def _last_jobs(log: Log) -> Iterator[tuple[Callable[[], None], _Finish]]:
    flush = log.begin_flush()
    if flush is not None:
        yield flush.run, lambda error: log.finish_flush(flush, error)
    log.segments.active.on_roll()  # its largest timestamp, as a roll notes it
    checkpoint = log.begin_checkpoint(with_snapshot=True)
    if checkpoint is not None:
        yield checkpoint.run, lambda error: log.finish_checkpoint(checkpoint, error)
