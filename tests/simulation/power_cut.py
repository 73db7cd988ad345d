"""What a power cut leaves of a disk in memory.

Of a directory's changes since its last sync a prefix survives: file systems keep a journal, in
order; a rename happens in whole or not at all. Of a file's writes since its last sync none survive,
or all, or a prefix that may end within a write, or any pages. A page reaches the disk at any time,
so it holds what it held after any of the writes, and the size is that of another time: what is
below it and never arrived reads as zeros.

Half of all cuts treat all files alike; in the others each file has its own fate.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from tests.support.memory_inodes import Directory, Inode, apply, truncate

PAGES_BYTES: Final = (512, 512, 4096)
FATES: Final = ("lost", "kept", "prefix", "pages", "grown")


def cut_power(root: Directory, rng: random.Random) -> None:
    """Change the live and the durable content of a disk to what the cut leaves."""
    common = rng.choice(FATES) if rng.random() < 0.5 else None
    for directory in list(_directories(root, set())):
        fate = common or rng.choice(FATES)
        count = len(directory.changes)
        if fate == "kept":
            directory.settle()
        elif fate != "lost":
            directory.settle(rng.randint(0, count))
    _cut(root, common, rng)


def _directories(directory: Directory, seen: set[int]) -> Iterator[Directory]:
    """Yield each directory, in an order that only names decide."""
    if id(directory) in seen:
        return
    seen.add(id(directory))
    yield directory
    for names in (directory.durable, directory.live):
        for _, node in sorted(names.items(), key=lambda entry: entry[0]):
            if isinstance(node, Directory):
                yield from _directories(node, seen)


def _cut(directory: Directory, common: str | None, rng: random.Random) -> None:
    directory.cut()
    for _, node in sorted(directory.live.items(), key=lambda entry: entry[0]):
        if isinstance(node, Directory):
            _cut(node, common, rng)
        else:
            node.cut(left_of(node, common or rng.choice(FATES), rng))


def left_of(inode: Inode, fate: str, rng: random.Random) -> bytearray:
    """Return what the file holds after a cut."""
    content = bytearray(inode.durable)
    pending = inode.pending
    if not pending or fate == "lost":
        return content
    if fate == "pages":
        return _pages(inode, rng)
    if fate == "grown":
        truncate(content, max(len(content), len(inode.live)))
        return content
    count = len(pending) if fate == "kept" else rng.randint(0, len(pending))
    for change in pending[:count]:
        apply(content, change)
    if count < len(pending):
        position, data = pending[count]
        if data is not None:
            apply(content, (position, data[: rng.randint(0, len(data))]))
    return content


def _pages(inode: Inode, rng: random.Random) -> bytearray:
    page_bytes = rng.choice(PAGES_BYTES)
    sizes, touched = _touched(inode, page_bytes)
    arrives = rng.choice((0.2, 0.5, 0.9))  # how likely a page holds its last content
    last = len(inode.pending)
    pages_at: dict[int, list[int]] = {}  # by the number of writes after which they were written
    for page in touched:
        when = last if rng.random() < arrives else rng.randint(0, last)
        pages_at.setdefault(when, []).append(page)
    now = bytearray(inode.durable)
    left = bytearray(inode.durable)
    for when, change in enumerate(inode.pending, start=1):
        apply(now, change)
        for page in pages_at.get(when, ()):
            begin = page * page_bytes
            piece = bytes(now[begin : begin + page_bytes])
            apply(left, (begin, piece.ljust(page_bytes, b"\0")))
    truncate(left, sizes[last if rng.random() < 0.5 else rng.randint(0, last)])
    return left


def _touched(inode: Inode, page_bytes: int) -> tuple[list[int], list[int]]:
    """Return the sizes after each number of writes, and the pages that differ from the disk's."""
    sizes = [len(inode.durable)]
    pages: set[int] = set()
    for position, data in inode.pending:
        before = sizes[-1]
        after = position if data is None else max(before, position + len(data))
        begin = min(before, position)
        end = max(before, after) if data is None else after
        sizes.append(after)
        if data is None or before < position:
            pages.update(range(begin // page_bytes, -(-end // page_bytes)))
        else:
            pages.update(range(position // page_bytes, -(-(position + len(data)) // page_bytes)))
    return sizes, sorted(pages)
