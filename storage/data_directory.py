"""The data directory itself: which process holds it, which node it belongs to, how it was left.

    .lock                     held by one process at a time
    meta.properties           cluster, node and directory id; without it there is no start
    .kafka_cleanshutdown      the clean mark: the last stop flushed everything

The mark is removed, durably, before the first log is loaded: whatever ends the process from then
on, the next start takes it for a crash (KAFKA-10471). It is written last, by a clean stop.
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
    """The directory at `path`. `random_bytes` is os.urandom in life.

    `node_id` must be the directory's, if given; `cluster_id` is for a new one, None draws one.
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
        """Make the directory if need be, lock it, and read whose it is and how it was left.

        Raises DirectoryLocked, CorruptMetadata, OSError; `close` it then.
        """
        self._make(self.path)
        self._lock = self.filesystem.lock(self.path_of(filenames.LOCK))
        self._identify()
        marker = self.path_of(filenames.CLEAN_SHUTDOWN)
        self.was_clean = self.is_new or self.filesystem.exists(marker)

    def remove_clean_mark(self) -> None:
        """Have the next start take this one's end for a crash. Raises OSError."""
        marker = self.path_of(filenames.CLEAN_SHUTDOWN)
        if self.filesystem.exists(marker):
            self.filesystem.unlink(marker)
        # Also the names of logs that a killed process made and never flushed: recovery is
        # about to call what is in them durable.
        self.filesystem.sync_directory(self.path)

    def write_clean_mark(self, broker_epoch: int) -> None:
        """Say that everything is durable. Raises OSError.

        A Kafka that starts here and finds its own `broker_epoch` need not elect leaders anew.
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
        """Read meta.properties, or write it for a directory without partitions."""
        path = self.path_of(filenames.META_PROPERTIES)
        meta = meta_properties.read(self.filesystem, path)
        wanted = self._node_id
        if meta is None:
            partitions = self.names(Kind.PARTITION)
            if partitions:
                raise CorruptMetadata(
                    path,
                    f"missing, but {partitions[0]} and perhaps others are there: restore it from "
                    "a backup, or start on an empty directory",
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
                path, f"node.id={meta.node_id}, but the configuration says {wanted}: change one"
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
        """Whether a directory of that partition exists, its log open or not."""
        return self.filesystem.exists(self.partition_path(topic, partition))

    def stray_path(self, topic: str, partition: int) -> str:
        """Return a new path under which another topic's directory is put aside."""
        return self._moved_path(topic, partition, "stray")

    def deleted_path(self, topic: str, partition: int) -> str:
        """Return a new path for the directory of a log that is deleted."""
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
        """List the directories of deleted logs that are still there. Raises OSError."""
        names = self.names(Kind.MOVED_PARTITION)
        return [self.path_of(name) for name in names if name.endswith("-delete")]

    def strays(self, wanted: Container[tuple[str, int]]) -> list[str]:
        """List foreign names, and directories of partitions that are not `wanted`. Raises OSError.

        They are left alone.
        """
        found = []
        for name in self.filesystem.list(self.path):
            parsed = filenames.parse(name)
            if parsed is None or (
                parsed.kind is Kind.PARTITION and (parsed.topic, parsed.partition) not in wanted
            ):
                found.append(name)
        return found
