"""What may be wrong with a simulated disk's calls: errors, and calls that take long.

Operations have the names of `tests.support.memory_filesystem.OPERATIONS`; a group of them has a
name, too (`GROUPS`). A fault says which calls it hits: those of its operations, of paths that
contain a part, of bytes in a range, from the nth on, so and so many, until a time.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final

from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.room import NO_DESCRIPTOR
from tests.support.memory_filesystem import OPERATIONS

GROUPS: Final = {
    "any": frozenset(OPERATIONS) - {"close", "size"},
    "reads": frozenset({"pread", "read", "map"}),
    "syncs": frozenset({"fdatasync", "sync_directory"}),
    # All that a file system which has become read-only refuses. An open is one if it may write.
    "writes": frozenset(
        {"open", "pwrite", "truncate", "reserve", "mkdir", "rename", "unlink", "rmdir", "replace"}
    ),
    "descriptors": frozenset({"open", "list", "sync_directory", "read", "replace", "lock"}),
}
_MEANT: Final = {**GROUPS, **{operation: frozenset({operation}) for operation in OPERATIONS}}
NEVER_NS: Final = 1 << 62


@dataclass(slots=True)
class Fault:
    """Some calls fail. `part` of a failing write's bytes reach the file: a count, or a share."""

    op: str
    error: int
    path_part: str = ""
    nth: int = 1
    count: int | None = 1  # None: all from the nth on
    until_ns: int = NEVER_NS
    span: tuple[int, int] | None = None  # bytes [begin, end) of a file
    part: float = 0
    seen: int = 0

    def hits(self, op: str, path: str, size: int, position: int, changes: bool, now: int) -> bool:
        """Whether this call fails."""
        if op not in _MEANT[self.op] or self.path_part not in path or now >= self.until_ns:
            return False
        if op == "open" and self.op == "writes" and not changes:
            return False
        if self.error in NO_DESCRIPTOR and op not in GROUPS["descriptors"]:
            return False  # a file that is open has its descriptor
        if self.span is not None and not (
            size and position < self.span[1] and self.span[0] < position + size
        ):
            return False
        self.seen += 1
        return self.seen >= self.nth and (self.count is None or self.seen < self.nth + self.count)

    def bytes_written(self, size: int) -> int:
        """How much of a failing write reaches the file."""
        return int(self.part * size) if isinstance(self.part, float) else min(size, self.part)


@dataclass(slots=True)
class Delay:
    """Some calls take `factor` times as long, or (stuck) do not end before `until_ns`."""

    op: str
    factor: float
    is_stuck: bool
    path_part: str
    until_ns: int

    def hits(self, op: str, path: str, now: int) -> bool:
        """Whether this call takes long."""
        return now < self.until_ns and op in _MEANT[self.op] and self.path_part in path


def is_meant(op: str) -> bool:
    """Whether this names an operation or a group."""
    return op in _MEANT


def partition_of(path: str) -> str:
    """Return the name of the partition's directory that a path is or is in; "" for others.

    A directory that is being deleted belongs to the partition whose it was.
    """
    for name in (posixpath.basename(path), posixpath.basename(posixpath.dirname(path))):
        parsed = filenames.parse(name)
        if parsed is not None and parsed.kind in (Kind.PARTITION, Kind.MOVED_PARTITION):
            return f"{parsed.topic}-{parsed.partition}"
    return ""
