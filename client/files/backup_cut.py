"""The cut of a running broker's directory: how far each log is copied, so that all logs agree.

A copy of one log after the other would not be what any crash leaves: a transaction might be
committed in one log and unknown in another, a commit might point past its partition, and a producer
id might be given out again. Nobody stops the broker for a copy, so the cut is looked for:

    list     every file, with its inode, size and time
    sweep    the sizes of all newest segments: first the metadata log, __transaction_state and
             __consumer_offsets, then the others. They are the cut
    sweep    again. If meanwhile the metadata log and __transaction_state have not grown, and no
             log has got a marker of a transaction, no transaction changed its state during the
             first sweep. So the cut is what `kill -9` could have left at one moment
    list     again: no log has come, no segment has gone or come below the cut, and none was rolled
             before it

Otherwise the next attempt follows, a few milliseconds later. Two sweeps over 1,000 partitions take
some 5 ms. Records that arrive during a sweep are in the cut or not, each by itself; commits were
swept before the records that they point to.

The offset checkpoints are read before everything else, so their offsets are below the cut.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from stat import S_ISLNK, S_ISREG
from threading import Event
from typing import Final, NamedTuple

from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.os_filesystem import OsFileSystem
from storage.files.text_files import Offsets, read_offsets

TRANSACTION_TOPIC: Final = "__transaction_state"
GROUP_TOPIC: Final = "__consumer_offsets"
ATTEMPTS: Final = 1_000
PAUSE_SECONDS: Final = 0.005
_HEAD: Final = struct.Struct(">qi4xb4xH")  # offset, length, magic, attributes
_LENGTH_MIN: Final = 14  # of a message of magic 0
_CONTROL: Final = 0x20
_INDEX_ENTRY: Final = struct.Struct(">ii")
_CHUNK: Final = 1 << 20


class NotBackedUp(Exception):
    """The backup was refused, or failed; the text says why. Nothing was changed."""


class Changed(Exception):
    """The broker has changed something that the copy relies on; another attempt may succeed."""


class Stamp(NamedTuple):
    """What changes when a file is replaced or written."""

    inode: int
    size: int
    mtime_ns: int


@dataclass(slots=True)
class LogFiles:
    """The files of one partition; `end` is the position in its newest segment to copy up to."""

    name: str
    topic: str
    partition: int
    files: dict[str, Stamp]
    bases: list[int] = field(default_factory=list)
    end: int = 0

    @property
    def active(self) -> str:
        """The name of its newest segment's log."""
        return filenames.log_name(self.bases[-1])


@dataclass(frozen=True, slots=True)
class Cut:
    """Which files to copy. `is_stopped`: no broker is running, and each file is copied whole."""

    logs: Sequence[LogFiles]
    points: Offsets
    starts: Offsets
    cleaned: Offsets
    is_stopped: bool


def take_cut(data: str, *, is_stopped: bool) -> Cut:
    """Return a cut of the data directory. Raises NotBackedUp, OSError."""
    why = ""
    for _ in range(ATTEMPTS):
        try:
            return _attempt(data, is_stopped=is_stopped)
        except Changed as changed:
            why = str(changed)
            Event().wait(PAUSE_SECONDS)
    raise NotBackedUp(
        f"{data} changes faster than a backup can look at it: in {ATTEMPTS} attempts, {why}. Try"
        " again when fewer transactions end, or stop the broker"
    )


def _attempt(data: str, *, is_stopped: bool) -> Cut:
    filesystem = OsFileSystem()
    points, starts, cleaned = (
        _offsets(filesystem, os.path.join(data, name))
        for name in (
            filenames.RECOVERY_POINT_CHECKPOINT,
            filenames.LOG_START_CHECKPOINT,
            filenames.CLEANER_CHECKPOINT,
        )
    )
    logs = sorted(list_logs(data), key=_rank)
    cut = Cut(logs, points, starts, cleaned, is_stopped)
    if is_stopped:
        return cut
    for log in logs:
        _refuse_transit(log)
    growing = [log for log in logs if log.bases]
    for log in growing:
        log.end = _size(data, log)
    after = {log.name: _size(data, log) for log in reversed(growing)}
    for log in growing:
        end = after[log.name]
        listed = log.files[log.active].size
        if log.topic == filenames.METADATA_TOPIC and end != listed:
            raise Changed("the metadata log grew")
        if log.topic == TRANSACTION_TOPIC and end != log.end:
            raise Changed("transactions changed their states")
        if end != listed:
            _trim(data, log, end)
    _check_listed_again(data, cut)
    return cut


def _offsets(filesystem: OsFileSystem, path: str) -> Offsets:
    try:
        return read_offsets(filesystem, path)
    except CheckpointError:
        return {}  # a cache: a start without it takes longer


def _rank(log: LogFiles) -> tuple[int, str]:
    first = (filenames.METADATA_TOPIC, TRANSACTION_TOPIC, GROUP_TOPIC)
    return (first.index(log.topic) if log.topic in first else len(first)), log.name


def list_logs(data: str) -> Iterator[LogFiles]:
    """List the partitions and their files, the metadata log first. Raises Changed, OSError."""
    names = sorted(os.listdir(data), key=lambda name: name != filenames.METADATA_DIRECTORY)
    for name in names:
        parsed = filenames.parse(name)
        if parsed is None or parsed.kind is not Kind.PARTITION:
            continue
        files = {}
        try:
            with os.scandir(os.path.join(data, name)) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if S_ISLNK(found.st_mode):
                        raise NotBackedUp(
                            f"{entry.path} is a symbolic link, and its file may be changed"
                            " elsewhere; put the file itself there"
                        )
                    if not S_ISREG(found.st_mode):
                        continue
                    files[entry.name] = Stamp(found.st_ino, found.st_size, found.st_mtime_ns)
        except FileNotFoundError:
            raise Changed(f"{name} lost a file") from None
        except NotADirectoryError:
            continue
        yield LogFiles(name, parsed.topic, parsed.partition, files, _bases(files))


def _bases(files: dict[str, Stamp]) -> list[int]:
    names = (filenames.parse(name) for name in files)
    return sorted(
        one.base_offset
        for one in names
        if one is not None
        and one.kind is Kind.SEGMENT
        and one.file == filenames.LOG
        and not one.transit
    )


def _refuse_transit(log: LogFiles) -> None:
    """Wait for a compaction that is replacing files: some have no final name meanwhile."""
    if any(name.endswith(f".{filenames.SWAP}") for name in log.files):
        raise Changed(f"{log.name} was being compacted")


def _size(data: str, log: LogFiles) -> int:
    try:
        return os.stat(os.path.join(data, log.name, log.active)).st_size
    except FileNotFoundError:
        raise Changed(f"{log.name} lost its newest segment") from None


def _trim(data: str, log: LogFiles, after: int) -> None:
    """End the cut of a log after a whole batch; find markers that came during the sweeps."""
    path = os.path.join(data, log.name, log.active)
    try:
        with open(path, "rb", buffering=0) as file:
            start = _known_batch(os.path.splitext(path)[0] + ".index", log.end)
            end = start
            for position, size, is_control in _batches(file.fileno(), start, after):
                if position + size <= log.end:
                    end = position + size
                elif is_control:
                    raise Changed(f"a transaction ended in {log.name}")
    except FileNotFoundError:
        raise Changed(f"{log.name} lost its newest segment") from None
    log.end = end


def _known_batch(index: str, limit: int) -> int:
    """Return the position of a batch at or below `limit` that the offset index knows; else 0."""
    try:
        with open(index, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return 0
    best = 0
    for _, position in _INDEX_ENTRY.iter_unpack(data[: len(data) // 8 * 8]):
        if best < position <= limit:
            best = position
    return best


def _batches(fd: int, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Return position, size and whether it is a marker, for each batch that begins below `end`.

    The last one may reach beyond `end`. Ends where there is no batch.
    """
    position, begin, chunk = start, start, b""
    while position < end:
        if position + _HEAD.size > begin + len(chunk):
            begin, chunk = position, os.pread(fd, _CHUNK, position)
            if len(chunk) < _HEAD.size:
                return
        _, length, magic, attributes = _HEAD.unpack_from(chunk, position - begin)
        if length < _LENGTH_MIN or magic not in (0, 1, 2):
            return
        yield position, 12 + length, magic == 2 and bool(attributes & _CONTROL)
        position += 12 + length


def _check_listed_again(data: str, cut: Cut) -> None:
    """Raise Changed if a log came, or a segment came or went below the cut or was rolled before."""
    again = {log.name: log for log in list_logs(data)}
    new = again.keys() - {log.name for log in cut.logs}
    if new:  # commits may point into it already
        raise Changed(f"{min(new)} was created")
    for log in cut.logs:
        now = again.get(log.name)
        if now is None:
            raise Changed(f"{log.name} was deleted")
        _refuse_transit(now)
        if not log.bases:
            continue
        if [base for base in now.bases if base <= log.bases[-1]] != log.bases:
            raise Changed(f"segments of {log.name} were deleted or compacted")
        if now.bases != log.bases and now.files[log.active].size == log.end:
            raise Changed(f"{log.name} was rolled")
