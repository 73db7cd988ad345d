"""A disk with faults at chosen calls: storage's file system interface over the operating system.

A fault is one line:   ACTION WHEN OPERATION NAME [NTH[+]]

    ACTION     kill (SIGKILL to this process), power (cut the power of the ext4 below, then
               kill), eio, enospc, or delay:MILLISECONDS
    WHEN       before or after the operation, or half: half of a pwrite's bytes are written
    OPERATION  open, create, pwrite, fdatasync, truncate, rename, unlink, sync_directory
    NAME       a pattern for the end of the path (fnmatch); of a rename, for the new name
    NTH        the number of the call since the process started, default 1; `+`: from then on

so `kill after fdatasync *.log 3`. `replace` is done in its steps here (write, fsync, rename, fsync
of the directory), so that each of them can fail.

After an `eio` at an fdatasync the disk lies as Linux does: the pages count as clean, so every later
fdatasync of that file succeeds and saves nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import threading
import time
from dataclasses import dataclass, field
from fnmatch import fnmatch

from storage.files.filesystem import TEMPORARY_SUFFIX, Buffer
from storage.files.os_filesystem import OsFile, OsFileSystem

SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN (_IOR('X', 125, __u32)), as xfstests' godown uses it
NO_LOG_FLUSH = 2  # what the journal holds in memory is lost, too
ERRORS = {"eio": errno.EIO, "enospc": errno.ENOSPC, "erofs": errno.EROFS}
ACTIONS = ("kill", "power", *ERRORS)
MOMENTS = ("before", "half", "after")
OPERATIONS = (
    "open", "create", "pwrite", "fdatasync", "truncate", "rename", "unlink", "sync_directory",
)  # fmt: skip


def cut_power(path: str) -> None:
    """Shut the file system of `path` down as a loss of power would; needs to be root."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
    finally:
        os.close(fd)


def cut_power_of(pid: int, path: str) -> None:
    """Cut the power below a process that does not survive it.

    The process is stopped first: an fdatasync under way may return success after the cut (the
    kernel's jbd2 takes an aborted transaction for a complete one), and no client may hear of it.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline_s = time.monotonic() + 5
    while _state(pid) not in "TtZX" and time.monotonic() < deadline_s:
        time.sleep(0.0002)
    cut_power(path)
    os.kill(pid, signal.SIGKILL)


def _state(pid: int) -> str:
    """The state of a process's first thread, as in /proc."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@dataclass(slots=True)
class Fault:
    """One parsed fault line, and how often its place was passed."""

    action: str
    moment: str
    operation: str
    pattern: str
    nth: int
    forever: bool
    passed: int = field(default=0)

    @staticmethod
    def parse(line: str) -> Fault:
        """Read one fault. Raises ValueError with what is wrong."""
        words = line.split()
        if len(words) not in (4, 5):
            raise ValueError(f"{line!r}: expected ACTION WHEN OPERATION NAME [NTH[+]]")
        action, moment, operation, pattern = words[:4]
        nth = words[4] if len(words) == 5 else "1"
        if not (action in ACTIONS or action.startswith("delay:")):
            raise ValueError(f"{line!r}: no action {action!r}, one of {', '.join(ACTIONS)}, delay:")
        if moment not in MOMENTS or (moment == "half" and operation != "pwrite"):
            raise ValueError(f"{line!r}: no moment {moment!r} of {operation}")
        if operation not in OPERATIONS:
            raise ValueError(
                f"{line!r}: no operation {operation!r}, one of {', '.join(OPERATIONS)}"
            )
        number = int(nth.removesuffix("+"))
        return Fault(action, moment, operation, pattern, number, nth.endswith("+"))

    def hits(self, moment: str, operation: str, path: str) -> bool:
        """Return whether the fault is due at this call; count the call if it is of this kind."""
        if moment != self.moment or operation != self.operation or not fnmatch(path, self.pattern):
            return False
        self.passed += 1
        return self.passed == self.nth or (self.forever and self.passed > self.nth)


class FaultyFileSystem(OsFileSystem):
    """The operating system's files, with faults."""

    faults: tuple[Fault, ...] = ()  # of the process; set before the broker starts
    _lock = threading.Lock()  # calls come from the pool, too

    def _pass(self, moment: str, operation: str, path: str) -> None:
        """Fail if a fault is due here."""
        with self._lock:
            due = [fault for fault in self.faults if fault.hits(moment, operation, path)]
        for fault in due:
            if fault.action == "power":
                self._lose_power(path)
            elif fault.action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif fault.action in ERRORS:
                code = ERRORS[fault.action]
                raise OSError(code, os.strerror(code), path)
            else:
                time.sleep(int(fault.action.removeprefix("delay:")) / 1000)

    def _lose_power(self, path: str) -> None:
        """Let a child process cut the power below this process."""
        there = path if os.path.exists(path) else os.path.dirname(path)
        child = os.fork()
        if not child:
            try:
                cut_power_of(os.getppid(), there)
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> OsFile:
        operation = "create" if create and not os.path.lexists(path) else "open"
        self._pass("before", operation, path)
        real = super().open(path, create=create, write=write)
        self._pass("after", operation, path)
        return FaultyFile(self, path, os.dup(real._fd))

    def rename(self, old: str, new: str) -> None:
        self._pass("before", "rename", new)
        super().rename(old, new)
        self._pass("after", "rename", new)

    def unlink(self, path: str) -> None:
        self._pass("before", "unlink", path)
        super().unlink(path)
        self._pass("after", "unlink", path)

    def sync_directory(self, path: str) -> None:
        self._pass("before", "sync_directory", path)
        super().sync_directory(path)
        self._pass("after", "sync_directory", path)

    def replace(self, path: str, data: bytes) -> None:
        temporary = path + TEMPORARY_SUFFIX
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
            file.fdatasync()
        finally:
            file.close()
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")


class FaultyFile(OsFile):
    """An open file of a FaultyFileSystem."""

    __slots__ = ("_filesystem",)

    # (device, inode) whose fdatasync failed; each is held open, so that no other file gets its name
    lying: dict[tuple[int, int], int] = {}  # noqa: RUF012

    def __init__(self, filesystem: FaultyFileSystem, path: str, fd: int) -> None:
        super().__init__(path, fd)
        self._filesystem = filesystem

    def pwrite(self, buffer: Buffer, position: int) -> None:
        faults = self._filesystem
        faults._pass("before", "pwrite", self.path)
        view = memoryview(buffer)
        half = len(view) // 2
        if half and any(fault.moment == "half" for fault in faults.faults):
            super().pwrite(view[:half], position)
            faults._pass("half", "pwrite", self.path)
            super().pwrite(view[half:], position + half)
        else:
            super().pwrite(buffer, position)
        faults._pass("after", "pwrite", self.path)

    @property
    def sync_descriptor(self) -> int:
        """The kernel may sync it, unless an fdatasync has a fault, or has had one."""
        faults = self._filesystem.faults
        is_watched = self.lying or any(fault.operation == "fdatasync" for fault in faults)
        return -1 if is_watched else super().sync_descriptor

    def fdatasync(self) -> None:
        covered = self.writes
        status = os.fstat(self._fd)
        inode = status.st_dev, status.st_ino
        try:
            self._filesystem._pass("before", "fdatasync", self.path)
        except OSError:
            self.lying.setdefault(inode, os.dup(self._fd))
            raise
        if inode not in self.lying:
            super().fdatasync()
        self.synced_writes = covered
        self._filesystem._pass("after", "fdatasync", self.path)

    def truncate(self, size: int) -> None:
        self._filesystem._pass("before", "truncate", self.path)
        super().truncate(size)
        self._filesystem._pass("after", "truncate", self.path)
