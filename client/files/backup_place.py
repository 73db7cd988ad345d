"""The directory that holds the backups of one data directory.

    barnabas-backup.json            whose backups these are: cluster.id and directory.id
    2026-05-01T12-00-00.000Z/       a backup: a data directory of its own, named by when it began
    .unfinished/                    one that is being made; the next backup removes it

A backup gets its name when it is complete, verified and on the disk. So a crash, a full disk or a
refused copy leaves the earlier ones as they are. Backups share files by hard links: removing one
takes nothing from the others, and no broker should write to one (`barnabas restore` copies).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from client.files.backup_copy import Earlier, remove_tree, sync_directory, write_durably
from client.files.backup_cut import NotBackedUp
from storage.errors import CorruptMetadata
from storage.files import filenames, meta_properties
from storage.files.meta_properties import MetaProperties
from storage.files.os_filesystem import OsFileSystem
from storage.files.text_files import uuid_text

MARKER: Final = "barnabas-backup.json"
UNFINISHED: Final = ".unfinished"
LOST_AND_FOUND: Final = "lost+found"  # of a file system that is mounted there
_NAME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z")
_NAME_FORMAT: Final = "%Y-%m-%dT%H-%M-%S"


def identity_of(data: str) -> MetaProperties:
    """Return the identity of a data directory. Raises NotBackedUp."""
    path = os.path.join(data, filenames.META_PROPERTIES)
    try:
        meta = meta_properties.read(OsFileSystem(), path)
    except CorruptMetadata as error:
        raise NotBackedUp(str(error)) from None
    if meta is None:
        raise NotBackedUp(
            f"{data} is not a data directory: it has no meta.properties; pass the directory that"
            " log.dirs names"
        )
    return meta


class BackupPlace:
    """The directory `path`, which holds backups of the data directory `data`."""

    def __init__(self, path: str, data: str) -> None:
        """Check both directories and change nothing. Raises NotBackedUp, OSError."""
        self.path = os.path.abspath(path)
        meta = identity_of(data)
        self._owner = {
            "cluster.id": meta.cluster_id,
            "directory.id": uuid_text(meta.directory_id) if meta.directory_id else "",
        }
        self.check(data)

    def check(self, data: str) -> None:
        """Raise NotBackedUp unless backups of `data` may be kept here."""
        here, there = os.path.realpath(self.path), os.path.realpath(data)
        if os.path.commonpath([here, there]) in (here, there):
            raise NotBackedUp(
                f"{self.path} and the data directory {data} are inside one another; choose a"
                " directory elsewhere, on another disk if possible"
            )
        refuse_inside_data(self.path)
        if not os.path.lexists(self.path):
            return
        if not os.path.isdir(self.path):
            raise NotBackedUp(f"{self.path} is not a directory")
        owner = owner_of(self.path)
        if owner is None and set(os.listdir(self.path)) - {LOST_AND_FOUND}:
            raise NotBackedUp(
                f"{self.path} is not empty, and holds no backups; choose an empty directory"
            )
        if owner is not None and owner != self._owner:
            raise NotBackedUp(
                f"{self.path} holds backups of another data directory, {_text(owner)}; this one is"
                f" {_text(self._owner)}. Choose another directory"
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make the directory, and keep other backups out of it. Raises NotBackedUp, OSError."""
        is_new = not os.path.exists(self.path)
        os.makedirs(self.path, mode=0o750, exist_ok=True)
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise NotBackedUp(
                    f"another backup to {self.path} is running; wait for its end"
                ) from None
            self._remove_unfinished()
            try:
                yield
            finally:
                self._remove_unfinished()
                if is_new and not os.listdir(self.path):
                    os.rmdir(self.path)
        finally:
            os.close(fd)

    def begin(self) -> str:
        """Make the directory of a new backup; return its path."""
        path = os.path.join(self.path, UNFINISHED)
        os.mkdir(path, 0o750)
        return path

    def finish(self, taken_ms: int) -> str:
        """Give the new backup its name, durably; return its path."""
        content = json.dumps({"format": 1, **self._owner}, indent=2) + "\n"
        if owner_of(self.path) is None:
            write_durably(os.path.join(self.path, MARKER), content.encode())
        path = os.path.join(self.path, name_of(taken_ms))
        os.rename(os.path.join(self.path, UNFINISHED), path)
        sync_directory(self.path)
        return path

    def newest(self, now_ms: int) -> Earlier | None:
        """Return the newest backup, to link its files.

        None if there is none, or if its name is of a later time: the clock was set back, and the
        times of files do not tell what is older.
        """
        names = backups_in(self.path)
        if not names or taken_of(names[-1]) > now_ms * 1_000_000:
            return None
        return Earlier(os.path.join(self.path, names[-1]), taken_of(names[-1]))

    def time_for(self, now_ms: int) -> int:
        """Return the time for the name of a new backup: it is later than all others."""
        names = backups_in(self.path)
        return max(now_ms, taken_of(names[-1]) // 1_000_000 + 1) if names else now_ms

    def remove_all_but(self, count: int) -> list[str]:
        """Remove the oldest backups, so that `count` stay; return the removed names."""
        names = backups_in(self.path)[:-count]
        for name in names:
            # Under another name first: half a backup must not look like one.
            os.rename(os.path.join(self.path, name), os.path.join(self.path, UNFINISHED))
            self._remove_unfinished()
        return names

    def _remove_unfinished(self) -> None:
        path = os.path.join(self.path, UNFINISHED)
        if os.path.lexists(path):
            remove_tree(path)


def refuse_inside_data(path: str) -> None:
    """Raise NotBackedUp if a path is inside a data directory: a broker does not know its name."""
    parent = os.path.dirname(os.path.realpath(path))
    while True:
        if os.path.exists(os.path.join(parent, filenames.META_PROPERTIES)):
            raise NotBackedUp(
                f"{path} is inside {parent}, which has a meta.properties: it is a data directory or"
                " a backup; choose a directory elsewhere"
            )
        if parent == os.path.dirname(parent):
            return
        parent = os.path.dirname(parent)


def owner_of(path: str) -> dict[str, str] | None:
    """Return whose backups a directory holds; None if it holds none. Raises NotBackedUp."""
    marker = os.path.join(path, MARKER)
    try:
        with open(marker, encoding="utf-8") as file:
            found = json.load(file)
        return {name: str(found[name]) for name in ("cluster.id", "directory.id")}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise NotBackedUp(
            f"{marker} cannot be read: expected cluster.id and directory.id"
        ) from None


def backups_in(path: str) -> list[str]:
    """Return the names of complete backups, the oldest first."""
    return sorted(name for name in os.listdir(path) if _NAME.fullmatch(name))


def name_of(taken_ms: int) -> str:
    """Return the name of a backup that began at a time, ms since 1970."""
    seconds, rest = divmod(taken_ms, 1_000)
    when = datetime.fromtimestamp(seconds, UTC).strftime(_NAME_FORMAT)
    return f"{when}.{rest:03d}Z"


def taken_of(name: str) -> int:
    """Return when a backup began, ns since 1970, by its name."""
    when = datetime.strptime(name[:19], _NAME_FORMAT).replace(tzinfo=UTC)
    return int(when.timestamp()) * 1_000_000_000 + int(name[20:23]) * 1_000_000


def _text(owner: dict[str, str]) -> str:
    return f"cluster {owner['cluster.id']}, directory {owner['directory.id'] or 'unknown'}"
