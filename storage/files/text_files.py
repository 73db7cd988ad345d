"""The small text files beside the logs, byte for byte as Kafka writes them.

    recovery-point-offset-checkpoint   0 ⏎ count ⏎ and a line "topic partition offset" each
    log-start-offset-checkpoint        the same
    leader-epoch-checkpoint            0 ⏎ count ⏎ and a line "epoch start-offset" each
    partition.metadata                 version: 0 ⏎ topic_id: <22 characters base64url>, no ⏎
    .kafka_cleanshutdown               {"version":0,"brokerEpoch":n}

The leading 0 is the format's version (Kafka: CheckpointFile, OffsetCheckpointFile,
LeaderEpochCheckpointFile, PartitionMetadataFile, CleanShutdownFileHandler). Encoding and decoding
are pure. The read functions take a file system and return an empty value for a missing file. Any
violation of the format raises CheckpointError with path, line, found and expected: these files are
caches, and the caller resets what it cannot read. Writes use `FileSystem.replace`, so a crash
leaves the old or the new content.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeVar

from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filesystem import FileSystem

VERSION: Final = 0
UUID_SIZE: Final = 16
NO_BROKER_EPOCH: Final = -1
ENTRIES_MAX: Final = 10_000_000  # more than any directory has; bounds what garbage can claim

_NUMBER = re.compile(rb"-?[0-9]{1,19}")
_INT64_MAX = 2**63 - 1
_INT32_MAX = 2**31 - 1

T = TypeVar("T")

Offsets = dict[tuple[str, int], int]


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Text of an offset checkpoint: (topic, partition) -> offset."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return _encode(lines)


def decode_offsets(path: str, text: bytes) -> Offsets:
    """Read an offset checkpoint; `path` is for the error. Raises CheckpointError."""
    offsets: Offsets = {}
    for number, line in _entries(path, text, 3):
        try:
            topic = line[0].decode("ascii")
        except UnicodeDecodeError:
            raise _malformed(path, number, b" ".join(line), "an ASCII topic name") from None
        partition = _integer(path, number, line[1], _INT32_MAX)
        offset = _integer(path, number, line[2], _INT64_MAX)
        offsets[topic, partition] = offset
    return offsets


def read_offsets(filesystem: FileSystem, path: str) -> Offsets:
    """Read an offset checkpoint; empty without the file. Raises CheckpointError, OSError."""
    return _read(filesystem, path, decode_offsets) or {}


def write_offsets(
    filesystem: FileSystem, path: str, offsets: Mapping[tuple[str, int], int]
) -> None:
    """Replace an offset checkpoint, durably. Raises OSError."""
    filesystem.replace(path, encode_offsets(offsets))


def encode_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """Text of a leader epoch checkpoint: (epoch, start offset), both rising."""
    return _encode([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def decode_leader_epochs(path: str, text: bytes) -> list[tuple[int, int]]:
    """Read a leader epoch checkpoint. Raises CheckpointError, also where entries do not rise."""
    entries: list[tuple[int, int]] = []
    for number, line in _entries(path, text, 2):
        epoch = _integer(path, number, line[0], _INT32_MAX)
        start_offset = _integer(path, number, line[1], _INT64_MAX)
        if entries and (epoch <= entries[-1][0] or start_offset <= entries[-1][1]):
            raise _malformed(path, number, b" ".join(line), f"more than {entries[-1]}")
        entries.append((epoch, start_offset))
    return entries


def read_leader_epochs(filesystem: FileSystem, path: str) -> list[tuple[int, int]]:
    """Read a leader epoch checkpoint; empty without the file. Raises CheckpointError, OSError."""
    return _read(filesystem, path, decode_leader_epochs) or []


def encode_partition_metadata(topic_id: bytes) -> bytes:
    """Text of partition.metadata; `topic_id` is 16 bytes."""
    return f"version: {VERSION}\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(path: str, text: bytes) -> bytes:
    """Read partition.metadata: the topic id, 16 bytes. Raises CheckpointError."""
    lines = text.split(b"\n")
    if len(lines) == 3 and not lines[2]:
        del lines[2]
    match [line.split(b": ") for line in lines]:
        case [[b"version", version], [b"topic_id", topic_id]]:
            if version != b"0":
                raise _malformed(path, 1, version, f"version {VERSION}")
            try:
                return uuid_bytes(topic_id.decode("ascii"))
            except ValueError:
                raise _malformed(path, 2, topic_id, "a base64url uuid") from None
    raise _malformed(path, 1, text[:80], 'the lines "version: 0" and "topic_id: …"')


def read_partition_metadata(filesystem: FileSystem, path: str) -> bytes | None:
    """Read a partition's topic id; None without the file. Raises CheckpointError."""
    return _read(filesystem, path, decode_partition_metadata)


def encode_clean_shutdown(broker_epoch: int = NO_BROKER_EPOCH) -> bytes:
    """Text of the marker that a clean stop leaves."""
    return f'{{"version":{VERSION},"brokerEpoch":{broker_epoch}}}'.encode()


def uuid_text(uuid: bytes) -> str:
    """16 bytes as Kafka's Uuid.toString writes them: base64url without padding."""
    assert len(uuid) == UUID_SIZE
    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def differ_in_a_character(one: bytes, other: bytes) -> bool:
    """Whether the texts of two ids differ in one character only: a flipped bit.

    Random ids are that close once in 2^120 pairs.
    """
    return sum(a != b for a, b in zip(uuid_text(one), uuid_text(other), strict=True)) == 1


def uuid_bytes(text: str) -> bytes:
    """Read a uuid that `uuid_text` wrote. Raises ValueError."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{22}", text, re.ASCII):
        raise ValueError(f"uuid {text!r}, expected 22 characters of base64url")
    try:
        return base64.urlsafe_b64decode(text + "==")
    except binascii.Error as error:
        raise ValueError(f"uuid {text!r}: {error}") from None


def _encode(lines: list[str]) -> bytes:
    return "\n".join([str(VERSION), str(len(lines)), *lines, ""]).encode("ascii")


def _entries(path: str, text: bytes, fields: int) -> Iterable[tuple[int, list[bytes]]]:
    """Return (line number, fields) of each entry after checking version and count."""
    lines = text.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2:
        raise _malformed(path, len(lines) + 1, b"the end of the file", "version and count")
    if lines[0] != b"0":
        raise _malformed(path, 1, lines[0], f"version {VERSION}")
    count = _integer(path, 2, lines[1], ENTRIES_MAX)
    if count != len(lines) - 2:
        raise _malformed(path, 2, lines[1], f"the count of the {len(lines) - 2} lines below")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        split = line.split()
        if len(split) != fields:
            raise _malformed(path, number, line, f"{fields} fields")
        entries.append((number, split))
    return entries


def _integer(path: str, number: int, field: bytes, maximum: int) -> int:
    if _NUMBER.fullmatch(field):
        value = int(field)
        if 0 <= value <= maximum:
            return value
    raise _malformed(path, number, field, f"a number from 0 to {maximum}")


def _malformed(path: str, number: int, found: bytes, wanted: str) -> CheckpointError:
    text = found[:80].decode("ascii", "backslashreplace")
    return CheckpointError(
        path, f"Malformed line in checkpoint file, line {number}: {text!r}, expected {wanted}"
    )


def _read(filesystem: FileSystem, path: str, decode: Callable[[str, bytes], T]) -> T | None:
    try:
        text = filesystem.read(path)
    except FileNotFoundError:
        return None
    return decode(path, text)


def make_partition_directory(filesystem: FileSystem, directory: str, topic_id: bytes) -> str:
    """Make a partition's directory and the file with its topic id; return the file's path.

    Nothing is synced. Raises OSError, after removing what was made if that is possible.
    """
    path = posixpath.join(directory, filenames.PARTITION_METADATA)
    filesystem.mkdir(directory)
    try:
        file = filesystem.open(path, create=True)
        file.pwrite(encode_partition_metadata(topic_id), 0)
        file.close()
    except OSError:
        with suppress(OSError):
            filesystem.unlink(path)
        with suppress(OSError):
            filesystem.rmdir(directory)
        raise
    return path
