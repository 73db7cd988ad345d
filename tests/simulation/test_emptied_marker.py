"""An emptied marker is a sound batch at the end of a log, and stays after a power cut."""

import random

from protocol.records import Record, build, read_header, read_records, verify
from tests.simulation.disk_content import fill
from tests.simulation.emptied_marker import add_marker, emptied_marker
from tests.support.memory_inodes import Directory, Inode

LOG = "00000000000000000000.log"


def log_of(directory: Directory, name: str) -> Inode:
    partition = directory.live[name]
    assert isinstance(partition, Directory)
    node = partition.live[LOG]
    assert isinstance(node, Inode)
    return node


def test_a_marker_without_records() -> None:
    batch = emptied_marker(12, 3, 999)
    header = read_header(batch, 0)
    assert verify(batch) == header
    assert (header.is_control, header.is_transactional) == (True, True)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (12, 13, 3)
    assert list(read_records(batch, 0, size_max=1)) == []


def test_it_is_at_the_end_of_a_log_of_groups() -> None:
    batch = bytes(build([Record(0, 5, b"k", b"v"), Record(1, 6, b"k", b"w")], leader_epoch=4))
    directory = Directory()
    content = {
        "t-0": {LOG: batch},
        "__consumer_offsets-0": {LOG: batch},
        "__consumer_offsets-1": {LOG: b""},
        "__consumer_offsets-2": {LOG: batch + bytes(100)},
    }
    fill(directory, content)
    assert (
        add_marker(directory, random.Random(1))
        == f"has an emptied marker in __consumer_offsets-0/{LOG}"
    )
    inode = log_of(directory, "__consumer_offsets-0")
    assert bytes(inode.live) == bytes(inode.durable) == batch + emptied_marker(2, 4, 6)
    assert bytes(log_of(directory, "t-0").live) == batch


def test_where_no_log_ends_well_there_is_none() -> None:
    assert add_marker(Directory(), random.Random(1)) == "has no log of groups"
