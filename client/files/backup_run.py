"""A backup from its refusals to its name, and the way back.

    back_up    refuse, cut, copy, verify, name. When the broker changes what the copy relies on, a
               new cut follows, and what was copied is used again
    restore    refuse, copy, verify; meta.properties comes last, and without it no broker starts

A backup of a running broker is what `kill -9` would have left at the moment of the cut. So a
start on it recovers what is above the recovery points, which are less than a second old, and ends
the transactions that were open. A backup of a stopped broker is a copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from broker.runtime.clock import SystemClock
from client.files.backup_copy import (
    BackupCopy,
    Counts,
    check_room,
    copy_file,
    remove_tree,
    sync_directory,
)
from client.files.backup_cut import Changed, NotBackedUp, take_cut
from client.files.backup_place import (
    LOST_AND_FOUND,
    BackupPlace,
    backups_in,
    identity_of,
    owner_of,
    refuse_inside_data,
)
from client.files.findings import Report
from client.files.verify import Verification
from storage.errors import DirectoryLocked
from storage.files import filenames
from storage.files.os_filesystem import OsFileSystem

PASSES: Final = 50
_SPARE_BYTES: Final = 1 << 20  # for directories and small files


@dataclass(frozen=True, slots=True)
class Done:
    """A finished backup or restore. `removed` are older backups; `report` is of `verify`."""

    path: str
    counts: Counts
    passes: int
    report: Report | None
    removed: tuple[str, ...] = ()


def _no_progress(_bytes: int) -> None:
    """Show nothing."""


def back_up(
    data: str,
    to: str,
    *,
    keep: int = 0,
    check: bool = True,
    progress: Callable[[int], None] = _no_progress,
) -> Done:
    """Make a backup of a data directory; `keep` backups stay, 0 for all.

    Raises NotBackedUp or OSError; the directory of the backups is then as it was.
    """
    data = os.path.abspath(data)
    place = BackupPlace(to, data)
    with place.held():
        place.check(data)
        now_ms = SystemClock().now_ms()
        copy = BackupCopy(data, place.begin(), place.newest(now_ms), progress)
        passes, report = _passes(data, copy, check=check)
        path = place.finish(place.time_for(now_ms))
        removed = place.remove_all_but(keep) if keep else []
    return Done(path, copy.counts, passes, report, tuple(removed))


def _passes(data: str, copy: BackupCopy, *, check: bool) -> tuple[int, Report | None]:
    why = ""
    for number in range(1, PASSES + 1):
        stop = _mark_of_stop(data)
        cut = take_cut(data, is_stopped=stop is not None)
        check_room(os.path.dirname(copy.path), copy.needed_bytes(cut) + _SPARE_BYTES)
        try:
            copy.run(cut)
            _check_still(data, stop)
        except Changed as changed:
            why = str(changed)
            continue
        try:
            return number, _checked(copy.path, check=check, cause=f"Run barnabas verify {data}")
        except NotBackedUp:
            if not copy.counts.linked_files:
                raise
            copy.begin_anew()  # the earlier backup may have rotted: copy everything
    raise NotBackedUp(
        f"{data} changes faster than it can be copied: in {PASSES} attempts, at last {why}"
    )


def _mark_of_stop(data: str) -> tuple[int, int] | None:
    """Return what identifies the mark of a stop in order; None if a broker runs, or crashed.

    Not every system says who holds a lock; a broker that starts removes the mark.
    """
    if OsFileSystem().lock_holder(os.path.join(data, filenames.LOCK)) is not None:
        return None
    try:
        found = os.stat(os.path.join(data, filenames.CLEAN_SHUTDOWN))
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _check_still(data: str, stop: tuple[int, int] | None) -> None:
    """Raise Changed if a broker was started during a copy that relied on there being none."""
    if stop is not None and _mark_of_stop(data) != stop:
        raise Changed("a broker was started")


def _checked(copy: str, *, check: bool, cause: str) -> Report | None:
    """Verify a copy. Raises NotBackedUp if it is not sound; `cause` says what to do."""
    if not check:
        return None
    report = Verification(OsFileSystem()).run([copy])
    if not report.is_sound:
        raise NotBackedUp(f"the copy is not sound: {_first(report)}. {cause}")
    return report


def _first(report: Report) -> str:
    found = next(one for one in report.findings if one.weight != "note")
    return f"{found.path}: {found.found}"


def find_backup(path: str) -> str:
    """Return the path of a backup: itself, or the newest in a directory. Raises NotBackedUp."""
    if os.path.exists(os.path.join(path, filenames.META_PROPERTIES)):
        return path
    if not os.path.isdir(path) or owner_of(path) is None:
        raise NotBackedUp(f"{path} holds no backups, and is none: it has no meta.properties")
    names = backups_in(path)
    if not names:
        raise NotBackedUp(f"{path} holds no complete backup")
    return os.path.join(path, names[-1])


def restore(
    backup: str,
    data: str,
    *,
    check: bool = True,
    progress: Callable[[int], None] = _no_progress,
) -> Done:
    """Copy a backup to a new or empty directory. Raises NotBackedUp, OSError; nothing stays then.

    The copy shares no file with the backup: a broker may change it.
    """
    source, data = find_backup(os.path.abspath(backup)), os.path.abspath(data)
    identity_of(source)
    is_new = not os.path.lexists(data)
    if not is_new and (not os.path.isdir(data) or _content_of(data)):
        raise NotBackedUp(f"{data} is not empty; a restore writes to a new or empty directory only")
    here, there = os.path.realpath(data), os.path.realpath(backup)
    if os.path.commonpath([here, there]) == there:
        raise NotBackedUp(f"{data} is inside the backup {backup}; choose a directory elsewhere")
    refuse_inside_data(data)
    parent = data
    while not os.path.exists(parent):
        parent = os.path.dirname(parent)
    counts = Counts()
    files = _files_of(source)
    check_room(parent, sum(os.stat(os.path.join(source, one)).st_size for one in files))
    os.makedirs(data, mode=0o750, exist_ok=True)
    with _locked(data):
        try:
            _copy_all(source, data, files, counts, progress)
            report = _checked(data, check=check, cause=f"Run barnabas verify {source}")
        except BaseException:
            for name in (*_content_of(data), filenames.LOCK):
                remove_tree(os.path.join(data, name))
            if is_new:
                os.rmdir(data)
            raise
    sync_directory(os.path.dirname(data))
    return Done(data, counts, 1, report)


def _content_of(data: str) -> list[str]:
    """Return what is in a directory, but for what an empty data directory may have."""
    return [one for one in os.listdir(data) if one not in (LOST_AND_FOUND, filenames.LOCK)]


@contextmanager
def _locked(data: str) -> Iterator[None]:
    """Keep brokers and other restores out of an empty directory. Raises NotBackedUp."""
    path = os.path.join(data, filenames.LOCK)
    try:
        lock = OsFileSystem().lock(path)
    except DirectoryLocked as error:
        raise NotBackedUp(str(error)) from None
    try:
        if _content_of(data):  # came in between
            raise NotBackedUp(f"{data} is not empty any more; choose another directory")
        yield
    finally:
        lock.close()


def _files_of(source: str) -> list[str]:
    """Return the files of a backup by relative path, meta.properties last."""
    found = []
    for folder, _, names in os.walk(source):
        found += [os.path.relpath(os.path.join(folder, name), source) for name in names]
    return sorted(found, key=lambda name: (name == filenames.META_PROPERTIES, name))


def _copy_all(
    source: str, data: str, files: list[str], counts: Counts, progress: Callable[[int], None]
) -> None:
    folders = {os.path.dirname(name) for name in files if os.path.dirname(name)}
    for folder in sorted(folders):
        os.mkdir(os.path.join(data, folder), 0o750)
    for name in files:
        if name == filenames.META_PROPERTIES:
            for folder in folders:
                sync_directory(os.path.join(data, folder))
            sync_directory(data)
        path = os.path.join(source, name)
        with open(path, "rb", buffering=0) as file:
            copy_file(file.fileno(), os.path.join(data, name), 0, None)
            size = os.fstat(file.fileno()).st_size
        counts.copied_files += 1
        counts.copied_bytes += size
        progress(size)
    sync_directory(data)
