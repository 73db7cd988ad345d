"""Loads the lists of aborted transactions of a log's segments (`storage.segments.abort_index`).

They are caches, and a wrong one passes aborted records for committed ones. So the snapshot of the
producers that the log is loaded from says how many entries each list has below its offset, and
their CRC. A list that differs is built anew, by a walk over the markers. Entries above the offset
are dropped: the replay of the batches there adds them again.

A snapshot that says nothing is one that Kafka wrote, or has lost its `.producers` file. If it names
a producer that has had a marker, no list is trusted, and all are built anew. Otherwise what looks
right is taken as it is. Kafka itself trusts any list, and a missing one.

Compaction merges segments, and a crash may come before the snapshot that says so. The list of the
merged segment may then begin as that of its first one did: what was vouched for under the names of
the others would be dropped as newer. So a list is not trusted if it should have those of others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from storage.errors import LogFailed
from storage.files.room import NO_DESCRIPTOR, errno_of
from storage.home import Home
from storage.opening import producer_replay
from storage.opening.recovery_report import RecoveryReport
from storage.producers.producer_state import ProducerState
from storage.producers.snapshot_files import LoadedProducers
from storage.segments.abort_index import EMPTY, AbortedTransaction
from storage.segments.segment import Segment

LEFT_MAX: Final = 4_096  # entries of a list; writing 1,000,000 takes 135 ms


def load_aborts(
    home: Home,
    segments: Sequence[Segment],
    listed: Collection[int],
    loaded: LoadedProducers,
    before: Callable[[int], ProducerState],
    now_ms: int,
    report: RecoveryReport,
) -> bool:
    """Load the lists up to the offset of the snapshot in `loaded`.

    `listed` are the base offsets that have a file. `before` returns the producers of a snapshot at
    or below an offset. Returns whether that snapshot does not say what the lists are now: without
    another one, each start would build them anew. Raises OSError or LogFailed if there is no
    descriptor, or the log cannot be read.
    """
    end_offset = loaded.state.end_offset
    wrong: list[Segment] = []
    merged = _merged(segments, loaded)
    for segment in segments:
        data = _read(home, segment) if segment.base_offset in listed else b""
        if segment.base_offset >= end_offset:
            segment.aborts.begin_anew()
        elif segment in merged or not _is_taken(segment, data, loaded):
            wrong.append(segment)
    if wrong:
        _rebuild(segments, wrong, end_offset, before, now_ms, report)
    return bool(wrong)


def write_lists(
    segments: Sequence[Segment], listed: Collection[int], report: RecoveryReport
) -> None:
    """Empty the files of lists that have no entries, and write what the replay has added to others.

    Few entries are left to the next checkpoint, which writes them on the loop. `listed` as above.
    """
    for segment in segments:
        aborts = segment.aborts
        is_stale = not aborts and segment.base_offset in listed
        if is_stale or aborts.unwritten_count > LEFT_MAX:
            try:
                aborts.replace() if aborts.needs_file else aborts.write()
            except (OSError, LogFailed) as error:  # a checkpoint, or the next start, does it
                report.warnings.append(f"{aborts.path} is not written: {error}")


def _read(home: Home, segment: Segment) -> bytes:
    try:
        return home.filesystem.read(segment.aborts.path)
    except OSError as error:
        if error.errno in NO_DESCRIPTOR:
            raise
        return b""  # as good as lost


def _merged(segments: Sequence[Segment], loaded: LoadedProducers) -> set[Segment]:
    """Return the segments that hold what were others, with lists, when the snapshot was taken."""
    bases = {segment.base_offset for segment in segments}
    return {
        segments[producer_replay.index_of(segments, base_offset)]
        for base_offset in loaded.aborts or ()
        if base_offset not in bases and base_offset > segments[0].base_offset
    }


def _is_taken(segment: Segment, data: bytes, loaded: LoadedProducers) -> bool:
    """Take the entries of a list; return whether they are right."""
    aborts = segment.aborts
    if loaded.aborts is not None:
        return aborts.take_file(data, loaded.aborts.get(segment.base_offset, EMPTY))
    if loaded.state.witness is not None:
        return False
    return aborts.take_unknown_file(data, segment.base_offset, loaded.state.end_offset)


def _rebuild(
    segments: Sequence[Segment],
    wrong: Sequence[Segment],
    end_offset: int,
    before: Callable[[int], ProducerState],
    now_ms: int,
    report: RecoveryReport,
) -> None:
    """Fill the lists of `wrong` segments with what their markers below `end_offset` have aborted.

    The walk begins where a snapshot says what was open before the first of them.
    """
    for segment in wrong:
        segment.aborts.begin_anew()
    producers = before(wrong[0].base_offset)
    producers.end_offset = max(producers.end_offset, segments[0].base_offset)

    def note_abort(aborted: AbortedTransaction) -> None:
        index = producer_replay.index_of(segments, aborted.marker_offset)
        if segments[index] in rebuilt:
            segments[index].aborts.add(aborted)

    rebuilt = set(wrong)
    producer_replay.replay(segments, producers, end_offset, now_ms, report, note_abort)
    for segment in wrong:
        try:
            segment.aborts.replace()
        except (OSError, LogFailed) as error:  # they stay in memory, and a checkpoint tries again
            if errno_of(error) in NO_DESCRIPTOR:
                raise
    count = sum(len(segment.aborts) for segment in wrong)
    report.warnings.append(
        f"{wrong[0].aborts.path} and {len(wrong) - 1} more lists of aborted transactions differ "
        f"from what the last snapshot says, or nothing vouches for them: built anew from the "
        f"markers of the log, {count} entries"
    )
