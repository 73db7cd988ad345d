"""Files: after a clean stop they are sound, and starting again changes nothing.

    verified      `barnabas verify` finds nothing in them but what a fault has damaged for good:
                  bits that were flipped, and partitions whose disk has failed
    kept          retention by size leaves as much as it promises
    same          a second start and stop leave every log as it was, byte by byte, and the
                  checkpoints in their meaning. Only the metadata log grows: each start records
                  its epoch there
    silent        the second start says nothing of recovery
    dumped        Kafka's own tool reads the segments without a complaint: in one history of
                  DUMPED_ONE_IN, where its jars are

The second life must not be given time for retention or compaction: the judge cannot tell their
work from a change that recovery has made. `Before` is what the files were before it.
"""

from __future__ import annotations

import os
import posixpath
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from client.files.findings import CACHE, NOTE, Finding
from client.files.verify import Verification
from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filesystem import FileSystem
from storage.files.text_files import decode_leader_epochs, decode_offsets
from tests.interop.oracle import kafka

DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"
DUMPED_ONE_IN: Final = 1_000
DUMPED_MAX: Final = 40  # segments given to one run of the tool
LISTED_MAX: Final = 8
OFFSET_BYTES: Final = 8  # at the beginning of a batch
MISSING: Final = "the file is missing"
INDEXES: Final = (filenames.OFFSET_INDEX, filenames.TIME_INDEX)
# What starts of a directory that was stopped cleanly do not say.
RECOVERING: Final = (
    "Recovering ",
    "Recovered ",
    "Found invalid messages",
    "belongs to no topic: kept",  # put aside once; names that no partition has are told each time
    "unfinished deletion",
    "It is offline until",
    "recovering",
)
_OFFSETS: Final = (filenames.RECOVERY_POINT_CHECKPOINT, filenames.LOG_START_CHECKPOINT)


def verified(
    filesystem: FileSystem,
    data: str,
    excused: Collection[str] = (),
    *,
    has_lost_indexes: bool = False,
    spoilt: Mapping[str, bytes] | None = None,
) -> list[str]:
    """Verify a directory that was stopped cleanly.

    `excused` are names of partitions' directories, and "" for files outside of them, that a fault
    has damaged for good. `has_lost_indexes`: some were removed, which the broker makes anew only
    when it needs them. `spoilt` are caches, by path below the directory, that a fault has changed:
    the broker may leave one that it has not needed as it is, among others that it reads first. So
    may what Kafka's formatter has left: it is read by the first start only.
    """
    report = Verification(filesystem, open_records=True).run([data])
    found = [
        f"verify: {_text(one)}"
        for one in report.findings
        if one.weight != NOTE
        and directory_of(one.path, data) not in excused
        and not (has_lost_indexes and one.found == MISSING and one.kind in INDEXES)
        and not (
            (one.weight == CACHE or one.path.endswith(filenames.BOOTSTRAP_CHECKPOINT))
            and _is_as_left(filesystem, data, one.path, spoilt or {})
        )
    ]
    return _listed(found)


def _is_as_left(filesystem: FileSystem, data: str, path: str, left: Mapping[str, bytes]) -> bool:
    """Whether a file is as a fault has left it."""
    name = posixpath.relpath(path, data)
    return name in left and filesystem.exists(path) and filesystem.read(path) == left[name]


def directory_of(path: str, data: str) -> str:
    """Return the name of the partition's directory that a file is in, "" outside of them."""
    name = path[len(data) :].lstrip("/").partition("/")[0]
    parsed = filenames.parse(name)
    is_partition = parsed is not None and parsed.kind is filenames.Kind.PARTITION
    return name if is_partition else ""


def _text(finding: Finding) -> str:
    place = f" at {finding.position}" if finding.position >= 0 else ""
    return f"{finding.weight} of {finding.path}{place}: {finding.found} ({finding.kind})"


def _listed(found: Sequence[str]) -> list[str]:
    more = len(found) - LISTED_MAX
    return [*found[:LISTED_MAX], *([f"and {more} more of this kind"] if more > 0 else [])]


def kept(filesystem: FileSystem, data: str, bytes_min: Mapping[str, int]) -> list[str]:
    """Compare logs that have lost segments with what retention.bytes leaves them.

    `bytes_min` holds that by the name of the partition's directory; nothing else may delete there.
    """
    found = []
    for name, least in sorted(bytes_min.items()):
        directory = posixpath.join(data, name)
        if not filesystem.exists(directory):
            continue
        logs = sorted(one for one in filesystem.list(directory) if one.endswith(".log"))
        size = sum(len(filesystem.read(posixpath.join(directory, one))) for one in logs)
        first = filenames.parse(logs[0]) if logs else None
        if first is not None and first.base_offset > 0 and size < least:
            found.append(f"{name} has lost segments, and {size} bytes are left of {least}")
    return _listed(found)


# -- The second start ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Before:
    """The logs' bytes and the checkpoints' meaning, by path below the data directory."""

    logs: Mapping[str, bytes]
    meanings: Mapping[str, object]


def contents(filesystem: FileSystem, data: str) -> dict[str, bytes]:
    """Return the bytes of every file, by path below the data directory."""
    return {
        path: bytes(filesystem.read(posixpath.join(data, path)))
        for path in _files(filesystem, data)
    }


def look(filesystem: FileSystem, data: str) -> Before:
    """Read what a second start must not change."""
    logs: dict[str, bytes] = {}
    meanings: dict[str, object] = {}
    for path in _files(filesystem, data):
        name = posixpath.basename(path)
        full = posixpath.join(data, path)
        if "/" in path and not directory_of(full, data):
            continue  # what is being deleted, or lies aside
        if name.endswith("." + filenames.LOG):
            logs[path] = filesystem.read(full)
        elif name in _OFFSETS or name == filenames.LEADER_EPOCH_CHECKPOINT:
            meanings[path] = _meaning(full, name, filesystem.read(full))
    return Before(logs, _with_records(meanings, _first_offsets(logs)))


def _first_offsets(logs: Mapping[str, bytes]) -> dict[str, int]:
    """Return the offset of the first batch of each log, by directory."""
    found: dict[str, int] = {}
    for path in sorted(logs):
        if len(logs[path]) >= OFFSET_BYTES:
            offset = int.from_bytes(logs[path][:OFFSET_BYTES], "big")
            found.setdefault(posixpath.dirname(path), offset)
    return found


def _with_records(
    meanings: Mapping[str, object], first_offsets: Mapping[str, int]
) -> dict[str, object]:
    """Return of the epochs what the records tell: a start may make the file of them anew.

    Epochs that begin at the end of their log are left out: no record is of them. The log ends at
    its recovery point. A log that retention has emptied still has its last epoch in the file, from
    where the log began before; loading it forgets that, as Kafka does. The first epoch begins with
    the first batch: compaction may have removed those before it.
    """
    ends = _by_directory(meanings.get(filenames.RECOVERY_POINT_CHECKPOINT))
    starts = _by_directory(meanings.get(filenames.LOG_START_CHECKPOINT))
    kept = dict(meanings)
    for path, epochs in meanings.items():
        end = ends.get(posixpath.dirname(path))
        if isinstance(epochs, list) and end is not None:
            is_empty = starts.get(posixpath.dirname(path), 0) >= end
            entries = [] if is_empty else [entry for entry in epochs if entry[1] < end]
            first = first_offsets.get(posixpath.dirname(path))
            past = [] if first is None else [entry for entry in entries if entry[1] <= first]
            begun = [(past[-1][0], first)] if past else []
            kept[path] = [*begun, *entries[len(past) :]]
    return kept


def _by_directory(offsets: object) -> dict[str, int]:
    """Return what a checkpoint of offsets says, by the names of the partitions' directories."""
    return {
        filenames.partition_directory(topic, partition): offset
        for (topic, partition), offset in (offsets.items() if isinstance(offsets, dict) else ())
    }


def _meaning(path: str, name: str, text: bytes) -> object:
    try:
        if name == filenames.LEADER_EPOCH_CHECKPOINT:
            return decode_leader_epochs(path, text)
        offsets = decode_offsets(path, text)
    except CheckpointError as error:
        return str(error)
    return {
        (topic, partition): offset
        for (topic, partition), offset in offsets.items()
        if topic != filenames.METADATA_TOPIC
    }


def _files(filesystem: FileSystem, directory: str, below: str = "") -> Iterator[str]:
    for name in filesystem.list(posixpath.join(directory, below) if below else directory):
        path = posixpath.join(below, name)
        if filesystem.is_directory(posixpath.join(directory, path)):
            yield from _files(filesystem, directory, path)
        else:
            yield path


def same(before: Before, after: Before, excused: Collection[str] = ()) -> list[str]:
    """Compare the files before the second start with those after the second stop."""
    found = []
    for path in sorted({*before.logs, *after.logs}):
        directory = posixpath.dirname(path)
        if directory in excused:
            continue
        old, new = before.logs.get(path), after.logs.get(path)
        if directory == filenames.METADATA_DIRECTORY:
            if old is not None and new is not None and not new.startswith(old):
                found.append(f"the second start changed {path}")
        elif old is None or new is None:
            found.append(f"the second start {'made' if old is None else 'removed'} {path}")
        elif old != new:
            found.append(f"the second start changed {path}: {_difference(old, new)}")
    for path in sorted({*before.meanings, *after.meanings}):
        if posixpath.dirname(path) in (filenames.METADATA_DIRECTORY, *excused):
            continue
        meaning = _without(before.meanings.get(path), excused)
        now = _without(after.meanings.get(path), excused)
        if meaning != now and not (path in _OFFSETS and "" in excused):
            found.append(f"the second start changed {path} from {meaning} to {now}")
    return _listed(found)


def _without(meaning: object, excused: Collection[str]) -> object:
    """Return what a checkpoint says, without the partitions that are excused."""
    if not isinstance(meaning, dict):
        return meaning
    return {
        (topic, partition): offset
        for (topic, partition), offset in meaning.items()
        if filenames.partition_directory(topic, partition) not in excused
    }


def _difference(old: bytes, new: bytes) -> str:
    if len(old) != len(new):
        return f"{len(old)} bytes before, {len(new)} after"
    position = next(at for at in range(len(old)) if old[at] != new[at])
    return f"at position {position}"


def silent(messages: Iterable[str]) -> list[str]:
    """Object to what a start of a directory that was stopped cleanly must not say."""
    return _listed(
        [
            f"the second start said: {message}"
            for message in messages
            if any(words in message for words in RECOVERING)
        ]
    )


# -- Kafka's tool -------------------------------------------------------------------------


def must_dump(seed: str) -> bool:
    """Whether this history is one of those whose files Kafka's tool reads: it takes seconds."""
    return not zlib.crc32(seed.encode()) % DUMPED_ONE_IN and has_oracle()


def has_oracle() -> bool:
    """Whether Kafka's jars are at hand."""
    return kafka.LIBS_VARIABLE in os.environ


def save(filesystem: FileSystem, data: str, place: Path) -> None:
    """Write a directory of any file system to the real disk."""
    for path in _files(filesystem, data):
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(filesystem.read(posixpath.join(data, path)))


def dumped(
    filesystem: FileSystem, data: str, place: Path, excused: Collection[str] = ()
) -> list[str]:
    """Save the directory, and have Kafka's tool read its segments and indexes."""
    save(filesystem, data, place)
    paths = [
        str(path)
        for path in sorted(place.glob("*-*/*"))
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot")
        and path.stat().st_size
        and path.parent.name not in excused
    ]
    if not paths:
        return []
    done = kafka.tool(DUMP, "--deep-iteration", "--files", ",".join(paths[:DUMPED_MAX]))
    lines = done.stdout.decode().splitlines()
    found = [line for line in lines if any(words in line for words in _COMPLAINTS)]
    found += [line for line in done.stderr.decode().splitlines() if not _USUAL.match(line)]
    if done.returncode:
        found.append(f"exit code {done.returncode}")
    return _listed([f"Kafka's dump tool: {one}" for one in found])


_COMPLAINTS: Final = ("isvalid: false", "invalid bytes", "Error", "is invalid")
# What it also says of files that Kafka has compacted: gaps, and batches without records, which keep
# their entry in the time index and have no time. A mismatch is told by its second line.
_USUAL: Final = re.compile(
    r"Non-consecutive offsets in |  -?\d+ is followed by \d+$|"
    r"Found timestamp mismatch in |  Index timestamp: \d+, log timestamp: -1$"
)
