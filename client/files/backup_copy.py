"""Copies the files of a cut into a new directory, or links those that an earlier backup has.

    logs               all segments below the newest one, and the newest one up to the cut
    indexes            of all segments but the newest one, whose indexes the start makes again; of
                       its list of aborted transactions, what is below the recovery point
    producer snapshots the newest one below the recovery point
    small files        partition.metadata, leader epochs, meta.properties, as they are
    offset checkpoints as they were read before the cut

`partition.metadata` is written once, and copied after the segments of its log. So if it is the file
of the cut, the log is not that of a new topic of this name, whose files may reuse inodes.

`leader-epoch-checkpoint` must be that of the cut, too: retention moves its beginning.

Closed segments do not change. So a file that an earlier backup has under the same name, with the
same size and time, is linked. A file that was written within two seconds before that backup began
is copied again, because a file system's clock has ticks. The others are opened at once
(`backup_pins`). When one has gone since the cut, or its file is another one, the copy cannot be
finished (`Changed`); what was copied is used again by the next attempt.

Each file is on the disk before its name gets its time, so a time that is right is that of a whole
file, also after a crash.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from client.files.backup_cut import Changed, Cut, LogFiles, NotBackedUp, Stamp
from client.files.backup_pins import Pins
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.text_files import encode_offsets

TICK_NS: Final = 2_000_000_000
FILE_MODE: Final = 0o640
_NO_LINKS: Final = (errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)
_COPY_BYTES: Final = 8 << 20
_INDEXES: Final = (filenames.OFFSET_INDEX, filenames.TIME_INDEX, filenames.TRANSACTION_INDEX)
_ABORT: Final = struct.Struct(">hqqqq")  # version, producer, first offset, marker, stable offset
_SNAPSHOTS: Final = (filenames.SNAPSHOT, filenames.PRODUCERS)
_CHANGING: Final = (filenames.QUORUM_STATE,)


class Wanted(NamedTuple):
    """A file to copy: its first `size` bytes. `stamp`: None if it may be replaced meanwhile.

    Of a list of aborted transactions that grows, the entries of markers below `below`.
    """

    name: str
    size: int
    stamp: Stamp | None
    below: int = -1


@dataclass(slots=True)
class Earlier:
    """An earlier backup, whose files may be linked."""

    path: str
    taken_ns: int


@dataclass(slots=True)
class Counts:
    """What a backup consists of."""

    copied_files: int = 0
    copied_bytes: int = 0
    linked_files: int = 0
    linked_bytes: int = 0


class BackupCopy:
    """Copies a cut of `data` to the directory `to`."""

    def __init__(
        self, data: str, to: str, earlier: Earlier | None, progress: Callable[[int], None]
    ) -> None:
        self._data = data
        self.path = to
        self._earlier = earlier
        self._progress = progress
        self.counts = Counts()

    def begin_anew(self) -> None:
        """Forget the earlier backup, and what was copied."""
        self._earlier = None
        for name in os.listdir(self.path):
            remove_tree(os.path.join(self.path, name))

    def needed_bytes(self, cut: Cut) -> int:
        """Return how many bytes a copy would write."""
        return sum(
            one.size
            for log in cut.logs
            for one in wanted_files(log, cut)
            if not self._has(log.name, one) and self._linkable(log.name, one) is None
        )

    def run(self, cut: Cut) -> None:
        """Copy everything, durably. Raises Changed, OSError."""
        self.counts = Counts()
        names = {log.name for log in cut.logs}
        with Pins() as pins:
            if not cut.is_stopped:
                self._hold(cut, pins)
            for log in cut.logs:
                self._log(log, cut, pins)
        for name in os.listdir(self.path):
            if name not in names:
                remove_tree(os.path.join(self.path, name))
        known = {(log.topic, log.partition) for log in cut.logs}
        for name, offsets in (
            (filenames.RECOVERY_POINT_CHECKPOINT, cut.points),
            (filenames.LOG_START_CHECKPOINT, cut.starts),
            (filenames.CLEANER_CHECKPOINT, cut.cleaned),
        ):
            kept = {key: offset for key, offset in offsets.items() if key in known}
            if kept:
                write_durably(os.path.join(self.path, name), encode_offsets(kept))
        for name in (filenames.BOOTSTRAP_CHECKPOINT, filenames.META_PROPERTIES):
            self._small(name)
        if cut.is_stopped:
            self._small(filenames.CLEAN_SHUTDOWN)
        sync_directory(self.path)

    def _hold(self, cut: Cut, pins: Pins) -> None:
        """Open all files that are to be copied: from then on their names may go."""
        for log in cut.logs:
            for one in wanted_files(log, cut):
                if self._has(log.name, one) or self._linkable(log.name, one) is not None:
                    continue
                try:
                    if not pins.hold(os.path.join(self._data, log.name, one.name)):
                        return
                except FileNotFoundError:
                    if one.stamp is not None:
                        raise Changed(f"{log.name}/{one.name} was deleted") from None

    def _small(self, name: str) -> None:
        try:
            with open(os.path.join(self._data, name), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return
        write_durably(os.path.join(self.path, name), content)

    def _log(self, log: LogFiles, cut: Cut, pins: Pins) -> None:
        folder = os.path.join(self.path, log.name)
        os.makedirs(folder, exist_ok=True)
        wanted = list(wanted_files(log, cut))
        left = {*os.listdir(folder)} - {one.name for one in wanted}
        for name in left:  # of an attempt before
            os.unlink(os.path.join(folder, name))
        for one in wanted:
            self._file(log.name, one, pins)
        sync_directory(folder)

    def _file(self, log: str, one: Wanted, pins: Pins) -> None:
        target = os.path.join(self.path, log, one.name)
        earlier = self._linkable(log, one)
        if self._has(log, one):
            self._count(one, is_linked=os.stat(target).st_nlink > 1)
            return
        if os.path.lexists(target):
            os.unlink(target)
        if earlier is not None and _linked(earlier, target):
            self._count(one, is_linked=True)
            return
        if one.below >= 0:
            self._aborts(log, one, pins)
            return
        try:
            with pins.opened(os.path.join(self._data, log, one.name)) as source:
                copy_file(source, target, one.size, one.stamp)
        except FileNotFoundError:
            if one.stamp is None:
                return  # leader epochs, for example, that were not written yet
            raise Changed(f"{log}/{one.name} was deleted") from None
        self._count(one, is_linked=False)

    def _aborts(self, log: str, one: Wanted, pins: Pins) -> None:
        """Copy the entries that no recovery makes again."""
        try:
            with pins.opened(os.path.join(self._data, log, one.name)) as source:
                content = os.pread(source, os.fstat(source).st_size, 0)
        except FileNotFoundError:
            raise Changed(f"{log}/{one.name} was deleted") from None
        entries = (
            found
            for found in _ABORT.iter_unpack(content[: len(content) // _ABORT.size * _ABORT.size])
        )
        kept = b"".join(_ABORT.pack(*found) for found in entries if found[3] < one.below)
        if kept:
            write_durably(os.path.join(self.path, log, one.name), kept)
            self._count(one, is_linked=False)

    def _count(self, one: Wanted, *, is_linked: bool) -> None:
        if is_linked:
            self.counts.linked_files += 1
            self.counts.linked_bytes += one.size
        else:
            self.counts.copied_files += 1
            self.counts.copied_bytes += one.size
        self._progress(one.size)

    def _has(self, log: str, one: Wanted) -> bool:
        """Whether an attempt before has copied the file."""
        return _is_same(os.path.join(self.path, log, one.name), one)

    def _linkable(self, log: str, one: Wanted) -> str | None:
        """Return the file of the earlier backup that is the same one, if there is one."""
        earlier = self._earlier
        if earlier is None or one.stamp is None:
            return None
        path = os.path.join(earlier.path, log, one.name)
        if one.stamp.mtime_ns > earlier.taken_ns - TICK_NS or not _is_same(path, one):
            return None
        return path if self._is_same_topic(log) else None

    def _is_same_topic(self, log: str) -> bool:
        """Whether the earlier backup has the same topic under this name, not an older one."""
        assert self._earlier is not None
        ids = []
        for folder in (self._data, self._earlier.path):
            try:
                with open(os.path.join(folder, log, filenames.PARTITION_METADATA), "rb") as file:
                    ids.append(file.read())
            except FileNotFoundError:
                ids.append(b"")
        return ids[0] == ids[1]


def _linked(earlier: str, target: str) -> bool:
    """Link a file; return False where the file system has no links, or no more of this one."""
    try:
        os.link(earlier, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


def _is_same(path: str, one: Wanted) -> bool:
    """Whether a copy at `path` is of the file that is wanted: by size and time."""
    stamp = one.stamp
    if stamp is None or stamp.size != one.size:
        return False
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return (found.st_size, found.st_mtime_ns) == (stamp.size, stamp.mtime_ns)


def wanted_files(log: LogFiles, cut: Cut) -> Iterator[Wanted]:
    """Return the files of a log that a backup consists of."""
    point = cut.points.get((log.topic, log.partition), 0)
    parsed = {name: filenames.parse(name) for name in log.files}
    snapshots = [
        one.base_offset
        for one in parsed.values()
        if one is not None and one.file in _SNAPSHOTS and one.kind is Kind.SEGMENT
        if not one.transit and one.base_offset <= point
    ]
    for name, stamp in sorted(log.files.items()):
        one = parsed[name]
        if cut.is_stopped:
            yield Wanted(name, stamp.size, stamp)
        elif one is None or one.kind is Kind.TEMPORARY or one.transit:
            continue
        elif one.kind is not Kind.SEGMENT:
            is_replaced = one.file in _CHANGING
            yield Wanted(name, stamp.size, None if is_replaced else stamp)
        elif one.file == filenames.LOG:
            is_newest = one.base_offset == log.bases[-1]
            yield Wanted(name, log.end if is_newest else stamp.size, stamp)
        elif one.file in _INDEXES:
            if one.base_offset in log.bases[:-1]:
                yield Wanted(name, stamp.size, stamp)
            elif one.file == filenames.TRANSACTION_INDEX and one.base_offset in log.bases:
                yield Wanted(name, stamp.size, None, point)
        elif one.base_offset == max(snapshots, default=-1):
            yield Wanted(name, stamp.size, stamp)


def copy_file(source: int, target: str, size: int, stamp: Stamp | None) -> None:
    """Copy the first `size` bytes of an open file durably, or all of it if it has no stamp.

    Raises Changed if the source is not the file of the stamp, or OSError.
    """
    found = os.fstat(source)
    if stamp is None:
        size = found.st_size
    elif found.st_ino != stamp.inode or found.st_size < size:
        raise Changed(f"the file for {target} was replaced")
    with open(target, "xb", buffering=0, opener=_opener) as copy:
        if _copied(source, copy.fileno(), size) < size:
            raise Changed(f"the file for {target} became shorter")
        os.fdatasync(copy.fileno())
    if stamp is None:
        return
    after = os.fstat(source)
    is_whole = size == stamp.size
    if is_whole and (after.st_size, after.st_mtime_ns) == (stamp.size, stamp.mtime_ns):
        os.utime(target, ns=(stamp.mtime_ns, stamp.mtime_ns))
    elif is_whole and not target.endswith(f".{filenames.LOG}"):
        os.unlink(target)
        raise Changed(f"the file for {target} was written to")


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def _copied(source: int, target: int, size: int) -> int:
    """Copy up to `size` bytes; return how many there were."""
    done = 0
    try:
        while done < size:
            count = os.copy_file_range(source, target, min(_COPY_BYTES, size - done))
            if not count:
                break
            done += count
    except OSError as error:
        if done or error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    while done < size:  # another file system, an old kernel, or procfs
        data = os.pread(source, min(_COPY_BYTES, size - done), done)
        if not data:
            break
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
        done += len(data)
    return done


def write_durably(path: str, content: bytes) -> None:
    """Write a new file, or replace one, durably."""
    with open(path, "wb", opener=_opener) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_tree(path: str) -> None:
    """Remove a file, or a directory with all it holds, without following links."""
    import shutil

    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def check_room(path: str, needed: int) -> None:
    """Raise NotBackedUp if the disk of `path` has no room for so many bytes."""
    found = os.statvfs(path)
    free = found.f_bavail * found.f_frsize
    if needed > free:
        raise NotBackedUp(
            f"the disk of {path} has {free:,} bytes free, and {needed:,} are needed; free some, or"
            " choose another disk"
        )
