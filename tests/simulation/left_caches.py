"""Small files of a data directory that are lost, cut, or of another version.

Each function changes one of them, or some, and says what it did. What they hold can be made anew
from the logs. The log start offsets are left alone: without them, deleted records come back.
"""

from __future__ import annotations

import dataclasses
import random
import struct
from typing import Final

from crc32c import crc32c

from storage.errors import CheckpointError, CorruptMetadata
from storage.files import filenames, meta_properties
from storage.files.text_files import decode_leader_epochs, encode_leader_epochs
from tests.support.memory_inodes import Directory, Inode

# Texts that are no checkpoint, for offsets and epochs alike.
MALFORMED: Final = (
    b"",
    b"0\n",
    b"1\n0\n",
    b"0\n7\n",
    b"0\nx\n",
    b"0\n1\nt\n",
    b"0\n1\nt -1 0\n",
    b"0\n1\n\xe9 0 0\n",
    b"0\n1\n0 -1\n",
    b"0\n2\n3 5\n3 6\n",
    b"0\n2\n3 5\n4 5\n",
    b"0\n1\n900000 0\n",
)
QUORUM: Final = b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":1}'


def put(directory: Directory, name: str, content: bytes) -> None:
    """Put a file into a directory, durably."""
    inode = Inode()
    inode.live += content
    inode.harden()
    directory.put(name, inode)


def bytes_of(directory: Directory, name: str) -> bytes:
    """Return what a file holds; nothing, if it is missing."""
    node = directory.live.get(name)
    return bytes(node.live) if isinstance(node, Inode) else b""


def remove(directory: Directory, name: str) -> None:
    """Remove a name, durably."""
    directory.put(name, None)


# -- Of a partition -----------------------------------------------------------------------------


def spoil_identity(directory: Directory, rng: random.Random) -> str:
    """Remove partition.metadata, add Kafka's end of line, or let a character rot."""
    name = filenames.PARTITION_METADATA
    text = bytes_of(directory, name)
    way = rng.randrange(4)
    if way == 0 or not text:
        remove(directory, name)
        return "no topic id"
    at = rng.randrange(len(text) - 21, len(text) - 1)
    rotten = text[:at] + (b"A" if text[at] != 65 else b"B") + text[at + 1 :]
    put(
        directory,
        name,
        (text + b"\n", rotten, rng.choice((b"", b"version: 1\ntopic_id: x")))[way - 1],
    )
    return ("a line's end", "a rotten topic id", "no topic id")[way - 1]


def spoil_epochs(directory: Directory, rng: random.Random) -> str:
    """Remove the leader epochs, write none, or one that no leader has had."""
    name = filenames.LEADER_EPOCH_CHECKPOINT
    way = rng.randrange(3)
    if way == 0:
        remove(directory, name)
    elif way == 1:
        put(directory, name, rng.choice(MALFORMED))
    else:
        try:
            entries = decode_leader_epochs(name, bytes_of(directory, name))
        except CheckpointError:
            entries = []
        last = entries[-1] if entries else (0, 0)
        put(directory, name, encode_leader_epochs([*entries, (last[0] + 1_000, last[1] + 1)]))
    return ("no epochs", "malformed epochs", "a future epoch")[way]


def _names(directory: Directory, file: str) -> list[str]:
    parsed = {name: filenames.parse(name) for name in sorted(directory.live)}
    return [name for name, one in parsed.items() if one and one.file == file and not one.transit]


def _cut_or_changed(data: bytes, head: struct.Struct, start: int, rng: random.Random) -> bytes:
    """Return a file with a head and a CRC in a way in which it must not be believed."""
    way = rng.randrange(4)
    if way == 0 or len(data) <= head.size:
        return data[: rng.randrange(head.size)]
    if way == 1:
        return data[:start] + bytes([data[start] ^ 1]) + data[start + 1 :]
    if way == 2:  # the count is wrong, the CRC right
        body = struct.pack(">i", 77) + data[head.size :]
        return data[: start - 4] + struct.pack(">I", crc32c(body)) + body
    return data[: start - 6] + b"\0\x09" + data[start - 4 :]  # another version


SNAPSHOT_HEAD: Final = struct.Struct(">hIi")
HISTORY_HEAD: Final = struct.Struct(">4shIi")


def spoil_snapshot(directory: Directory, rng: random.Random) -> str:
    """Spoil some snapshots of the producers."""
    for name in _names(directory, filenames.SNAPSHOT):
        data = bytes_of(directory, name)
        if data and rng.random() < 0.6:
            put(directory, name, _cut_or_changed(data, SNAPSHOT_HEAD, 6, rng))
    return "bad snapshots"


def spoil_history(directory: Directory, rng: random.Random) -> str:
    """Spoil some of the broker's own additions to snapshots, or lose them, as Kafka has none."""
    for name in _names(directory, filenames.PRODUCERS):
        data = bytes_of(directory, name)
        if not data or rng.random() < 0.4:
            remove(directory, name)
        else:
            put(directory, name, _cut_or_changed(data, HISTORY_HEAD, 10, rng))
    return "bad histories of producers"


# -- Of the whole directory ---------------------------------------------------------------------


def spoil_points(home: Directory, rng: random.Random) -> str:
    """Lose the recovery points."""
    if rng.random() < 0.3:
        remove(home, filenames.RECOVERY_POINT_CHECKPOINT)
    else:
        put(home, filenames.RECOVERY_POINT_CHECKPOINT, rng.choice(MALFORMED[:-4]))
    return "no recovery points"


def spoil_cleaned(home: Directory, rng: random.Random) -> str:
    """Lose how far compaction has got."""
    if rng.random() < 0.3:
        remove(home, filenames.CLEANER_CHECKPOINT)
    else:
        put(home, filenames.CLEANER_CHECKPOINT, rng.choice(MALFORMED[:-4]))
    return "no cleaned offsets"


def change_clean_mark(home: Directory, rng: random.Random) -> str:
    """Lose the clean mark, or write that of an older or a later Kafka."""
    if filenames.CLEAN_SHUTDOWN not in home.live:
        return ""
    way = rng.randrange(3)
    if way == 0:
        remove(home, filenames.CLEAN_SHUTDOWN)
    else:
        text = (b"", b'{"version":0,"brokerEpoch":77,"later":true}')[way - 1]
        put(home, filenames.CLEAN_SHUTDOWN, text)
    return ("no clean mark", "an empty clean mark", "a later clean mark")[way]


def retell_meta_properties(home: Directory, rng: random.Random) -> str:
    """Write meta.properties as Java does: with comments, in another order, ends and escapes.

    Its cluster may have another id.
    """
    try:
        text = bytes_of(home, filenames.META_PROPERTIES)
        meta = meta_properties.decode(filenames.META_PROPERTIES, text)
    except CorruptMetadata:
        return ""  # it is lost already
    if rng.random() < 0.3:
        meta = dataclasses.replace(meta, cluster_id="another")
    lines = sorted(meta_properties.encode(meta).decode("latin-1").splitlines())
    said = [line.replace("=", " : ", 1) for line in lines]
    whole = "\r\n".join(["#", "! Mon Nov 23 2026", *said, "a\\tb=\\u0041", ""])
    put(home, filenames.META_PROPERTIES, whole.encode("latin-1"))
    return "a meta.properties of Java"


def lose_identity(home: Directory, rng: random.Random) -> str:
    """Lose meta.properties, spoil it, or give it another node's id: for brokers that only read."""
    text = bytes_of(home, filenames.META_PROPERTIES)
    way = rng.randrange(3)
    if way == 0:
        remove(home, filenames.META_PROPERTIES)
    else:
        said = (b"#\n", text.replace(b"node.id=1", b"node.id=8"))[way - 1]
        put(home, filenames.META_PROPERTIES, said)
    return ("no identity", "a bad identity", "the identity of another node")[way]


def leave_snapshot_parts(home: Directory, rng: random.Random) -> str:
    """Leave what Kafka's controller keeps beside its log, and snapshots in transit."""
    directory = home.live.get(filenames.METADATA_DIRECTORY)
    if not isinstance(directory, Directory):
        return ""
    put(directory, filenames.QUORUM_STATE, QUORUM)
    name = filenames.metadata_snapshot_name(rng.randrange(5), 1)
    put(directory, name + rng.choice((".part", ".deleted")), rng.randbytes(30))
    return "parts of metadata snapshots"
