"""The producer snapshots of one partition: which exist, which are to be written, which may go.

A snapshot is taken in memory at an offset (`take`), written by a checkpoint in another thread
(`unwritten`, `settle`), and read when the log is opened (`load`). Kept are those at the base
offset of a segment, as Kafka keeps them, and the newest two; older ones in the middle of a segment
are of no use any more (`superfluous`). Their formats are in `storage.producers.snapshot_format`.

A clean stop leaves one at the end of every log that is not empty, if only to say that there are no
producers. So where there is none it was lost, and the start replays the log.
"""

from __future__ import annotations

import posixpath
from bisect import insort
from collections.abc import Callable, Collection, Iterable
from functools import partial

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

    def unwritten(self, offset_max: int) -> dict[int, list[tuple[str, Encode]]]:
        """Files to write for each snapshot taken at or below `offset_max`: path and bytes.

        The bytes are made when they are asked for, which takes 1 µs a producer: in the thread that
        writes them. Ours comes first: where a `.snapshot` with producers stands, its `.producers`
        does too.
        """
        found: dict[int, list[tuple[str, Encode]]] = {}
        for offset, entries in self._unwritten.items():
            if offset <= offset_max:
                history = posixpath.join(self.directory, producers_name(offset))
                snapshot = posixpath.join(self.directory, snapshot_name(offset))
                found[offset] = [(snapshot, partial(encode_snapshot, entries))]
                if entries:
                    found[offset].insert(0, (history, partial(encode_history, entries)))
        return found

    def settle(self, offsets: Iterable[int]) -> None:
        """Note that the snapshots taken at these offsets are on disk."""
        for offset in offsets:
            if self._unwritten.pop(offset, None) is not None and offset not in self.offsets:
                insort(self.offsets, offset)

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

    def superfluous(
        self, segment_base_offsets: Collection[int], unwritten: Iterable[int] = ()
    ) -> list[int]:
        """What nothing will ask for again when the `unwritten` ones are on disk: the offsets."""
        offsets = sorted({*self.offsets, *unwritten})
        return [offset for offset in offsets[:-2] if offset not in segment_base_offsets]

    def forget(self, offsets: Collection[int]) -> None:
        """Let go of some snapshots."""
        self.offsets = [offset for offset in self.offsets if offset not in offsets]

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
