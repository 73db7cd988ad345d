"""An archive on disk: its names, what they promise, and what is checked of them.

    DIR/_archive.json     which topics, of how many partitions, from which offsets on; by date?
    DIR/_checkpoint/      Spark's: how far the query is
    DIR/_lock             held while a run archives
    DIR/topic=orders/partition=3/00000000000000001000-00000000000000002000.parquet
    DIR/topic=orders/partition=3/date=2026-11-22/0000…1000-0000…2000.1of2.parquet     by date

A file holds the records of one range of offsets, start inclusive, end exclusive, and is named after
it; by date, a range has a file for each day (UTC) of its records. The range is the one that was
planned, not that of the records found in it: the same range written again is the same name, with
the same rows, and takes the old file's place. So every file is whole, no row stands in two, and any
reader of Parquet sees that, with no list of files beside. The ranges of a partition join without
gap: `check` says where they do not.

Files come under a name that begins with a dot, which readers pass over, are flushed to the disk,
and are renamed. Nothing here reads Parquet or talks to a broker.
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

# What a record is here. On disk: never change their order. Topic and partition stand in the path,
# where readers of Parquet find them.
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
    """What is fixed when an archive is begun; partitions that come later are added."""

    starts: Mapping[TopicPartition, int]
    by_date: bool
    topic_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """One range of a partition and its files; of `parts_count`, fewer may be there yet."""

    start: int
    end: int
    paths: tuple[Path, ...]
    parts_count: int

    @property
    def is_whole(self) -> bool:
        """Whether every file of the range is there."""
        return len(self.paths) == self.parts_count


@dataclass
class Contents:
    """What an archive holds, by partition in the order of offsets."""

    pieces: dict[TopicPartition, list[Piece]] = field(default_factory=dict)

    def ends(self) -> Offsets:
        """Return where each partition's files end; a range of which a file is missing is none."""
        whole = {at: [each for each in found if each.is_whole] for at, found in self.pieces.items()}
        return {at: found[-1].end for at, found in whole.items() if found}


def partition_directory(root: Path, topic: str, partition: int) -> Path:
    """Return where a partition's files are."""
    return root / f"topic={topic}" / f"partition={partition}"


def file_name(part: Range, number: int = 1, parts_count: int = 1, *, by_date: bool = False) -> str:
    """Return the name of a range's file; by date of its `number`th of `parts_count`."""
    suffix = f".{number}of{parts_count}" if by_date else ""
    return f"{part.start:020}-{part.end:020}{suffix}.parquet"


def contents(root: Path) -> Contents:
    """Return what there is, without a check and without opening a file."""
    found = Contents()
    for topic in _named(root, "topic="):
        for partition in _named(topic, "partition="):
            index = partition.name.partition("=")[2]
            if index.isdigit():
                at = (topic.name.partition("=")[2], int(index))
                found.pieces[at] = pieces(partition)
    return found


def pieces(directory: Path) -> list[Piece]:
    """Return the ranges of one partition's directory, in their order."""
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
    """Raise CorruptArchive unless each partition's ranges join and none but the last lacks a file.

    A last range that lacks one is where a run was killed; the next run writes it again.
    """
    for (topic, partition), several in found.pieces.items():
        where = f"{partition_directory(root, topic, partition)}"
        for before, after in pairwise(several):
            if not before.is_whole:
                raise CorruptArchive(
                    f"{where}: of the offsets {before.start} to {before.end} there are "
                    f"{len(before.paths)} files of {before.parts_count}. {_CURE}"
                )
            if after.start != before.end:
                what = "missing" if after.start > before.end else "there twice"
                low, high = sorted((before.end, after.start))
                raise CorruptArchive(
                    f"{where}: the offsets {low} to {high} (exclusive) are {what}: one file ends "
                    f"at {before.end}, the next begins at {after.start}. {_CURE}"
                )


_CURE: Final = "Put the files back as they were written, or archive into a new directory"


def sweep(root: Path) -> int:
    """Remove what killed runs left half written; return how many files."""
    count = 0
    for place in _places(root):
        for entry in list(os.scandir(place)):
            if _SCRATCH.match(entry.name):
                Path(entry.path).unlink(missing_ok=True)
                count += 1
    return count


def drop_unfinished(found: Contents) -> None:
    """Remove the files of last ranges that lack some. Only where no checkpoint repeats them."""
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
    """Return what was fixed, None where nothing was yet. Raises CorruptArchive."""
    path = root / DESCRIPTION
    try:
        value = json.loads(path.read_text())
        if value["version"] != _VERSION:
            raise CorruptArchive(f"{path} is of version {value['version']}, wanted {_VERSION}")
        starts = value["startingOffsets"]
        return Description(from_json(starts), bool(value["byDate"]), topic_ids_of(starts))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptArchive(f"{path} is not what an archive has there: {error}") from None


def write_description(root: Path, description: Description) -> None:
    """Fix it, durably."""
    value = {
        "version": _VERSION,
        "byDate": description.by_date,
        "startingOffsets": to_json(description.starts, description.topic_ids),
    }
    write_json(root, DESCRIPTION, value)


def write_json(directory: Path, name: str, value: Mapping[str, Any]) -> None:
    """Put a JSON object into a file, durably and in one step. Raises OSError."""
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
    """Hold the archive for one run. Raises BadOption if another process has it."""
    with (root / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadOption(
                f"{root} is being archived into by another process; wait for its end, or give "
                "another directory"
            ) from None
        yield


def local(directory: str) -> Path:
    """Return the directory as a path. Raises BadOption for what is no path of a mounted disk."""
    scheme, colon, rest = directory.partition("://")
    if colon and scheme != "file":
        raise BadOption(
            f"the directory is {directory}, wanted a path: files are renamed and flushed, which an "
            "object store does not do. Archive to a disk that all executors have mounted, and copy "
            "the files"
        )
    return Path(rest if colon else directory).absolute()
