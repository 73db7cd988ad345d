"""Kafka's small files: byte for byte its text; garbage raises only CheckpointError.

Apache Kafka 4.3.0 wrote the texts.
"""

from __future__ import annotations

import contextlib
import random

import pytest

from storage.errors import CheckpointError
from storage.files import text_files
from tests.support.memory_filesystem import MemoryFileSystem

OFFSETS = [
    (b"0\n0\n", {}),
    (
        b"0\n3\nconf 0 0\nplain 1 54\nplain 0 46\n",
        {("conf", 0): 0, ("plain", 1): 54, ("plain", 0): 46},
    ),
    (b"0\n1\na.b_c-d 2147483647 9223372036854775807\n", {("a.b_c-d", 2**31 - 1): 2**63 - 1}),
]
EPOCHS = [(b"0\n0\n", []), (b"0\n1\n0 0\n", [(0, 0)]), (b"0\n2\n1 0\n2 75\n", [(1, 0), (2, 75)])]
UUID = bytes(15) + b"\x01"
METADATA = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(("text", "offsets"), OFFSETS)
def test_offsets(text: bytes, offsets: text_files.Offsets) -> None:
    assert text_files.encode_offsets(offsets) == text
    assert text_files.decode_offsets("p", text) == offsets


@pytest.mark.parametrize(("text", "entries"), EPOCHS)
def test_leader_epochs(text: bytes, entries: list[tuple[int, int]]) -> None:
    assert text_files.encode_leader_epochs(entries) == text
    assert text_files.decode_leader_epochs("p", text) == entries


def test_partition_metadata() -> None:
    assert text_files.encode_partition_metadata(UUID) == METADATA
    assert text_files.decode_partition_metadata("p", METADATA) == UUID
    assert text_files.decode_partition_metadata("p", METADATA + b"\n") == UUID


@pytest.mark.parametrize("epoch", [101, -1])
def test_the_clean_shutdown_file_is_kafkas(epoch: int) -> None:
    text = text_files.encode_clean_shutdown(epoch)
    assert text == b'{"version":0,"brokerEpoch":%d}' % epoch


BAD_OFFSETS = [
    ("empty", b"", "line 1: 'the end of the file', expected version and count"),
    ("a newline", b"\n", "line 2"),
    ("no count", b"0\n", "line 2: 'the end of the file', expected version and count"),
    ("version 1", b"1\n0\n", "line 1: '1', expected version 0"),
    ("zeros", bytes(35), "line 2: 'the end of the file'"),
    ("count too high", b"0\n2\nconf 0 0\n", "line 2: '2', expected the count of the 1 lines"),
    ("count too low", b"0\n0\nconf 0 0\n", "line 2: '0', expected the count of the 1 lines"),
    ("count negative", b"0\n-1\n", "line 2: '-1', expected a number from 0"),
    ("count no number", b"0\nx\n", "line 2: 'x'"),
    ("count huge", b"0\n99999999999999999999\n", "line 2"),
    ("two fields", b"0\n1\nconf 0\n", "line 3: 'conf 0', expected 3 fields"),
    ("four fields", b"0\n1\nconf 0 0 0\n", "line 3"),
    ("empty line", b"0\n1\n\n", "line 3: '', expected 3 fields"),
    ("offset negative", b"0\n1\nconf 0 -1\n", "line 3: '-1'"),
    ("offset too large", b"0\n1\nconf 0 9223372036854775808\n", "line 3"),
    ("offset not a number", b"0\n1\nconf 0 1_0\n", "line 3: '1_0'"),
    ("partition too large", b"0\n1\nconf 2147483648 1\n", "line 3"),
    ("not ASCII", b"0\n1\nc\xc3\xb6nf 0 1\n", "line 3"),
    ("torn", b"0\n3\nconf 0 0\nplain 1 5", "line 2"),
]


@pytest.mark.parametrize(("name", "text", "said"), BAD_OFFSETS, ids=[c[0] for c in BAD_OFFSETS])
def test_malformed_offsets(name: str, text: bytes, said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        text_files.decode_offsets("/data/recovery-point-offset-checkpoint", text)
    assert caught.value.path == "/data/recovery-point-offset-checkpoint"
    assert said in caught.value.reason, name
    assert "Malformed line in checkpoint file" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty", b""),
        ("epoch again", b"0\n2\n1 0\n1 75\n"),
        ("epoch back", b"0\n2\n2 0\n1 75\n"),
        ("start back", b"0\n2\n1 80\n2 75\n"),
        ("start again", b"0\n2\n1 75\n2 75\n"),
        ("negative", b"0\n1\n-1 0\n"),
        ("three fields", b"0\n1\n1 0 0\n"),
    ],
)
def test_malformed_leader_epochs(name: str, text: bytes) -> None:
    with pytest.raises(CheckpointError):
        text_files.decode_leader_epochs(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty", b""),
        ("one line", b"version: 0"),
        ("version 1", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"),
        ("short id", b"version: 0\ntopic_id: AAAA"),
        ("padded id", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ=="),
        ("not base64url", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA/+"),
        ("not ASCII", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA\xff\xff"),
        ("other keys", b"version: 0\ntopic: AAAAAAAAAAAAAAAAAAAAAQ"),
        ("more lines", METADATA + b"\nx: 1\n"),
        ("zeros", bytes(43)),
    ],
)
def test_malformed_partition_metadata(name: str, text: bytes) -> None:
    with pytest.raises(CheckpointError):
        text_files.decode_partition_metadata(name, text)


def test_garbage_raises_only_checkpoint_errors() -> None:
    randomness = random.Random(11)
    samples = [b"0\n3\nconf 0 0\nplain 1 54\nplain 0 46\n", b"0\n2\n1 0\n2 75\n", METADATA]
    for _ in range(2_000):
        text = bytearray(randomness.choice(samples))
        for _ in range(randomness.randint(1, 4)):
            text[randomness.randrange(len(text))] = randomness.randrange(256)
        for decode in (
            text_files.decode_offsets,
            text_files.decode_leader_epochs,
            text_files.decode_partition_metadata,
        ):
            with contextlib.suppress(CheckpointError):
                decode("p", bytes(text))


def test_files() -> None:
    disk = MemoryFileSystem()
    path = "/log-start-offset-checkpoint"
    assert text_files.read_offsets(disk, path) == {}
    assert text_files.read_leader_epochs(disk, path) == []
    assert text_files.read_partition_metadata(disk, path) is None
    text_files.write_offsets(disk, path, {("t", 1): 5})
    assert text_files.read_offsets(disk, path) == {("t", 1): 5}
    disk.crash()
    assert text_files.read_offsets(disk, path) == {("t", 1): 5}
    with pytest.raises(CheckpointError):
        text_files.read_leader_epochs(disk, path)
    with pytest.raises(CheckpointError):
        text_files.read_partition_metadata(disk, path)


@pytest.mark.parametrize("op", ["open", "truncate", "pwrite", "fdatasync", "rename",
                                "sync_directory"])  # fmt: skip
@pytest.mark.parametrize("unsynced", ["lost", "torn", "zeros"])
def test_a_crash_while_writing_leaves_the_old_or_the_new_content(op: str, unsynced: str) -> None:
    disk = MemoryFileSystem()
    path = "/recovery-point-offset-checkpoint"
    text_files.write_offsets(disk, path, {("t", 0): 1})
    disk.fail(op, bytes_written=3)
    with pytest.raises(OSError, match="Input/output"):
        text_files.write_offsets(disk, path, {("t", 0): 2})
    disk.crash(unsynced)
    disk.heal()
    assert text_files.read_offsets(disk, path) == {("t", 0): 1}
    text_files.write_offsets(disk, path, {("t", 0): 3})
    disk.crash(unsynced)
    assert text_files.read_offsets(disk, path) == {("t", 0): 3}


def test_uuids() -> None:
    for uuid in (bytes(16), b"\xff" * 16, bytes(range(16))):
        assert text_files.uuid_bytes(text_files.uuid_text(uuid)) == uuid
    assert text_files.uuid_text(b"\xfb\xff" * 8)[:2] == "-_"
    for text in ("", "AAAA", "A" * 21, "A" * 23, "A" * 21 + "=", "A" * 21 + "+"):
        with pytest.raises(ValueError, match="22 characters"):
            text_files.uuid_bytes(text)


@pytest.mark.parametrize("op", ["open", "pwrite", "close", "mkdir"])
def test_a_partition_directory_is_created_completely_or_not_at_all(op):
    filesystem = MemoryFileSystem()
    filesystem.fail(op, error=28)
    with pytest.raises(OSError, match="No space"):
        text_files.make_partition_directory(filesystem, "/t-0", bytes(range(16)))
    assert filesystem.list("/") == []
    filesystem.heal()
    path = text_files.make_partition_directory(filesystem, "/t-0", bytes(range(16)))
    assert text_files.read_partition_metadata(filesystem, path) == bytes(range(16))
