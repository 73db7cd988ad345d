"""The producer snapshots of one partition: which exist, which are to be written, which may go.

A snapshot is taken in memory at an offset (`take`). The next checkpoint writes it in another
thread (`begin_write`, `finish_write`), and opening the log reads it (`load`). The snapshots at the
base offset of a segment are kept, as Kafka keeps them, and the newest two; older ones in the middle
of a segment are obsolete. Their formats are in `storage.producers.snapshot_format`.

A clean stop leaves one at the end of every log that is not empty, even if there are no producers.
If it is missing, it was lost, and the start replays the log.
"""

from __future__ import annotations

import posixpath
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from storage.errors import CheckpointError
from storage.files.filenames import producers_name, snapshot_name
from storage.files.filesystem import FileSystem
from storage.producers.producer_state import ProducerEntry, ProducerState
from storage.producers.snapshot_format import (
    apply_history,
    decode_snapshot,
    encode_history,
    encode_snapshot,
)

# A checkpoint also takes a snapshot after so many batches. A restart replays no more headers than
# these up to the recovery point, which takes a few milliseconds.
PRODUCER_BATCHES_MAX = 256
BATCHES_MAX = 4096


Encode = Callable[[], bytes]


class SnapshotWrite(NamedTuple):
    """What one checkpoint does to the snapshot files."""

    files: Sequence[tuple[str, Encode]]  # the path of each, and what makes its bytes
    offsets: Sequence[int]  # of the snapshots in these files
    obsolete_offsets: Sequence[int]  # of the snapshots to delete once the files are written


class SnapshotFiles:
    """The snapshots of the partition in `directory`; `offsets` are those on disk, ascending."""

    __slots__ = ("_batches", "_unwritten", "directory", "offsets")

    def __init__(self, directory: str, offsets: Iterable[int]) -> None:
        self.directory = directory
        self.offsets = sorted(offsets)
        self._unwritten: dict[int, list[ProducerEntry]] = {}
        self._batches = 0

    def count_batch(self) -> None:
        """Count a batch that was appended to the log."""
        self._batches += 1

    def is_due(self, state: ProducerState) -> bool:
        """Whether enough was appended since the last snapshot for a new one."""
        return state.changes >= PRODUCER_BATCHES_MAX or self._batches >= BATCHES_MAX

    def is_behind(self, state: ProducerState) -> bool:
        """Whether there is no snapshot of the producers as they are now."""
        at = state.end_offset
        return at > 0 and at not in self.offsets and at not in self._unwritten

    def take(self, state: ProducerState) -> None:
        """Take a snapshot of `state`, for the next checkpoint to write."""
        self._batches = 0
        state.changes = 0
        if state.end_offset not in self.offsets:
            self._unwritten[state.end_offset] = state.frozen()

    @property
    def has_unwritten(self) -> bool:
        """Whether a snapshot was taken and is not on disk yet."""
        return bool(self._unwritten)

    def covers(self, state: ProducerState, offset: int) -> bool:
        """Whether the log below `offset` can be deleted without losing the state of producers."""
        return not state.entries or (bool(self.offsets) and self.offsets[-1] >= offset)

    def begin_write(self, offset_max: int, segment_base_offsets: Collection[int]) -> SnapshotWrite:
        """Return what to write for the snapshots taken at or below `offset_max`.

        The writing thread makes the bytes, which takes 1 µs a producer. The `.producers` file comes
        first, so that a `.snapshot` with producers never lacks it.
        """
        files: list[tuple[str, Encode]] = []
        written = {o: entries for o, entries in self._unwritten.items() if o <= offset_max}
        for offset, entries in written.items():
            if entries:
                history = posixpath.join(self.directory, producers_name(offset))
                files.append((history, partial(encode_history, entries)))
            snapshot = posixpath.join(self.directory, snapshot_name(offset))
            files.append((snapshot, partial(encode_snapshot, entries)))
        offsets = sorted({*self.offsets, *written})
        obsolete = [offset for offset in offsets[:-2] if offset not in segment_base_offsets]
        return SnapshotWrite(files, list(written), obsolete)

    def finish_write(self, write: SnapshotWrite) -> None:
        """Note that the files of `write` are on disk, and the obsolete ones deleted."""
        for offset in write.offsets:
            if self._unwritten.pop(offset, None) is not None and offset not in self.offsets:
                insort(self.offsets, offset)
        self.offsets = [offset for offset in self.offsets if offset not in write.obsolete_offsets]

    def forget_before(self, offset: int) -> list[int]:
        """Forget the snapshots below `offset`; return those that have files."""
        gone = [o for o in self.offsets if o < offset]
        self.offsets = [o for o in self.offsets if o >= offset]
        self._unwritten = {o: data for o, data in self._unwritten.items() if o >= offset}
        return gone

    def forget_from(self, offset: int) -> list[int]:
        """Forget the snapshots at `offset` and above; return them."""
        gone = [o for o in self.offsets if o >= offset]
        self.offsets = [o for o in self.offsets if o < offset]
        return gone

    def load(
        self, filesystem: FileSystem, offset_max: int, now_ms: int, expiration_ms: int
    ) -> tuple[ProducerState, list[str]]:
        """Read the newest good snapshot at or below `offset_max`.

        Returns the state, whose end_offset is where to replay from, and a warning for each bad
        snapshot. Bad snapshots are forgotten; their files stay.
        """
        state = ProducerState()
        warnings: list[str] = []
        for offset in reversed([o for o in self.offsets if o <= offset_max]):
            path = posixpath.join(self.directory, snapshot_name(offset))
            try:
                entries = decode_snapshot(filesystem.read(path), path)
            except (CheckpointError, OSError) as error:
                warnings.append(f"Failed to load producer snapshot from {path}: {error}")
                self.offsets.remove(offset)
                continue
            state.replace(entries, offset)
            warnings += self._load_history(filesystem, offset, state)
            state.expire(now_ms, expiration_ms)
            break
        return state, warnings

    def _load_history(self, filesystem: FileSystem, offset: int, state: ProducerState) -> list[str]:
        path = posixpath.join(self.directory, producers_name(offset))
        if not state.entries:
            return []
        try:
            apply_history(filesystem.read(path), state.entries, path)
        except FileNotFoundError:
            return []  # Kafka wrote the snapshot: it has one batch a producer
        except (CheckpointError, OSError) as error:
            return [f"Failed to load producer history from {path}: {error}"]
        return []


def names(offset: int) -> tuple[str, str]:
    """Return the names of the files of one snapshot."""
    return snapshot_name(offset), producers_name(offset)
