"""What recovery does to the indexes of a segment, although the disk may fail them.

Indexes are caches, so a log is opened without them: entries that the disk does not give or take
are dropped, and both indexes are flagged to be built anew, the active segment's at once and others
by a checkpoint. Not so for lack of a descriptor: what was not opened is as good as before, and
recovery is tried again.
"""

from __future__ import annotations

from storage.errors import LogFailed
from storage.files.room import NO_DESCRIPTOR, NO_SPACE, errno_of
from storage.opening.torn_entries import drop_torn_entries, restore_largest_timestamp
from storage.segments.segment import Segment


def end_roll(segment: Segment) -> None:
    """Finish the roll of a closed segment, which the crash may have interrupted.

    On a full disk the newest entries are missing. Raises OSError or LogFailed if there is no
    descriptor.
    """
    try:
        segment.indexes.drop_zeros()
        if drop_torn_entries(segment):
            restore_largest_timestamp(segment)
        segment.on_roll()
        segment.indexes.note_written()
    except (OSError, LogFailed) as error:
        _give_up_indexes(segment, error)


def truncate_indexes(segment: Segment, offset: int) -> None:
    """Drop the index entries from `offset` on, and torn ones; all if the disk does not give them.

    The next checkpoint syncs what is left: a killed process may have written it, and not synced.
    Raises OSError, and LogFailed if there is no descriptor.
    """
    is_anew = offset <= segment.base_offset
    try:
        is_short = not is_anew and drop_torn_entries(segment)
        segment.truncate_indexes(offset)
        if not is_anew:
            is_short |= drop_torn_entries(segment)  # those that others hid
            segment.indexes.note_written()  # by a stop, for example, that was killed
        if is_short:
            restore_largest_timestamp(segment, offset)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        _give_up_indexes(segment, error)
        segment.indexes.clear()
        segment.truncate_indexes(offset)


def _give_up_indexes(segment: Segment, error: OSError | LogFailed) -> None:
    """Flag indexes for rebuilding. Raises `error` again if it says nothing of them."""
    number = errno_of(error)
    if number in NO_DESCRIPTOR:
        raise error
    if number not in NO_SPACE:
        segment.indexes.report(f"an index that cannot be brought up to date: {error}")
