"""The interface between storage and the file system, and what the event loop may call of it.

Everything that storage reads or writes goes through a `FileSystem` and the `File`s it opens, so
that tests can replace the disk by one that fails, tears writes or loses power.
`storage.files.os_filesystem` is the real one. The contract, for every implementation:

- Writes are positioned (`pwrite`) and complete: either all bytes are in the page cache, or the call
  raises OSError. After an OSError an unknown prefix of the bytes may be in the file.
- Nothing is durable before `fdatasync` of the file and `sync_directory` of the directory that
  holds its name. `replace` does both: after it, the old or the new content survives a crash.
- A `File` may be dropped while another thread reads from it: its descriptor is closed when the
  last reference goes (CPython counts references, so this is at once and never too early). Only an
  owner who knows that nothing else uses the file may close it explicitly.
- Mapped memory is for `send` only: touching a mapped page that the disk cannot deliver kills the
  process, while `send` answers EFAULT (decided in docs/decisions/0030-reading-and-sending.md).

`ON_THE_LOOP` lists the operations that the thread of the event loop may call while the broker
serves (design.md, I13). Every other operation may wait for the disk and belongs in a thread of the
pool; before the broker listens, and while it stops, any thread may call any of them. Tests hold
brokers to this list (tests/support/loop_guard.py).

Files are made with mode 0640 and directories with 0750, less the umask. No clock, no logging.
"""

from __future__ import annotations

from typing import Final, Protocol

from storage.files.locks import LockHandle

TEMPORARY_SUFFIX = ".tmp"  # Kafka's CheckpointFile uses the same

# All that the loop may call while the broker serves, and why it does not wait.
ON_THE_LOOP: Final = {
    "File.pwrite": "goes into the page cache; the append queue stops when the disk lags behind",
    "File.pread_nowait": "returns None instead of waiting",
    "File.is_cached": "probes without waiting",
    "File.map": "reserves addresses and reads nothing",
    "File.forget_pages": "releases pages; the bytes sent in between are bounded",
    "File.note_synced": "counts, after the kernel has said that the disk has the bytes",
    "File.size": "the inode of an open file is in memory",
    "File.truncate": "undoes a failed write; nothing else writes to that log meanwhile",
    "File.close": "no write is pending that a close would wait for",
    "FileSystem.open": "makes the files of a roll, or opens an evicted one again: no fsync",
    "FileSystem.unlink": "removes the empty files of a failed roll",
    "FileSystem.rename": "no reader may see half of a compaction's swap; names are not synced",
}
# How much of these a turn of the loop may do: quick calls add up. "batches walked" counts headers
# that are read one by one, at a microsecond each.
TURN_MAX: Final = {
    "FileSystem.unlink": 60,
    "FileSystem.rename": 200,
    "bytes read": 32 * 1024 * 1024,
    "batches walked": 10_000,
}

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file, whose writes are counted so that any thread can tell whether it is dirty."""

    path: str
    writes: int
    recent: bool  # set by users of a cache of open files, cleared by its eviction
    mapped: memoryview | None  # the map in use; it is released with the file

    @property
    def dirty(self) -> bool:
        """Whether a write was made that no fdatasync has covered."""

    def size(self) -> int:
        """Bytes in the file."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file. May block."""

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        """As pread, but None if any byte is not in memory. Never waits for the disk."""

    def is_cached(self, position: int, size: int) -> bool:
        """Probe whether a range is in memory: both ends and a byte each 128 KiB."""

    def pull(self, size: int, position: int) -> int:
        """Read a range into memory, for a later read; return how much of it exists. May block."""

    def pwrite(self, buffer: Buffer, position: int) -> None:
        """Write all bytes at `position`, or raise OSError."""

    def fdatasync(self) -> None:
        """Make all bytes written before the call durable, and the size with them."""

    @property
    def sync_descriptor(self) -> int:
        """The descriptor for an fdatasync by another way; -1 if only `fdatasync` may do it."""

    def note_synced(self, covered: int) -> None:
        """Note that such an fdatasync has covered the first `covered` writes."""

    def truncate(self, size: int) -> None:
        """Cut (or grow with zeros) to `size` bytes."""

    def reserve(self, size: int) -> None:
        """Reserve disk space for a file of `size` bytes; the file does not change.

        Writes below `size` then find room on a full disk. `truncate` frees the space.
        """

    def map(self, size: int) -> memoryview:
        """Return the first `size` bytes as a read-only view of the page cache, for sending."""

    def forget_pages(self) -> None:
        """Remove the pages of the map from this process's memory; its views stay valid."""

    def close(self) -> None:
        """Close now. Only for an owner who knows that nothing else uses the file."""


class FileSystem(Protocol):
    """Whole files and directories. Every method raises the system's OSError."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> File:
        """Open a file for positioned reads and writes. With `create`, make it when missing."""

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name. Raises OSError if the disk does not say."""

    def is_directory(self, path: str) -> bool:
        """Whether the name is a directory."""

    def size(self, path: str) -> int:
        """Bytes in the file of that name."""

    def mkdir(self, path: str) -> None:
        """Make one directory; its parent must exist. The caller syncs the parent."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, replacing a file of that name atomically."""

    def unlink(self, path: str) -> None:
        """Remove a file's name."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def read(self, path: str) -> bytes:
        """All bytes of a (small) file."""

    def replace(self, path: str, data: bytes) -> None:
        """Give a small file new content, durably: a crash leaves the old or the new content."""

    def lock(self, path: str) -> LockHandle:
        """Take an exclusive lock on a file, making it when missing. DirectoryLocked if taken."""

    def lock_shared(self, path: str) -> LockHandle:
        """Take a lock that excludes writers but not other readers, without writing.

        DirectoryLocked if a writer holds it. Takes no lock if the file is missing or unreadable.
        """

    def lock_holder(self, path: str) -> int | None:
        """Id of the process that holds an exclusive lock on a file, for tools; takes no lock.

        None if no process does, 0 if it has no id here.
        """

    def free_bytes(self, path: str) -> int:
        """Bytes that an unprivileged writer may still use on the file system of `path`."""

    def total_bytes(self, path: str) -> int:
        """Bytes of the file system of `path`, used or not."""
