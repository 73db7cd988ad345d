"""Directories that have the name of a partition and belong to no topic: moved out of the way.

A crash in the middle of a deletion leaves some; an operator may have put one there. A later topic
of the same name must not find one, so they are renamed:

    its topic was removed, and a crash kept the directory    to `…-delete`: the deletion goes on
    its topic id cannot be read, and it holds no records     to `…-delete`: a crash tore what was
                                                             never synced, and nothing is lost
    anything else                                            to `…-stray`, and kept, as by Kafka
                                                             (LogManager.loadLog)

A name is free when the rename is durable: a power cut could undo it under the next topic.
`InTheWay` holds the names that could not be freed: the broker creates no topic and no partition
under them, and tries again. So a directory whose topic id cannot be read belongs to the partition
that the metadata has under its name, and `storage.opening` may adopt it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final, NamedTuple

from storage.data_directory import DataDirectory
from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.filesystem import FileSystem
from storage.files.text_files import read_partition_metadata
from storage.home import Home
from storage.offset_checkpoints import Key, OffsetCheckpoints

CHUNK_BYTES: Final = 1024 * 1024


class Aside(NamedTuple):
    """A directory that was renamed; `is_kept` says that it is a stray and not to be deleted."""

    key: Key
    moved_to: str
    is_kept: bool


def put_aside(
    filesystem: FileSystem, directory: DataDirectory, key: Key, removed: Container[bytes] = ()
) -> Aside | None:
    """Rename the directory of a partition, if there is one, as the module says; not synced.

    `removed` are ids of removed topics. Raises OSError.
    """
    path = directory.partition_path(*key)
    if not filesystem.exists(path):
        return None
    is_kept = not _is_deleted(filesystem, path, removed)
    moved_to = directory.stray_path(*key) if is_kept else directory.deleted_path(*key)
    filesystem.rename(path, moved_to)
    return Aside(key, moved_to, is_kept)


def _is_deleted(filesystem: FileSystem, path: str, removed: Container[bytes]) -> bool:
    try:
        metadata = posixpath.join(path, filenames.PARTITION_METADATA)
        topic_id = read_partition_metadata(filesystem, metadata)
    except CheckpointError:
        topic_id = None
    return topic_id in removed if topic_id is not None else not _has_records(filesystem, path)


def _has_records(filesystem: FileSystem, path: str) -> bool:
    """Whether a partition's directory may hold records, or anything that is not the broker's."""
    for name in filesystem.list(path):
        parsed = filenames.parse(name)
        inner = posixpath.join(path, name)
        if parsed is None or filesystem.is_directory(inner):
            return True
        is_log = parsed.kind is Kind.SEGMENT and parsed.file == filenames.LOG
        if parsed.kind not in (Kind.FILE, Kind.SEGMENT, Kind.TEMPORARY):
            return True
        if is_log and not _is_zeros(filesystem, inner):
            return True
    return False


def _is_zeros(filesystem: FileSystem, path: str) -> bool:
    """Whether a file is empty, or all zeros, as a power cut leaves what was not synced."""
    file = filesystem.open(path, write=False)
    try:
        return not any(
            file.pread(CHUNK_BYTES, position).strip(b"\0")
            for position in range(0, file.size(), CHUNK_BYTES)
        )
    finally:
        file.close()


def _told(aside: Aside) -> str:
    name = filenames.partition_directory(*aside.key)
    if aside.is_kept:
        return f"{name} belongs to no topic: kept as {posixpath.basename(aside.moved_to)}"
    return f"{name} was left by an unfinished deletion: it is deleted now"


class Clearing:
    """Moves the directories of some partitions out of the way; `run` may run in a thread.

    `removed` holds, for each, the ids of removed topics that it may have.
    """

    __slots__ = ("_directory", "_filesystem", "_removed", "freed", "left", "moved")

    def __init__(
        self,
        filesystem: FileSystem,
        directory: DataDirectory,
        removed: Mapping[Key, Container[bytes]],
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._removed = removed
        self.moved: list[Aside] = []
        self.freed: list[Key] = []  # those whose names are free, durably
        self.left: dict[Key, OSError] = {}  # and the others

    def run(self) -> None:
        """Rename the directories, with one sync for all. Blocks."""
        for key, removed in self._removed.items():
            try:
                aside = put_aside(self._filesystem, self._directory, key, removed)
            except OSError as error:
                self.left[key] = error
            else:
                if aside is not None:
                    self.moved.append(aside)
        try:
            self._filesystem.sync_directory(self._directory.path)
        except OSError as error:
            self.left = dict.fromkeys(self._removed, error) | self.left
        self.freed = [key for key in self._removed if key not in self.left]


class InTheWay:
    """The partitions whose names directories of other topics have, perhaps not durably freed.

    `topics` holds the names of their topics. It is replaced and never changed, so that a thread
    may read it: no partition of these topics may be recorded.
    """

    __slots__ = ("_checkpoints", "_complained", "_directory", "_home", "_is_under_way", "_removed",
                 "_warn", "topics")  # fmt: skip

    def __init__(
        self,
        home: Home,
        directory: DataDirectory,
        checkpoints: OffsetCheckpoints,
        warn: Callable[[str], None],
    ) -> None:
        self._home = home
        self._directory = directory
        self._checkpoints = checkpoints
        self._warn = warn
        self._removed: dict[Key, Container[bytes]] = {}
        self._complained: set[Key] = set()
        self._is_under_way = False
        self.topics: frozenset[str] = frozenset()

    def clear_unnamed(self, named: Container[Key], removed: Container[bytes], now_ms: int) -> None:
        """Move the directories of partitions that are not `named`. Blocks: for the start.

        `removed` are ids of topics whose removal is durable. A directory with one of them is
        deleted if a crash may have interrupted that; after a clean stop an operator has put it
        there. Raises OSError if the data directory cannot be listed.
        """
        kept = self._directory.stray_names()
        keys = self._directory.unwanted(named)
        self.add(keys, () if self._directory.was_clean else removed)
        clearing = self.begin()
        if clearing is not None:
            try:
                clearing.run()
            finally:
                self.finish(clearing, now_ms)
        if kept:
            self._warn(
                f"{self._directory.path} still has directories that were put aside, {len(kept)} in "
                f"all; move them away or delete them: {', '.join(kept[:3])}"
                f"{', …' if kept[3:] else ''}"
            )

    def add(self, keys: Iterable[Key], removed: Container[bytes]) -> None:
        """Add partitions; `removed` are ids of removed topics that their directories may have."""
        self._removed.update(dict.fromkeys(keys, removed))
        self._note()

    def begin(self) -> Clearing | None:
        """Begin to move them; None if there are none, or if that is under way already."""
        if not self._removed or self._is_under_way:
            return None
        self._is_under_way = True
        return Clearing(self._home.filesystem, self._directory, dict(self._removed))

    def finish(self, clearing: Clearing, now_ms: int) -> None:
        """Forget those whose names are free now, and tell the operator what was moved."""
        self._is_under_way = False
        for aside in clearing.moved:
            self._checkpoints.drop(aside.key)
            self._home.checkpoint_changes += 1
            if not aside.is_kept:
                self._home.trash.toss_directory(now_ms, aside.moved_to)
            self._warn(_told(aside))
        for key in clearing.freed:
            self._removed.pop(key, None)
            self._complained.discard(key)
        for key, error in clearing.left.items():
            if key not in self._complained:
                self._complained.add(key)
                self._warn(
                    f"{filenames.partition_directory(*key)} is of another topic and cannot be put "
                    f"aside, will retry: {error}. Until then, topic {key[0]} cannot be created or "
                    "enlarged"
                )
        self._note()

    def _note(self) -> None:
        self.topics = frozenset(topic for topic, _ in self._removed)
