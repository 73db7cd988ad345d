"""Files that are missing, cut, empty, garbage or surplus: what the broker and verify do with them.

A table: the damage to a directory that was stopped cleanly, the offsets that may be missing after
it, and the kind of finding that `verify` reports for it. In every row but the last ones the broker
starts, serves everything else as it was written, accepts more records, and deletes no log file.
Without its metadata it refuses to start, names the file and what to do, and changes nothing.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from client.files.verify import Verification
from protocol.messages.delete_topics import DeleteTopicsRequest
from storage.files.os_filesystem import OsFileSystem
from tests.support import data_directory, rotten
from tests.support.broker_rig import Rig, batch
from tests.support.log_house import purge
from tests.support.rig_client import produce
from tests.support.rotten import DELETED_BEFORE, Original

PLAIN = "plain-0/"
SEGMENT = PLAIN + "00000000000000000035"  # in the middle: batches 35, 40, 45
LAST = PLAIN + "00000000000000000110"
NEWEST = PLAIN + "00000000000000000120"
NOBODYS = "nobodys-0/00000000000000000000.log"
METADATA = "__cluster_metadata-0/00000000000000000000.log"
POINTS, STARTS = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
Files = dict[str, bytes]


@dataclass
class Case:
    """The damage, what may be missing, and the kind of verify's finding ("": a note, or none)."""

    name: str
    do: Callable[[Files], None]
    kind: str
    missing: dict[int, int] = field(default_factory=dict)  # offset in "plain" -> its error code
    are_back: bool = False  # deleted records return


def put(path: str, content: bytes) -> Callable[[Files], None]:
    return lambda files: files.__setitem__(path, content)


def drop(path: str) -> Callable[[Files], None]:
    return lambda files: files.pop(path) and None


def cut(path: str, size: int) -> Callable[[Files], None]:
    return lambda files: files.__setitem__(path, files[path][:size])


def pad(path: str, more: bytes) -> Callable[[Files], None]:
    return lambda files: files.__setitem__(path, files[path] + more)


def zero(path: str) -> Callable[[Files], None]:
    return lambda files: files.__setitem__(path, bytes(len(files[path])))


def copy(path: str, to: str) -> Callable[[Files], None]:
    return lambda files: files.__setitem__(to, files[path])


def drop_segment(files: Files) -> None:
    for kind in ("log", "index", "timeindex"):
        files.pop(f"{SEGMENT}.{kind}")


def older(end_offset: int) -> Callable[[Files], None]:
    """Restore a partition from an older backup, which ended at `end_offset`."""

    def restore(files: Files) -> None:
        for path in list(files):
            base = path.removeprefix(PLAIN).partition(".")[0]
            if path.startswith(PLAIN) and base.isdigit() and int(base) >= end_offset:
                del files[path]
        files[PLAIN + "leader-epoch-checkpoint"] = b"0\n1\n1 0\n"

    return restore


HOLE = {35: 1, 40: 1, 45: 1}
CASES = [
    Case("recovery points: empty", put(POINTS, b""), "checkpoint"),
    Case("recovery points: garbage", put(POINTS, b"\xff\x00?"), "checkpoint"),
    Case("recovery points: wrong count", put(POINTS, b"0\n7\nplain 0 120\n"), "checkpoint"),
    Case("recovery points: negative", put(POINTS, b"0\n1\nplain 0 -5\n"), "checkpoint"),
    Case("recovery points: missing", drop(POINTS), "missing"),
    Case("recovery points: too low", put(POINTS, b"0\n1\nplain 0 60\n"), "checkpoint"),
    Case("recovery points: too high", put(POINTS, b"0\n1\nplain 0 500\n"), "missing"),
    Case("log starts: empty", put(STARTS, b""), "checkpoint", are_back=True),
    Case("log starts: garbage", put(STARTS, b"zero\none\n"), "checkpoint", are_back=True),
    Case("log starts: negative", put(STARTS, b"0\n1\nplain 0 -1\n"), "checkpoint", are_back=True),
    Case("log starts: beyond the end", put(STARTS, b"0\n1\nplain 0 900\n"), "checkpoint",
         are_back=True),
    Case("index: missing", drop(SEGMENT + ".index"), "index"),
    Case("index: cut", cut(SEGMENT + ".index", 5), "index"),
    Case("index: zeros", zero(SEGMENT + ".index"), "index"),
    Case("index: too long", pad(SEGMENT + ".index", b"\x7f" * 80), "index"),
    Case("index: of another segment", copy(LAST + ".index", SEGMENT + ".index"), "index"),
    Case("index: of no segment", copy(SEGMENT + ".index", PLAIN + f"{77:020}.index"), "missing"),
    Case("time index: missing", drop(SEGMENT + ".timeindex"), "timeindex"),
    Case("time index: zeros behind", pad(SEGMENT + ".timeindex", bytes(24)), "timeindex"),
    Case("time index: garbage", put(SEGMENT + ".timeindex", b"\x11" * 36), "timeindex"),
    Case("time index: cut", cut(LAST + ".timeindex", 7), "timeindex"),
    Case("snapshot: cut", cut(NEWEST + ".snapshot", 20), "snapshot"),
    Case("snapshot: version 99", put(NEWEST + ".snapshot", b"\x00\x63" + bytes(54)), "snapshot"),
    Case("snapshot: missing", drop(NEWEST + ".snapshot"), "snapshot"),
    Case("producers: cut", cut(NEWEST + ".producers", 9), "snapshot"),
    Case("epochs: empty", put(PLAIN + "leader-epoch-checkpoint", b""), "checkpoint"),
    Case("epochs: garbage", put(PLAIN + "leader-epoch-checkpoint", b"0\n1\nx y\n"), "checkpoint"),
    Case("epochs: missing", drop(PLAIN + "leader-epoch-checkpoint"), "missing"),
    Case("topic id: empty", put(PLAIN + "partition.metadata", b""), "identity"),
    Case("topic id: missing", drop(PLAIN + "partition.metadata"), "missing"),
    Case("a segment in the middle: missing", drop_segment, "missing", HOLE),
    Case("a segment in the middle: cut", cut(SEGMENT + ".log", 250), "structure", {40: 56, 45: 56}),
    Case("the last segment: cut", cut(LAST + ".log", 250), "torn", {115: 56}),
    Case("the last segment: zeros behind", pad(LAST + ".log", bytes(5_000)), "zeros"),
    Case("the last segment: garbage behind", pad(LAST + ".log", b"\x02garbage" * 40), "torn"),
    Case("a segment twice", copy(SEGMENT + ".log", PLAIN + f"{42:020}.log"), "order",
         {40: 56, 45: 56}),
    Case("a partition from an old backup", older(60), "missing",
         dict.fromkeys(range(60, 120, 5), 1)),
    Case("a foreign file", put("notes.txt", b"mine"), ""),
    Case("a foreign file in a partition", put(PLAIN + "notes.txt", b"mine"), ""),
    Case("lost+found", put("lost+found/#123", b"?"), ""),
    Case("a directory that is no topic's", put("no topic at all/0.log", b"?"), ""),
    Case("a partition of no topic", put(NOBODYS, b"?"), "torn"),
    Case("an unfinished replacement", put(POINTS + ".tmp", b"0\n"), ""),
]  # fmt: skip
REFUSED = [
    Case(
        "metadata: a batch in the middle", lambda files: _damage(files, METADATA, 200), "metadata"
    ),
    Case("metadata: cut", cut(METADATA, 300), "metadata"),
    Case("metadata: missing", drop(METADATA), "metadata"),
    Case("metadata: empty", put(METADATA, b""), "metadata"),
    Case("meta.properties: missing", drop("meta.properties"), "identity"),
    Case("meta.properties: empty", put("meta.properties", b""), "identity"),
]


def _damage(files: Files, path: str, position: int) -> None:
    content = bytearray(files[path])
    content[position] ^= 0xFF
    files[path] = bytes(content)


def ids(case: Case) -> str:
    return case.name


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def sound() -> Original:
    return rotten.make("clean")


def damaged(sound: Original, case: Case) -> Original:
    files = dict(sound.files)
    case.do(files)
    return Original(files, sound.batches, sound.deleted_before)


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_broker_serves_undamaged_records(sound: Original, case: Case) -> None:
    original = damaged(sound, case)
    found = rotten.outcome(original, None)
    assert not found.refused
    assert found.wrong == []
    assert set(found.appended.values()) == {0}
    for topic, codes in found.codes.items():
        for offset, code in codes.items():
            if topic == "plain" and offset in case.missing:
                assert code == case.missing[offset], (topic, offset)
            elif topic != "plain" or offset >= DELETED_BEFORE:
                assert code == 0, (topic, offset)
            elif not case.are_back and offset + 4 < DELETED_BEFORE:
                assert code == 1, (topic, offset)
    gone = {path for path in original.files if path.endswith(".log")} - set(found.files)
    if NOBODYS in gone:  # put aside
        directory, _, name = NOBODYS.partition("/")
        aside = re.compile(rf"{directory}\.[0-9a-f]{{32}}-stray/{name}")
        gone -= {NOBODYS} if any(map(aside.fullmatch, found.files)) else set()
    assert not gone, "log files are missing"


@pytest.mark.parametrize("case", REFUSED, ids=ids)
def test_without_its_metadata_it_refuses_and_changes_nothing(sound: Original, case: Case) -> None:
    original = damaged(sound, case)
    found = rotten.outcome(original, None)
    assert found.refused
    assert any(word in found.refused for word in ("estore", "copy", "backup")), found.refused
    for path, content in original.files.items():
        assert found.files.get(path, -1) == len(content) or path == ".kafka_cleanshutdown", path


@pytest.mark.parametrize("case", [*CASES, *REFUSED], ids=ids)
def test_verify_finds_it_and_says_what_to_do(sound: Original, case: Case, tmp_path: Path) -> None:
    damaged(sound, case).write_to(tmp_path)
    report = Verification(OsFileSystem()).run([str(tmp_path)])
    kinds = {finding.kind for finding in report.findings}
    assert report.is_sound == (case.kind == "")
    assert case.kind in {*kinds, ""}, report.findings
    for finding in report.findings:
        assert finding.path.startswith(str(tmp_path))
        assert finding.found
        assert finding.meaning
        assert finding.remedy


async def test_a_partition_may_lie_on_another_disk(tmp_path: Path) -> None:
    """By a symbolic link, as operators do when a disk is full: served, verified, deleted."""
    elsewhere = tmp_path / "elsewhere"
    data = await asyncio.to_thread(data_directory.make, tmp_path / "data")
    (data / "t-0").rename(elsewhere)
    (data / "t-0").symlink_to(elsewhere)
    assert Verification(OsFileSystem()).run([str(data)]).is_sound
    rig = Rig(data, log_segment_delete_delay_ms="0")
    end = rig.services.logs.get("t", 0).end_offset
    assert await produce(rig, batch(b"more")) == end
    answer = await rig.call(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 4)
    assert answer.responses[0].error_code == 0
    purge(rig.services.logs, rig.clock.now_ms() + 3_600_000)
    assert rig.services.logs.warnings == []
    assert not [path for path in data.iterdir() if path.name.startswith("t-")]
    assert list(elsewhere.iterdir()) == []
    assert await rig.close()


async def test_a_partition_on_a_missing_disk_is_not_created_again(tmp_path: Path) -> None:
    """The broker does not create it again; its records are served when the disk is back."""
    elsewhere = tmp_path / "elsewhere"
    data = await asyncio.to_thread(data_directory.make, tmp_path / "data")
    (data / "t-0").rename(tmp_path / "unplugged")
    (data / "t-0").symlink_to(elsewhere)
    rig = Rig(data)
    assert [(log.topic, log.partition) for log in rig.services.logs.all()][1:] == [("t", 1)]
    assert await rig.close()
    assert not elsewhere.exists()
    (tmp_path / "unplugged").rename(elsewhere)
    rig = Rig(data)
    assert rig.services.logs.get("t", 0).end_offset == 5 * data_directory.BATCHES
    assert await rig.close()
