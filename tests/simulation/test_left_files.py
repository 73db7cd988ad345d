"""What is left in a data directory: nothing of the records, and every kind of it."""

import random

from storage.files import filenames
from storage.files.text_files import encode_partition_metadata
from tests.simulation.disk_content import entries, fill
from tests.simulation.left_caches import put, remove
from tests.simulation.left_files import LEFT, leave_files
from tests.support.memory_inodes import Directory, Inode

BASES = (0, 7, 12)
LOGS = {f"t-0/{base:020}.log": bytes([base]) * 30 for base in BASES}
LOG_STARTS = b"0\n1\nt 0 3\n"


def home() -> Directory:
    partition = {path.partition("/")[2]: data for path, data in LOGS.items()}
    for base in BASES:
        partition |= {
            f"{base:020}.{file}": bytes(70)
            for file in ("index", "timeindex", "snapshot", "producers")
        }
    partition["partition.metadata"] = encode_partition_metadata(bytes(range(16)))
    directory = Directory()
    fill(
        directory,
        {
            "t-0": partition,
            "__cluster_metadata-0": {"00000000000000000000.log": b"m"},
            "meta.properties": b"version=1\ncluster.id=c\nnode.id=1\n",
            ".kafka_cleanshutdown": b"",
            filenames.LOG_START_CHECKPOINT: LOG_STARTS,
        },
    )
    return directory


def test_records_and_starts_stay():
    kinds: set[str] = set()
    for seed in range(300):
        directory = home()
        says = leave_files(directory, random.Random(seed))
        assert says.startswith("leaves ")
        after = dict(entries(directory))
        assert {path: after.get(path) for path in LOGS} == LOGS
        assert after[filenames.LOG_START_CHECKPOINT] == LOG_STARTS
        assert after["__cluster_metadata-0/00000000000000000000.log"] == b"m"
        kinds |= {path.rpartition(".")[2] for path in after}
    assert kinds >= {"deleted", "cleaned", "swap", "txnindex", "bak", "quarantine", "part", "tmp"}


def test_an_empty_directory_is_left_alone_or_gets_names_of_nobody():
    for seed in range(100):
        leave_files(Directory(), random.Random(seed))


def test_recovery_points_stay_beside_flipped_bits():
    for seed in range(300):
        directory = home()
        fill(directory, {filenames.RECOVERY_POINT_CHECKPOINT: b"0\n0\n"})
        leave_files(directory, random.Random(seed), has_flips=True)
        assert dict(entries(directory))[filenames.RECOVERY_POINT_CHECKPOINT] == b"0\n0\n"


def test_each_kind_says_what_it_does():
    directory = home()
    for leave in LEFT:
        assert isinstance(leave(directory, None, random.Random(1)), str)


def test_what_is_left_stays_over_a_later_sync_of_what_a_killed_broker_had_named():
    directory = Directory()
    old, other = Inode(), Inode()
    old.write(b"old", 0)
    directory.change({"name": old})
    directory.change({"other": other})
    put(directory, "name", b"new")
    remove(directory, "other")
    directory.settle()
    left = directory.durable["name"]
    assert isinstance(left, Inode)
    assert directory.live == directory.durable == {"name": left}
    assert left.live == left.durable == b"new"


def test_bytes_that_are_left_stay_over_a_later_sync_of_what_a_killed_broker_had_written():
    inode = Inode()
    inode.write(b"old", 0)
    inode.live[:] = b"n"
    inode.harden()
    inode.settle()
    assert inode.live == inode.durable == b"n"
