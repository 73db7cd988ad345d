"""Every name that we make is parsed back; no other name is taken for one of ours."""

from __future__ import annotations

import pytest

from storage.files import filenames
from storage.files.filenames import Kind, Name, parse

BASE = 368769
HEX = "b6e027764de1470e8f98817bc0d31b36"

NAMES = [
    ("00000000000000368769.log", Name(kind=Kind.SEGMENT, file="log", base_offset=BASE)),
    ("00000000000000368769.index", Name(kind=Kind.SEGMENT, file="index", base_offset=BASE)),
    ("00000000000000368769.timeindex", Name(kind=Kind.SEGMENT, file="timeindex", base_offset=BASE)),
    ("00000000000000368769.txnindex", Name(kind=Kind.SEGMENT, file="txnindex", base_offset=BASE)),
    ("00000000000000368769.snapshot", Name(kind=Kind.SEGMENT, file="snapshot", base_offset=BASE)),
    ("00000000000000368769.producers", Name(kind=Kind.SEGMENT, file="producers", base_offset=BASE)),
    (
        "00000000000000368769.log.deleted",
        Name(kind=Kind.SEGMENT, file="log", base_offset=BASE, transit="deleted"),
    ),
    (
        "00000000000000368769.index.swap",
        Name(kind=Kind.SEGMENT, file="index", base_offset=BASE, transit="swap"),
    ),
    (
        "00000000000000368769.log.cleaned",
        Name(kind=Kind.SEGMENT, file="log", base_offset=BASE, transit="cleaned"),
    ),
    (
        "00000000000000368769.log.4096.1700000000000.quarantine",
        Name(kind=Kind.QUARANTINE, base_offset=BASE, position=4096, time_ms=1_700_000_000_000),
    ),
    (
        "00000000000000000120-0000000002.checkpoint",
        Name(kind=Kind.METADATA_SNAPSHOT, base_offset=120, epoch=2),
    ),
    (
        "00000000000000000120-0000000002.checkpoint.part",
        Name(kind=Kind.METADATA_SNAPSHOT, base_offset=120, epoch=2, transit="part"),
    ),
    ("page_visits-0", Name(kind=Kind.PARTITION, topic="page_visits", partition=0)),
    ("a-b-12", Name(kind=Kind.PARTITION, topic="a-b", partition=12)),
    ("a.b-2147483647", Name(kind=Kind.PARTITION, topic="a.b", partition=2**31 - 1)),
    ("__cluster_metadata-0", Name(kind=Kind.PARTITION, topic="__cluster_metadata", partition=0)),
    (
        f"gone-3.{HEX}-delete",
        Name(kind=Kind.MOVED_PARTITION, topic="gone", partition=3, transit="delete"),
    ),
    (
        f"gone-3.{HEX}-stray",
        Name(kind=Kind.MOVED_PARTITION, topic="gone", partition=3, transit="stray"),
    ),
    ("meta.properties", Name(kind=Kind.FILE, file="meta.properties")),
    (".lock", Name(kind=Kind.FILE, file=".lock")),
    (".kafka_cleanshutdown", Name(kind=Kind.FILE, file=".kafka_cleanshutdown")),
    ("bootstrap.checkpoint", Name(kind=Kind.FILE, file="bootstrap.checkpoint")),
    (
        "recovery-point-offset-checkpoint",
        Name(kind=Kind.FILE, file="recovery-point-offset-checkpoint"),
    ),
    ("leader-epoch-checkpoint", Name(kind=Kind.FILE, file="leader-epoch-checkpoint")),
    ("partition.metadata", Name(kind=Kind.FILE, file="partition.metadata")),
    ("quorum-state", Name(kind=Kind.FILE, file="quorum-state")),
    ("meta.properties.tmp", Name(kind=Kind.TEMPORARY, file="meta.properties")),
    (
        "00000000000000368769.snapshot.tmp",
        Name(kind=Kind.TEMPORARY, file="00000000000000368769.snapshot", base_offset=BASE),
    ),
]

FOREIGN = [
    "",
    ".",
    "..",
    "lost+found",
    "0.log",
    "00000000000000000000.logs",
    "00000000000000000000.log.gone",
    "0000000000000000000.log",
    "000000000000000000000.log",
    "99999999999999999999.log",
    "\uff10" * 20 + ".log",
    "topic",
    "topic-",
    "-0",
    "topic-01",
    "topic--1x",
    "topic-2147483648",
    "to pic-0",
    "to/pic-0",
    "topic-0\n",
    ".-0",
    "..-0",
    "x" * 250 + "-0",
    "gone-3.b6e0-delete",
    f"gone-3.{HEX.upper()}-delete",
    f"gone-3.{HEX}-removed",
    "topic-0.tmp",
    "meta.properties.tmp.tmp",
    "meta.properties.bak",
    "00000000000000368769.log.x.1700000000000.quarantine",
]


@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_known(name: str, expected: Name) -> None:
    assert parse(name) == expected


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign(name: str) -> None:
    assert parse(name) is None


def test_names_are_parsed_back() -> None:
    made = [
        (filenames.log_name(BASE), "log"),
        (filenames.offset_index_name(BASE), "index"),
        (filenames.time_index_name(BASE), "timeindex"),
        (filenames.transaction_index_name(BASE), "txnindex"),
        (filenames.snapshot_name(BASE), "snapshot"),
        (filenames.producers_name(BASE), "producers"),
    ]
    for name, file in made:
        assert parse(name) == Name(kind=Kind.SEGMENT, file=file, base_offset=BASE)
        assert parse(filenames.deleted(name)) == Name(
            kind=Kind.SEGMENT, file=file, base_offset=BASE, transit="deleted"
        )
        assert filenames.segment_file(BASE, file) == name
    assert filenames.segment_file(1, "log", "swap") == "00000000000000000001.log.swap"
    assert parse(filenames.quarantine_name(5, 6, 7)) == Name(
        kind=Kind.QUARANTINE, base_offset=5, position=6, time_ms=7
    )
    assert parse(filenames.metadata_snapshot_name(120, 2)) == Name(
        kind=Kind.METADATA_SNAPSHOT, base_offset=120, epoch=2
    )
    assert parse(filenames.partition_directory("a-1", 2)) == Name(
        kind=Kind.PARTITION, topic="a-1", partition=2
    )


def test_the_largest_offset_has_a_name() -> None:
    assert parse(filenames.log_name(2**63 - 1)) is not None


@pytest.mark.parametrize("length", [1, 211, 212, 249])
def test_a_deleted_directory_fits_a_file_system(length: int) -> None:
    topic = "t" * length
    name = filenames.deleted_directory(topic, 2**31 - 1, HEX)
    assert len(name) <= 255
    parsed = parse(name)
    assert parsed is not None
    assert topic.startswith(parsed.topic)
    assert (parsed.kind, parsed.partition) == (Kind.MOVED_PARTITION, 2**31 - 1)
