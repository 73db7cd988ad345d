"""The producer snapshots of one partition: which exist, which are to be written, which may go.

A snapshot is taken in memory at an offset (`take`). The next checkpoint writes it in another
thread (`begin_write`, `finish_write`), and opening the log reads it (`load`). The snapshots at the
base offset of a segment are kept, as Kafka keeps them, and the newest two; older ones in the middle
of a segment are obsolete. Their formats are in `storage.producers.snapshot_format`.

A clean stop leaves one at the end of every log that is not empty, if only to say that there are no
producers. So where there is none it was lost, and the start replays the log.
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

# When a checkpoint also takes a snapshot: a restart replays no more headers than these, a few
# milliseconds' worth, to know the producers at the recovery point.
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
        """Note that the log has one batch more."""
        self._batches += 1

    def is_due(self, state: ProducerState) -> bool:
        """Whether so much was appended since the last snapshot that the next one is worth it."""
        return state.changes >= PRODUCER_BATCHES_MAX or self._batches >= BATCHES_MAX

    def is_behind(self, state: ProducerState) -> bool:
        """Whether the newest snapshot does not show the producers as they are."""
        at = state.end_offset
        return at > 0 and at not in self.offsets and at not in self._unwritten

    def take(self, state: ProducerState) -> None:
        """Keep what `state` says now, to be written by the next checkpoint."""
        self._batches = 0
        state.changes = 0
        if state.end_offset not in self.offsets:
            self._unwritten[state.end_offset] = state.frozen()

    @property
    def has_unwritten(self) -> bool:
        """Whether a snapshot was taken that is not on disk."""
        return bool(self._unwritten)

    def covers(self, state: ProducerState, offset: int) -> bool:
        """Whether the log below `offset` may go without taking knowledge of producers along."""
        return not state.entries or (bool(self.offsets) and self.offsets[-1] >= offset)

    def begin_write(self, offset_max: int, segment_base_offsets: Collection[int]) -> SnapshotWrite:
        """Say which files to write for the snapshots taken at or below `offset_max`.

        The bytes are made when they are asked for, which takes 1 µs a producer: in the thread that
        writes them. Ours comes first: where a `.snapshot` with producers stands, its `.producers`
        does too.
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
        """Note that the files of `write` are on disk, and the obsolete ones gone."""
        for offset in write.offsets:
            if self._unwritten.pop(offset, None) is not None and offset not in self.offsets:
                insort(self.offsets, offset)
        self.offsets = [offset for offset in self.offsets if offset not in write.obsolete_offsets]

    def forget_before(self, offset: int) -> list[int]:
        """Let go of the snapshots below `offset`; returns those that have files."""
        gone = [o for o in self.offsets if o < offset]
        self.offsets = [o for o in self.offsets if o >= offset]
        self._unwritten = {o: data for o, data in self._unwritten.items() if o >= offset}
        return gone

    def forget_from(self, offset: int) -> list[int]:
        """Let go of the snapshots at `offset` and above; returns them."""
        gone = [o for o in self.offsets if o >= offset]
        self.offsets = [o for o in self.offsets if o < offset]
        return gone

    def load(
        self, filesystem: FileSystem, offset_max: int, now_ms: int, expiration_ms: int
    ) -> tuple[ProducerState, list[str]]:
        """Read the newest good snapshot at or below `offset_max`.

        Returns the state (its end_offset says from where to replay) and what was wrong with those
        passed over, which are snapshots no longer. Files are left as they are.
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
            return []  # Kafka wrote the snapshot: it knows one batch a producer
        except (CheckpointError, OSError) as error:
            return [f"Failed to load producer history from {path}: {error}"]
        return []


def names(offset: int) -> tuple[str, str]:
    """The names of the files of one snapshot."""
    return snapshot_name(offset), producers_name(offset)
