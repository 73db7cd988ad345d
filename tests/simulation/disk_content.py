"""The whole content of a disk in memory: from and to a real directory, and its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.memory_inodes import Directory, Inode

Content = dict[str, Any]  # name -> bytes, or the content of a directory


def content_of(path: Path) -> Content:
    """Read a real directory."""
    return {
        entry.name: content_of(entry) if entry.is_dir() else entry.read_bytes()
        for entry in sorted(path.iterdir())
    }


def fill(directory: Directory, content: Content) -> None:
    """Put content into a directory, all of it durable."""
    for name, what in content.items():
        node: Directory | Inode
        if isinstance(what, dict):
            there = directory.live.get(name)
            node = there if isinstance(there, Directory) else Directory()
            fill(node, what)
        else:
            node = Inode()
            node.live += what
            node.harden()
        directory.put(name, node)


def save(directory: Directory, path: Path) -> None:
    """Write the live content to a real directory, which is made if missing."""
    path.mkdir(parents=True, exist_ok=True)
    for name, node in directory.live.items():
        if isinstance(node, Directory):
            save(node, path / name)
        else:
            (path / name).write_bytes(node.live)


def entries(directory: Directory, path: str = "") -> Iterator[tuple[str, bytes | None]]:
    """Yield each live path, below the directory, and its bytes; None for a directory."""
    for name, node in sorted(directory.live.items(), key=lambda entry: entry[0]):
        if isinstance(node, Directory):
            yield f"{path}{name}/", None
            yield from entries(node, f"{path}{name}/")
        else:
            yield f"{path}{name}", bytes(node.live)


def digest(directory: Directory) -> str:
    """Return a digest over all live names and bytes."""
    hashed = hashlib.blake2b(digest_size=16)
    for path, content in entries(directory):
        hashed.update(f"{path} {-1 if content is None else len(content)}\n".encode())
        hashed.update(content or b"")
    return hashed.hexdigest()
