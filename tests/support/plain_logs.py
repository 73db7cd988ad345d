"""Logs of one plain file each, for tests of the layers above storage.

They implement those parts of `storage.log.Log` and `LogManager` that the metadata package uses
(append_own, flush, offsets, a sticky failure, cutting a torn tail) and nothing else.
"""

from __future__ import annotations

from types import SimpleNamespace

from protocol.record_errors import RecordError
from protocol.records import batches, stamp, verify
from storage.errors import LogFailed, UnknownPartition
from storage.files import filenames


class PlainFlush:
    def __init__(self, file, end_offset):
        self._file = file
        self.end_offset = end_offset

    def run(self):
        self._file.fdatasync()


class PlainLog:
    def __init__(self, filesystem, directory, topic, partition, topic_id, config, leader_epoch):
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = leader_epoch
        self.directory = directory
        self.failed = None
        self.fail_next = None
        names = sorted(name for name in filesystem.list(directory) if name.endswith(".log"))
        path = f"{directory}/{names[-1] if names else filenames.log_name(0)}"
        is_new = not filesystem.exists(path)
        self._file = filesystem.open(path, create=is_new, write=True)
        if is_new:
            filesystem.sync_directory(directory)
        self._size = 0
        self.end_offset = int(names[-1][:20]) if names else 0
        self._recover(self._file.pread(self._file.size(), 0))
        self.durable_offset = self.end_offset

    def _recover(self, data):
        try:
            while self._size < len(data):
                header = verify(data, self._size)
                self.end_offset = header.next_offset
                self._size += header.size
        except RecordError:
            self._file.truncate(self._size)

    @property
    def segments(self):
        """Return the segments, with only the attributes that the metadata log uses."""
        file = SimpleNamespace(path=self._file.path, size=self._size, reserve=self._reserve)
        return SimpleNamespace(active=SimpleNamespace(log_file=file))

    def _reserve(self, size_bytes):
        try:
            self._file.reserve(self._size + size_bytes)
        except OSError:
            return False
        return True

    def load_end(self) -> None:
        """Do nothing: the end is always known."""

    def append_own(self, batch, now_ms):
        del now_ms
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            raise error
        stamp(batch, 0, self.end_offset, self.leader_epoch)
        self._file.pwrite(batch, self._size)
        self._size += len(batch)
        for _position, header in batches(batch):
            self.end_offset = header.next_offset

    def begin_flush(self):
        if self.durable_offset == self.end_offset:
            return None
        return PlainFlush(self._file, self.end_offset)

    def finish_flush(self, flush, error):
        if error is not None:
            self.failed = LogFailed(self.directory, f"fsync failed: {error}")
        else:
            self.durable_offset = flush.end_offset

    def close(self):
        self._file.close()


class PlainLogs:
    """The logs of one data directory."""

    def __init__(self, filesystem, data_directory):
        self.filesystem = filesystem
        self.data_directory = data_directory
        self.logs = {}
        self.fail_on = {}  # (topic, partition) -> exception of the next open_log or delete_log

    def _fail(self, key):
        if key in self.fail_on:
            raise self.fail_on.pop(key)

    def open_log(self, topic, partition, topic_id, config, leader_epoch, *, create=False):
        self._fail((topic, partition))
        directory = f"{self.data_directory}/{filenames.partition_directory(topic, partition)}"
        if not self.filesystem.exists(directory):
            if not create:
                raise UnknownPartition(topic, partition)
            self.filesystem.mkdir(directory)
            self.filesystem.sync_directory(self.data_directory)
        log = PlainLog(self.filesystem, directory, topic, partition, topic_id, config, leader_epoch)
        self.logs[topic, partition] = log
        return log

    def has_directory(self, topic, partition):
        name = filenames.partition_directory(topic, partition)
        return self.filesystem.exists(f"{self.data_directory}/{name}")

    def delete_log(self, topic, partition):
        self._fail((topic, partition))
        try:
            log = self.logs.pop((topic, partition))
        except KeyError:
            raise UnknownPartition(topic, partition) from None
        moved = f"{self.data_directory}/{filenames.deleted_directory(topic, partition, 'a' * 32)}"
        self.filesystem.rename(log.directory, moved)
        return moved
