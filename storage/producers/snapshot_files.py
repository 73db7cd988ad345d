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
    Tallies,
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


class LoadedProducers(NamedTuple):
    """The producers as a snapshot has them; their `end_offset` is where to replay from."""

    state: ProducerState
    warnings: list[str]  # one for each file that cannot be read
    bad_names: list[str]  # of files that hold nothing of use, for the caller to remove
    aborts: Tallies | None = None  # of the log below that offset; None if no file says


class _Taken(NamedTuple):
    """A snapshot in memory."""

    entries: list[ProducerEntry]
    aborts: Tallies


class SnapshotFiles:
    """The snapshots of the partition in `directory`; `offsets` are those on disk, ascending."""

    __slots__ = ("_unwritten", "batches", "directory", "offsets")

    def __init__(self, directory: str, offsets: Iterable[int]) -> None:
        self.directory = directory
        self.offsets = sorted(offsets)
        self._unwritten: dict[int, _Taken] = {}
        self.batches = 0  # appended to the log since the last one was taken

    def is_due(self, state: ProducerState) -> bool:
        """Whether enough was appended since the last snapshot for a new one."""
        return state.changes >= PRODUCER_BATCHES_MAX or self.batches >= BATCHES_MAX

    def is_behind(self, state: ProducerState) -> bool:
        """Whether there is no snapshot of the producers as they are now."""
        at = state.end_offset
        return at > 0 and at not in self.offsets and at not in self._unwritten

    def take(self, state: ProducerState, aborts: Tallies, *, again: bool = False) -> None:
        """Take a snapshot of `state`, for the next checkpoint to write.

        `aborts` are those of the log's lists of aborted transactions. With `again`, a snapshot of
        this offset that is on disk is replaced: these lists have changed.
        """
        self.batches = 0
        state.changes = 0
        if again or state.end_offset not in self.offsets:
            self._unwritten[state.end_offset] = _Taken(state.frozen(), aborts)

    def has_unwritten(self, offset_max: int) -> bool:
        """Whether a snapshot was taken at or below `offset_max` that is not on disk yet."""
        return any(offset <= offset_max for offset in self._unwritten)

    def covers(self, state: ProducerState, offset: int) -> bool:
        """Whether the log below `offset` can be deleted without losing the state of producers."""
        return not state.entries or (bool(self.offsets) and self.offsets[-1] >= offset)

    def begin_write(self, offset_max: int, segment_base_offsets: Collection[int]) -> SnapshotWrite:
        """Return what to write for the snapshots taken at or below `offset_max`.

        The writing thread makes the bytes, which takes 1 µs a producer. The `.producers` file comes
        first, so that a `.snapshot` with producers never lacks it.
        """
        files: list[tuple[str, Encode]] = []
        written = {o: taken for o, taken in self._unwritten.items() if o <= offset_max}
        for offset, (entries, aborts) in written.items():
            if entries:
                history = posixpath.join(self.directory, producers_name(offset))
                files.append((history, partial(encode_history, entries, aborts)))
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
    ) -> LoadedProducers:
        """Read the newest good snapshot at or below `offset_max`. Bad snapshots are forgotten.

        Raises OSError: an older snapshot in place of one that the disk does not give would forget
        producers whose records are gone.
        """
        state = ProducerState()
        loaded = LoadedProducers(state, [], [])
        for offset in reversed([o for o in self.offsets if o <= offset_max]):
            path = posixpath.join(self.directory, snapshot_name(offset))
            try:
                entries = decode_snapshot(filesystem.read(path), path)
            except (CheckpointError, FileNotFoundError) as error:
                loaded.warnings.append(f"Failed to load producer snapshot from {path}: {error}")
                self.offsets.remove(offset)
                if isinstance(error, CheckpointError):
                    loaded.bad_names.extend(names(offset))
                continue
            state.replace(entries, offset)
            aborts = self._load_history(filesystem, offset, loaded)
            state.expire(now_ms, expiration_ms)
            return loaded._replace(aborts=aborts)
        return loaded

    def _load_history(
        self, filesystem: FileSystem, offset: int, loaded: LoadedProducers
    ) -> Tallies | None:
        path = posixpath.join(self.directory, producers_name(offset))
        if not loaded.state.entries:
            return None
        try:
            return apply_history(filesystem.read(path), loaded.state.entries, path)
        except FileNotFoundError:
            return None  # Kafka wrote the snapshot: it has one batch a producer
        except CheckpointError as error:
            loaded.warnings.append(f"Failed to load producer history from {path}: {error}")
            loaded.bad_names.append(producers_name(offset))
            return None


def names(offset: int) -> tuple[str, str]:
    """Return the names of the files of one snapshot."""
    return snapshot_name(offset), producers_name(offset)
