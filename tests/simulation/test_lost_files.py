"""Only files that the broker can make anew are lost, and snapshots together with their history."""

import random

from tests.simulation.disk_content import entries, fill
from tests.simulation.lost_files import lose_files, lose_producers
from tests.support.memory_inodes import Directory

BASES = ("00000000000000000000", "00000000000000000007")
SUFFIXES = ("index", "log", "producers", "snapshot", "timeindex")
NEEDED = {
    "t-0/partition.metadata": b"",
    "t-0/00000000000000000000.log": b"",
    "t-0/00000000000000000007.log": b"",
    "meta.properties": b"",
    "__cluster_metadata-0/00000000000000000000.index": b"",
}


def content() -> dict[str, object]:
    files = {f"{base}.{suffix}": b"" for base in BASES for suffix in SUFFIXES}
    return {
        "t-0": {**files, "partition.metadata": b""},
        "__cluster_metadata-0": {"00000000000000000000.index": b""},
        "meta.properties": b"",
    }


def test_what_is_lost() -> None:
    lost_somewhere: set[str] = set()
    for seed in range(50):
        directory = Directory()
        fill(directory, content())
        before = {path for path, _ in entries(directory)}
        says, *lost = lose_files(directory, random.Random(seed)).replace(" nothing", "").split()
        assert says == "loses"
        assert {path for path, _ in entries(directory)} == before - set(lost)
        assert not set(lost) & set(NEEDED)
        for base in BASES:
            pair = {f"t-0/{base}.snapshot", f"t-0/{base}.producers"}
            assert len(pair & set(lost)) != 1
        lost_somewhere.update(lost)
    assert lost_somewhere == {
        f"t-0/{base}.{suffix}" for base in BASES for suffix in SUFFIXES if suffix != "log"
    }


def test_all_that_snapshots_say_of_producers_is_lost() -> None:
    directory = Directory()
    fill(directory, content())
    before = {path for path, _ in entries(directory)}
    lose_producers(directory, random.Random(1))
    left = {path for path, _ in entries(directory)}
    assert before - left == {
        f"t-0/{base}.{suffix}" for base in BASES for suffix in ("snapshot", "producers")
    }
