"""Every state of the disk that a power cut may leave, for small workloads.

After a cut a file holds the bytes that the last fdatasync covered, and those later writes that the
kernel happened to write back: any prefix of them, all but one (write-back keeps no order), the
last one torn in the middle, or a larger size filled with zeros. A directory holds the names that
its last sync covered, and any subset of the later changes. `states` yields the product over all
files and directories, each state as its own disk.
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any

from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.memory_inodes import Directory, Inode, apply

NAMES_EACH_MAX = 3  # up to this many changed names vary one by one; more vary together
Content = dict[str, Any]  # name -> bytes, or the content of a directory


def states(filesystem: MemoryFileSystem, chance: random.Random, most: int) -> Iterator[Content]:
    """Yield what the disk may hold if the power fails now; at most `most` states, by `chance`."""
    inodes: list[Inode] = []
    directories: list[Directory] = []
    _collect(filesystem._root, inodes, directories)
    options = [list(_contents(inode)) for inode in inodes]
    options += [list(_names(directory)) for directory in directories]
    total = 1
    for option in options:
        total *= len(option)
    if total <= most:
        picks: Any = itertools.product(*options)
    else:
        picks = ([chance.choice(option) for option in options] for _ in range(most))
    for pick in picks:
        chosen = dict(zip(map(id, [*inodes, *directories]), pick, strict=True))
        yield _content(filesystem._root, chosen)


def disk_of(content: Content) -> MemoryFileSystem:
    """Return a disk with this content, all of it durable."""
    filesystem = MemoryFileSystem()
    _fill(filesystem._root, content)
    return filesystem


def _collect(directory: Directory, inodes: list[Inode], directories: list[Directory]) -> None:
    """Collect what may differ: files with unsynced writes, directories with unsynced names."""
    if directory.live != directory.durable:
        directories.append(directory)
    nodes = {id(node): node for node in (*directory.live.values(), *directory.durable.values())}
    for node in nodes.values():
        if isinstance(node, Directory):
            _collect(node, inodes, directories)
        elif node.pending:
            inodes.append(node)


def _contents(inode: Inode) -> Iterator[bytes]:
    """Yield each content that the file may have."""
    pending = inode.pending
    count = len(pending)
    seen: set[bytes] = set()
    chosen: list[list[tuple[int, bytes | None]]] = [pending[:n] for n in range(count + 1)]
    chosen += [pending[:n] + pending[n + 1 :] for n in range(count - 1)]
    for n, (position, data) in enumerate(pending):
        if data is not None and len(data) > 1:
            chosen.append([*pending[:n], (position, data[: len(data) // 2])])
            chosen.append([*pending[:n], (position, bytes(len(data)))])
    for writes in chosen:
        content = bytearray(inode.durable)
        for write in writes:
            apply(content, write)
        if bytes(content) not in seen:
            seen.add(bytes(content))
            yield bytes(content)


def _names(directory: Directory) -> Iterator[dict[str, Any]]:
    """Yield each set of names that the directory may hold."""
    live, durable = directory.live, directory.durable
    changed = sorted(n for n in {*live, *durable} if live.get(n) is not durable.get(n))
    if len(changed) > NAMES_EACH_MAX:
        yield durable
        yield live
        return
    for there in itertools.product((False, True), repeat=len(changed)):
        names = dict(durable)
        for name, is_new in zip(changed, there, strict=True):
            if is_new and name in live:
                names[name] = live[name]
            elif is_new:
                del names[name]
        yield names


def _content(directory: Directory, chosen: dict[int, Any]) -> Content:
    found: Content = {}
    for name, node in chosen.get(id(directory), directory.durable).items():
        if isinstance(node, Directory):
            found[name] = _content(node, chosen)
        else:
            found[name] = chosen.get(id(node), bytes(node.durable))
    return found


def _fill(directory: Directory, content: Content) -> None:
    for name, what in content.items():
        if isinstance(what, dict):
            node: Directory | Inode = Directory()
            _fill(node, what)  # type: ignore[arg-type]
        else:
            node = Inode()
            node.live += what
            node.durable += what
        directory.live[name] = directory.durable[name] = node
