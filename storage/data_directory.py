"""The data directory itself: its lock, its identity, its clean mark and the names in it.

    .lock                     held by one process at a time
    meta.properties           cluster, node and directory id; the broker needs it to start
    .kafka_cleanshutdown      the clean mark: the last stop made everything durable

The mark is removed, durably, before the first log is loaded. So however the process ends from then
on, the next start treats it as a crash (KAFKA-10471). A clean stop writes the mark last.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container
from typing import Final

from storage.errors import CorruptMetadata
from storage.files import filenames, meta_properties
from storage.files.filenames import Kind
from storage.files.filesystem import FileSystem
from storage.files.locks import LockHandle
from storage.files.meta_properties import MetaProperties, random_uuid
from storage.files.text_files import encode_clean_shutdown, uuid_text

DEFAULT_NODE_ID: Final = 1


class DataDirectory:
    """The directory at `path`. `random_bytes` is os.urandom outside tests.

    `node_id`, if given, must match the directory's. A new directory gets `cluster_id`, or a
    generated one.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        random_bytes: Callable[[int], bytes],
        *,
        node_id: int | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.filesystem = filesystem
        self.path = path
        self.was_clean = False
        self.is_new = False
        self.meta: MetaProperties
        self._random_bytes = random_bytes
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._lock: LockHandle | None = None

    # -- Begin and end ------------------------------------------------------------------------

    def open(self) -> None:
        """Create the directory if it is missing, lock it, read its identity and its clean mark.

        Raises DirectoryLocked, CorruptMetadata, OSError; call `close` then.
        """
        self._make(self.path)
        self._lock = self.filesystem.lock(self.path_of(filenames.LOCK))
        self._identify()
        marker = self.path_of(filenames.CLEAN_SHUTDOWN)
        self.was_clean = self.is_new or self.filesystem.exists(marker)

    def remove_clean_mark(self) -> None:
        """Remove the clean mark durably. Raises OSError."""
        marker = self.path_of(filenames.CLEAN_SHUTDOWN)
        if self.filesystem.exists(marker):
            self.filesystem.unlink(marker)
        # This also syncs the names of logs that a killed process created and never flushed, before
        # recovery treats their contents as durable.
        self.filesystem.sync_directory(self.path)

    def write_clean_mark(self, broker_epoch: int) -> None:
        """Write the clean mark: everything is durable. Raises OSError.

        If Kafka starts on this directory and finds its own `broker_epoch`, it elects no leaders.
        """
        path = self.path_of(filenames.CLEAN_SHUTDOWN)
        self.filesystem.replace(path, encode_clean_shutdown(broker_epoch))

    def close(self) -> None:
        """Release the lock, if it is held."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _make(self, path: str) -> None:
        if self.filesystem.exists(path):
            return
        parent = posixpath.dirname(posixpath.abspath(path))
        self._make(parent)
        self.filesystem.mkdir(path)
        self.filesystem.sync_directory(parent)

    def _identify(self) -> None:
        """Read meta.properties; write it if the directory has no partitions yet."""
        path = self.path_of(filenames.META_PROPERTIES)
        meta = meta_properties.read(self.filesystem, path)
        wanted = self._node_id
        if meta is None:
            partitions = self.names(Kind.PARTITION)
            if partitions:
                raise CorruptMetadata(
                    path,
                    f"missing, but partition {partitions[0]} exists: restore the file from a "
                    "backup, or start on an empty directory",
                )
            self.is_new = True
            self.meta = MetaProperties(
                cluster_id=self._cluster_id or uuid_text(random_uuid(self._random_bytes)),
                node_id=DEFAULT_NODE_ID if wanted is None else wanted,
                directory_id=random_uuid(self._random_bytes),
            )
            meta_properties.write(self.filesystem, path, self.meta)
            return
        if wanted is not None and meta.node_id != wanted:
            raise CorruptMetadata(
                path,
                f"node.id={meta.node_id}, but the configuration has node.id={wanted}: change one",
            )
        if meta.directory_id is None:
            meta = MetaProperties(
                cluster_id=meta.cluster_id,
                node_id=meta.node_id,
                directory_id=random_uuid(self._random_bytes),
            )
            meta_properties.write(self.filesystem, path, meta)
        self.meta = meta

    # -- Names --------------------------------------------------------------------------------

    def path_of(self, name: str) -> str:
        """Return the path of a name in this directory."""
        return posixpath.join(self.path, name)

    def partition_path(self, topic: str, partition: int) -> str:
        """Return the path of a partition's directory, whether it exists or not."""
        return self.path_of(filenames.partition_directory(topic, partition))

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether the partition's directory exists, whether its log is open or not."""
        return self.filesystem.exists(self.partition_path(topic, partition))

    def stray_path(self, topic: str, partition: int) -> str:
        """Return a new path for a directory that belongs to no topic."""
        return self._moved_path(topic, partition, "stray")

    def deleted_path(self, topic: str, partition: int) -> str:
        """Return a new path for the directory of a deleted log."""
        return self._moved_path(topic, partition, "delete")

    def _moved_path(self, topic: str, partition: int, transit: str) -> str:
        unique = self._random_bytes(16).hex()
        name = filenames.deleted_directory(topic, partition, unique)
        return self.path_of(name.removesuffix("delete") + transit)

    def names(self, kind: Kind) -> list[str]:
        """List the names of one kind. Raises OSError."""
        found = []
        for name in self.filesystem.list(self.path):
            parsed = filenames.parse(name)
            if parsed is not None and parsed.kind is kind:
                found.append(name)
        return found

    def deleted_paths(self) -> list[str]:
        """List the directories of deleted logs that still exist. Raises OSError."""
        names = self.names(Kind.MOVED_PARTITION)
        return [self.path_of(name) for name in names if name.endswith("-delete")]

    def stray_names(self) -> list[str]:
        """List the directories that were set aside because they belong to no topic.

        Raises OSError.
        """
        return [name for name in self.names(Kind.MOVED_PARTITION) if name.endswith("-stray")]

    def unwanted(self, wanted: Container[tuple[str, int]]) -> list[tuple[str, int]]:
        """List the partitions that have a directory and are not `wanted`. Raises OSError."""
        found = []
        for name in self.names(Kind.PARTITION):
            parsed = filenames.parse(name)
            assert parsed is not None, "its kind is known"
            key = parsed.topic, parsed.partition
            if key not in wanted and self.filesystem.is_directory(self.path_of(name)):
                found.append(key)
        return found

    def strays(self, wanted: Container[tuple[str, int]]) -> list[str]:
        """List unknown names, and directories of partitions that are not `wanted`.

        Raises OSError.
        """
        found = []
        for name in self.filesystem.list(self.path):
            parsed = filenames.parse(name)
            if parsed is None or (
                parsed.kind is Kind.PARTITION and (parsed.topic, parsed.partition) not in wanted
            ):
                found.append(name)
        return found
