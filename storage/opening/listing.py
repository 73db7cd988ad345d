"""Lists the files of a partition's directory by their purpose.

Unknown files are reported and left alone. Files named `.deleted`, and indexes without a log file,
go into the trash. A replacement of a file that a crash interrupted is removed. An interrupted
compaction is finished first (`storage.opening.swap_recovery`).
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from storage.files import filenames
from storage.files.filenames import Kind
from storage.home import Home
from storage.opening import swap_recovery
from storage.opening.recovery_report import RecoveryReport


@dataclass(slots=True)
class Listing:
    """The files of a partition's directory, most of them by base offset; `logs` are in order."""

    logs: list[int] = field(default_factory=list)
    indexed: set[int] = field(default_factory=set)  # base offsets that have an offset index
    indexes: list[tuple[int, str]] = field(default_factory=list)  # of any kind
    aborting: set[int] = field(default_factory=set)  # base offsets that have a .txnindex
    snapshots: list[int] = field(default_factory=list)
    has_epochs: bool = False
    has_finished_swaps: bool = False  # of a compaction, whose copies may have holes


def list_files(home: Home, directory: str, report: RecoveryReport, now_ms: int) -> Listing:
    """List the files of a partition's directory; finish an interrupted swap. Raises OSError."""
    listing = Listing()
    file_names = home.filesystem.list(directory)
    if swap_recovery.is_due(file_names):
        listing.has_finished_swaps = swap_recovery.finish(
            home, directory, file_names, report, now_ms
        )
        file_names = home.filesystem.list(directory)
    for file_name in file_names:
        name = filenames.parse(file_name)
        if name is None:
            report.warnings.append(f"{directory}: unknown file {file_name!r} is left alone")
        elif name.kind is Kind.FILE:
            listing.has_epochs |= name.file == filenames.LEADER_EPOCH_CHECKPOINT
        elif name.kind is Kind.TEMPORARY:
            home.filesystem.unlink(posixpath.join(directory, file_name))
        elif name.kind is Kind.SEGMENT:
            if name.transit == filenames.DELETED:
                home.trash.toss(now_ms, posixpath.join(directory, file_name))
            else:
                _sort_in(listing, name, file_name)
        elif name.kind is Kind.QUARANTINE:
            report.notes.append(
                f"{directory}: {file_name} holds bytes that an earlier recovery cut"
            )
    listing.logs.sort()
    orphans = [file_name for base, file_name in listing.indexes if base not in set(listing.logs)]
    for file_name in orphans:
        report.warnings.append(f"Found an orphaned index file {directory}/{file_name}")
    home.discard(directory, orphans, now_ms)
    return listing


def _sort_in(listing: Listing, name: filenames.Name, file_name: str) -> None:
    if name.file == filenames.LOG:
        listing.logs.append(name.base_offset)
    elif name.file == filenames.SNAPSHOT:
        listing.snapshots.append(name.base_offset)
    elif name.file != filenames.PRODUCERS:
        listing.indexes.append((name.base_offset, file_name))
        if name.file == filenames.OFFSET_INDEX:
            listing.indexed.add(name.base_offset)
        elif name.file == filenames.TRANSACTION_INDEX:
            listing.aborting.add(name.base_offset)
