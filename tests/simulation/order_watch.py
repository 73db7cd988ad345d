"""Objects to file calls in an order that a power cut would make a loss of.

A file that says something about others may not come before them, whether the power is cut then or
not. So each of these is looked at when it gets its name:

    the clean mark           all logs are on the disk
    recovery points          each log is on the disk up to its point, and ends there or later
    a metadata snapshot      the metadata log is on the disk up to the snapshot's end
    a swap of compaction     its bytes are on the disk
    a directory to delete    the removal of its topic is on the disk, if the metadata log has it
    a new log's directory    no checkpoint on the disk has an offset of another log of that name

No write counts as synced that no sync has covered, because it came later or the sync has failed.

Small files that are always replaced are never written in place. A sync of a log's file after one
that failed saves nothing of what that one has lost, so there is none before the file is rewritten.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.text_files import CheckpointError, decode_offsets, decode_partition_metadata
from tests.simulation import disk_logs
from tests.support.memory_inodes import Directory, Inode

LISTED_MAX: Final = 10
_OFFSETS: Final = (filenames.RECOVERY_POINT_CHECKPOINT, filenames.LOG_START_CHECKPOINT)
_LOG: Final = f".{filenames.LOG}"
_REPLACED: Final = (
    filenames.META_PROPERTIES,
    filenames.CLEAN_SHUTDOWN,
    filenames.RECOVERY_POINT_CHECKPOINT,
    filenames.LOG_START_CHECKPOINT,
    filenames.LEADER_EPOCH_CHECKPOINT,
)
# A record of the metadata log: the version of its frame, the API key of REMOVE_TOPIC_RECORD, the
# version of the record; the topic's id comes next.
_REMOVE_TOPIC: Final = b"\x01\x09\x00"


class OrderWatch:
    """See the module. `found` holds the objections, each once."""

    def __init__(self, directory_of: Callable[[str], Directory]) -> None:
        self.found: list[str] = []
        self._directory_of = directory_of
        self._lost: dict[int, tuple[Inode, int]] = {}  # files with a failed sync, and up to where

    def new_process(self) -> None:
        """Begin anew: the next process knows that it must write again."""
        self._lost.clear()

    def _object(self, what: str) -> None:
        if what not in self.found and len(self.found) < LISTED_MAX:
            self.found.append(what)

    def noted_too_much(self, path: str) -> None:
        """Object: the broker counts writes of a file as synced that no sync has covered."""
        self._object(f"writes of {path} count as synced, and no sync has covered them")

    # -- Names --------------------------------------------------------------------------------

    def replaced(self, path: str, data: bytes) -> None:
        """Look at a file that has just got its name."""
        parent, name = posixpath.split(path)
        if name == filenames.CLEAN_SHUTDOWN:
            for log, what in disk_logs.missing_anywhere(self._directory_of(parent)):
                self._object(f"the clean mark is there, and of {log} {what} is not on the disk")
        elif name == filenames.RECOVERY_POINT_CHECKPOINT:
            self._look_at_points(parent, path, data)
        elif posixpath.basename(parent) == filenames.METADATA_DIRECTORY:
            parsed = filenames.parse(name)
            if parsed is not None and parsed.kind is Kind.METADATA_SNAPSHOT:
                what = disk_logs.missing(self._directory_of(parent), parsed.base_offset)
                if what:
                    self._object(f"{name} is there, and of its log {what} is not on the disk")

    def _look_at_points(self, parent: str, path: str, data: bytes) -> None:
        directory = self._directory_of(parent)
        try:
            points = decode_offsets(path, data)
        except CheckpointError as error:
            self._object(str(error))
            return
        for (topic, partition), point in sorted(points.items()):
            name = filenames.partition_directory(topic, partition)
            log = directory.live.get(name)
            if not isinstance(log, Directory) or not point:  # 0 says nothing: a log is being made
                continue
            what = disk_logs.missing(log, point) or disk_logs.missing_name(directory, name)
            if what:
                self._object(f"the recovery point of {name} is {point}, {what} is not on the disk")
                continue
            end = disk_logs.end_offset(log)
            if end is not None and point > end:
                self._object(f"the recovery point of {name} is {point}, it ends at {end}")

    def made(self, path: str) -> None:
        """Look at a directory that was just made."""
        parent, name = posixpath.split(path)
        parsed = filenames.parse(name)
        if parsed is None or parsed.kind is not Kind.PARTITION:
            return
        for file in _OFFSETS:
            node = self._directory_of(parent).durable.get(file)
            with suppress(CheckpointError):
                data = bytes(node.durable) if isinstance(node, Inode) else b""
                offset = decode_offsets(file, data).get((parsed.topic, parsed.partition), 0)
                if offset:
                    self._object(f"{path} is made, and {file} has {offset} for it on the disk")

    def renamed(self, old: str, new: str) -> None:
        """Look at a file or directory that has just got another name."""
        name = filenames.parse(posixpath.basename(new))
        if name is None:
            return
        if name.kind is Kind.SEGMENT and name.file == filenames.LOG:
            before = filenames.parse(posixpath.basename(old))
            if before is not None and before.transit and name.transit != filenames.DELETED:
                inode = self._directory_of(posixpath.dirname(new)).live[posixpath.basename(new)]
                if isinstance(inode, Inode) and inode.live != inode.durable:
                    self._object(f"{old} is renamed to {new} before its bytes are on the disk")
        elif name.kind is Kind.MOVED_PARTITION and name.transit == "delete":
            self._look_at_removal(new)

    def _look_at_removal(self, path: str) -> None:
        metadata = self._directory_of(path).live.get(filenames.PARTITION_METADATA)
        data = self._directory_of(posixpath.dirname(path))
        log = data.live.get(filenames.METADATA_DIRECTORY)
        if not isinstance(metadata, Inode) or not isinstance(log, Directory):
            return
        try:
            topic_id = decode_partition_metadata(path, bytes(metadata.live))
        except CheckpointError:
            return
        record = _REMOVE_TOPIC + (topic_id or b"")
        files = [node for node in log.live.values() if isinstance(node, Inode)]
        if topic_id and any(record in one.live and record not in one.durable for one in files):
            self._object(f"{path} is to be deleted, and its topic's removal is not on the disk")

    # -- Bytes --------------------------------------------------------------------------------

    def written(self, path: str) -> None:
        """Look at a write into a file, or a cut of it."""
        if path.endswith(_REPLACED):
            self._object(f"{path} is written in place")

    def sync_failed(self, path: str, inode: Inode) -> None:
        """Note what a failed sync has lost, before the disk forgets it."""
        if path.endswith(_LOG):
            self._lost[id(inode)] = inode, len(inode.live)

    def synced(self, path: str, inode: Inode) -> None:
        """Look at a sync that went well."""
        found = self._lost.get(id(inode))
        if found is None:
            return
        size = min(found[1], len(inode.live))
        if inode.live[:size] != inode.durable[:size]:
            self._object(f"{path} is synced again after a sync that failed, and not rewritten")
