"""Finishes or undoes a compaction that a crash interrupted in a partition's directory.

    only .cleaned                 the copy was incomplete: it is removed
    .cleaned and .swap            not all files were renamed: both are removed
    .swap                         the copy is complete: the remaining source segments are deleted,
                                  and the copy's files get their final names
    .swap of an index alone       its log file has its final name already: the index follows

These are Kafka's rules (LogLoader.load), so a directory that Kafka left is handled alike. A `.swap`
log covers the offsets from its base offset to its last batch; segments that begin in that range are
its sources. Segments that begin above it stay: what the copy left out of them, a later pass leaves
out again.

One rule is added: while the first source exists, a `.swap` log is used only if the CRC of each of
its batches is right. Otherwise it is removed, since the source holds the same records.

A crash may interrupt each step; the next start finds the same work or less.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from storage.errors import DamagedLog
from storage.files import filenames
from storage.files.filenames import CLEANED, LOG, OFFSET_MAX, SWAP, Name
from storage.home import Home
from storage.opening.recovery_report import RecoveryReport
from storage.segments.checked_batches import InactiveFile, read_batches
from storage.segments.log_file import LogFile

_SUFFIXES = (f".{CLEANED}", f".{SWAP}")
_DATA = (LOG, filenames.OFFSET_INDEX, filenames.TIME_INDEX, filenames.TRANSACTION_INDEX)


def is_due(file_names: Iterable[str]) -> bool:
    """Whether an interrupted compaction left a directory with these names."""
    return any(name.endswith(_SUFFIXES) for name in file_names)


def finish(
    home: Home, directory: str, file_names: Sequence[str], report: RecoveryReport, now_ms: int
) -> bool:
    """Finish or undo the compaction in a partition's directory.

    Returns whether a copy is used, which may have holes. Raises OSError.
    """
    names = [name for name in map(filenames.parse, file_names) if name is not None]
    cleaned = [name for name in names if name.transit == CLEANED]
    first_cleaned = min((name.base_offset for name in cleaned), default=OFFSET_MAX)
    swaps = [name for name in names if name.transit == SWAP]
    undone = [name for name in swaps if name.base_offset >= first_cleaned]
    _remove(home, directory, [*undone, *cleaned])
    swaps = [name for name in swaps if name not in undone]
    is_any_used = False
    for name in [name for name in swaps if name.file == LOG]:
        end_offset = _end_of_swap(home, directory, name, names, report)
        if end_offset is None:
            undone = [other for other in swaps if other.base_offset == name.base_offset]
            _remove(home, directory, undone)
            swaps = [other for other in swaps if other not in undone]
            continue
        is_any_used = True
        replaced = [
            filenames.segment_file(other.base_offset, other.file)
            for other in sorted(names, key=lambda other: other.base_offset)
            if not other.transit
            and other.file in _DATA
            and name.base_offset <= other.base_offset < end_offset
        ]
        home.discard(directory, replaced, now_ms)
    for name in swaps:
        path = _path(directory, name)
        report.warnings.append(f"Recovering file {path} by renaming from .swap files.")
        home.filesystem.rename(path, path.removesuffix(f".{SWAP}"))
    home.filesystem.sync_directory(directory)
    return is_any_used


def _end_of_swap(
    home: Home, directory: str, name: Name, names: Iterable[Name], report: RecoveryReport
) -> int | None:
    """Return the end offset of a `.swap` log; None if it must not be used."""
    path = _path(directory, name)
    log_file = LogFile(home.files, path, home.filesystem.size(path))
    swap = InactiveFile(log_file, name.base_offset, OFFSET_MAX)
    end_offset = name.base_offset
    try:
        for _, header, _ in read_batches(swap, lambda _: None):
            end_offset = header.next_offset
    except DamagedLog as damage:
        has_source = any(
            other.base_offset == name.base_offset and other.file == LOG and not other.transit
            for other in names
        )
        if has_source:
            report.warnings.append(f"{damage}: removed, its source segment is kept")
            return None
        report.warnings.append(f"{damage}: used all the same, its source segment is gone")
    finally:
        log_file.forget()
    return end_offset


def _remove(home: Home, directory: str, names: Iterable[Name]) -> None:
    for name in names:
        home.filesystem.unlink(_path(directory, name))


def _path(directory: str, name: Name) -> str:
    return posixpath.join(
        directory, filenames.segment_file(name.base_offset, name.file, name.transit)
    )
