"""An archive on disk: its file names, what they guarantee, and how they are checked.

    DIR/_archive.json     where each partition begins, the topics' ids, whether it is by date
    DIR/_checkpoint/      Spark's: how far the query is
    DIR/_lock             held by a run
    DIR/topic=orders/partition=3/00000000000000001000-00000000000000002000.parquet
    DIR/topic=orders/partition=3/date=2026-11-22/0000…1000-0000…2000.1of2.parquet     by date

A file holds the records of one range of offsets, start inclusive, end exclusive, and is named after
it; by date, a range has a file for each day (UTC) of its records. The range is the planned one, not
that of the records found: writing the same range again gives the same name and the same rows, and
replaces the old file. So every file is complete and no row is in two, for any Parquet reader and
without a list of files. The ranges of a partition join without a gap; `check` verifies that.

Files are written under a name that begins with a dot, which readers skip, flushed, and renamed.
Nothing here reads Parquet or talks to a broker.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pyspark_barnabas.offsets import Offsets, Range, from_json, to_json, topic_ids_of
from pyspark_barnabas.wire.errors import BadOption, CorruptArchive
from pyspark_barnabas.wire.protocol import TopicPartition

# A record's columns. They are on disk: never change their order. Topic and partition are in the
# path, where Parquet readers find them.
COLUMNS: Final = (
    "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
)  # fmt: skip
FILE_COLUMNS: Final = tuple(name for name in COLUMNS if name not in ("topic", "partition"))
DESCRIPTION: Final = "_archive.json"
CHECKPOINT: Final = "_checkpoint"
LOCK: Final = "_lock"
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"  # Spark's and Hive's directory for null
_VERSION: Final = 1
_NAME: Final = re.compile(r"^(\d{20})-(\d{20})(?:\.(\d+)of(\d+))?\.parquet$")
_SCRATCH: Final = re.compile(r"^\..+\.tmp$")


@dataclass(frozen=True)
class Description:
    """What is fixed when an archive is started; later partitions are added."""

    starts: Mapping[TopicPartition, int]
    by_date: bool
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """One range of a partition, and those of its `parts_count` files that exist."""

    start: int
    end: int
    paths: tuple[Path, ...]
    parts_count: int

    @property
    def is_whole(self) -> bool:
        """Whether every file of the range exists."""
        return len(self.paths) == self.parts_count


@dataclass
class Contents:
    """What an archive holds, by partition, in order of offset."""

    pieces: dict[TopicPartition, list[Piece]] = field(default_factory=dict)

    def ends(self) -> Offsets:
        """Return where each partition's files end, without ranges that lack a file."""
        whole = {at: [each for each in found if each.is_whole] for at, found in self.pieces.items()}
        return {at: found[-1].end for at, found in whole.items() if found}


def partition_directory(root: Path, topic: str, partition: int) -> Path:
    """Return where a partition's files are."""
    return root / f"topic={topic}" / f"partition={partition}"


def file_name(part: Range, number: int = 1, parts_count: int = 1, *, by_date: bool = False) -> str:
    """Return the name of a range's file; by date, of file `number` of `parts_count`."""
    suffix = f".{number}of{parts_count}" if by_date else ""
    return f"{part.start:020}-{part.end:020}{suffix}.parquet"


def contents(root: Path) -> Contents:
    """List the archive, without checking it or opening a file."""
    found = Contents()
    for topic in _named(root, "topic="):
        for partition in _named(topic, "partition="):
            index = partition.name.partition("=")[2]
            if index.isdigit():
                at = (topic.name.partition("=")[2], int(index))
                found.pieces[at] = pieces(partition)
    return found


def pieces(directory: Path) -> list[Piece]:
    """Return the ranges of one partition's directory, in order."""
    files: dict[tuple[int, int], list[tuple[int, int, Path]]] = {}
    for place in (directory, *_named(directory, "date=")):
        for entry in os.scandir(place):
            matched = _NAME.match(entry.name)
            if matched:
                start, end, number, count = (int(text or 1) for text in matched.groups())
                files.setdefault((start, end), []).append((number, count, Path(entry.path)))
    found = []
    for (start, end), several in sorted(files.items()):
        several.sort()
        paths = tuple(path for _, _, path in several)
        found.append(Piece(start, end, paths, max(count for _, count, _ in several)))
    return found


def _named(directory: Path, prefix: str) -> list[Path]:
    if not directory.is_dir():
        return []
    entries = (entry for entry in os.scandir(directory) if entry.name.startswith(prefix))
    return sorted(Path(entry.path) for entry in entries if entry.is_dir())


def check(found: Contents, root: Path) -> None:
    """Raise CorruptArchive unless each partition's ranges join and only the last may lack a file.

    If the last lacks one, a run was killed there, and the next run writes it again.
    """
    for (topic, partition), several in found.pieces.items():
        where = f"{partition_directory(root, topic, partition)}"
        for before, after in pairwise(several):
            if not before.is_whole:
                raise CorruptArchive(
                    f"{where}: offsets {before.start} to {before.end} have {len(before.paths)} of "
                    f"{before.parts_count} files. {_CURE}"
                )
            if after.start != before.end:
                what = "missing" if after.start > before.end else "there twice"
                low, high = sorted((before.end, after.start))
                raise CorruptArchive(
                    f"{where}: the offsets {low} to {high} (exclusive) are {what}: one file ends "
                    f"at {before.end}, the next begins at {after.start}. {_CURE}"
                )


_CURE: Final = "Restore the files as they were written, or archive into a new directory"


def sweep(root: Path) -> int:
    """Remove the unfinished files of killed runs; return how many."""
    count = 0
    for place in _places(root):
        for entry in list(os.scandir(place)):
            if _SCRATCH.match(entry.name):
                Path(entry.path).unlink(missing_ok=True)
                count += 1
    return count


def drop_unfinished(found: Contents) -> None:
    """Remove the files of last ranges that lack some, if no checkpoint will repeat them."""
    for several in found.pieces.values():
        if several and not several[-1].is_whole:
            for path in several.pop().paths:
                path.unlink(missing_ok=True)


def _places(root: Path) -> Iterator[Path]:
    for topic in _named(root, "topic="):
        for partition in _named(topic, "partition="):
            yield partition
            yield from _named(partition, "date=")


# -- what is fixed ---------------------------------------------------------------------------------


def read_description(root: Path) -> Description | None:
    """Return the description, None before there is one. Raises CorruptArchive."""
    path = root / DESCRIPTION
    try:
        value = json.loads(path.read_text())
        if value["version"] != _VERSION:
            raise CorruptArchive(f"{path} is of version {value['version']}, expected {_VERSION}")
        starts = value["startingOffsets"]
        return Description(from_json(starts), bool(value["byDate"]), topic_ids_of(starts))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptArchive(f"{path} is not an archive's description: {error}") from None


def write_description(root: Path, description: Description) -> None:
    """Write the description, durably."""
    value = {
        "version": _VERSION,
        "byDate": description.by_date,
        "startingOffsets": to_json(description.starts, description.topic_ids),
    }
    write_json(root, DESCRIPTION, value)


def write_json(directory: Path, name: str, value: Mapping[str, Any]) -> None:
    """Write a JSON object to a file, durably and atomically. Raises OSError."""
    scratch = directory / f".{name}.tmp"
    with scratch.open("w") as file:
        file.write(json.dumps(value, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, directory / name)
    sync_directory(directory)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Lock the archive for one run. Raises BadOption if another process holds it."""
    with (root / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadOption(
                f"{root} is locked by another run; wait until it ends, or choose another directory"
            ) from None
        yield


def local(directory: str) -> Path:
    """Return the directory as a path. Raises BadOption for an object store."""
    scheme, colon, rest = directory.partition("://")
    if colon and scheme != "file":
        raise BadOption(
            f"the directory is {directory}, expected a path: files are renamed and flushed, which "
            "object stores do not support. Archive to a disk that all executors have mounted, and "
            "copy the files"
        )
    return Path(rest if colon else directory).absolute()
