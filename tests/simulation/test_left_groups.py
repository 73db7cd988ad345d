"""What is left in a log of groups: whole batches, in their order, and an event for what counts."""

import random
from itertools import pairwise

from broker.groups.group_log import partition_of
from broker.groups.registry import Registry
from broker.groups.replay import Replayer, read_chunk
from protocol.group_records import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from protocol.records import Record, batches, build
from storage.files.filenames import log_name
from tests.simulation.clients.groups import SIMPLE_GROUPS
from tests.simulation.disk_content import fill
from tests.simulation.emptied_marker import OFFSETS
from tests.simulation.left_groups import LEFT, leave_offsets
from tests.support.group_host import FakeHost
from tests.support.memory_inodes import Directory

COUNT = 2


def home() -> Directory:
    key = OffsetCommitKey(group="x", topic="plain", partition=0)
    value = OffsetCommitValue(offset=1, commit_timestamp=1)
    batch = bytes(build([Record(0, 1, encode_key(key), encode_value(value))]))
    directory = Directory()
    content = {f"{OFFSETS}-{number}": {log_name(0): batch} for number in range(COUNT)}
    fill(directory, {**content, "plain-0": {}, "passing-0": {}, "topic-admin-1-0": {}})
    return directory


def read(directory: Directory, group: str) -> dict[tuple[str, int], int]:
    """Return the offsets of a group as the broker loads them."""
    number = partition_of(group, COUNT)
    registry = Registry()
    replayer = Replayer(registry, FakeHost(), lambda one: partition_of(one, COUNT) == number)
    content = bytes(directory.live[f"{OFFSETS}-{number}"].live[log_name(0)].live)
    headers = [header for _, header in batches(content)]
    assert all(after.base_offset == before.next_offset for before, after in pairwise(headers))
    for _ in replayer.apply(read_chunk(memoryview(content))):
        pass
    return {
        (topic, partition): committed.offset
        for topic, of in registry.offsets.topics(group).items()
        for partition, committed in of.items()
    }


def test_what_counts_is_what_the_broker_loads():
    said = set()
    for seed in range(300):
        directory = home()
        says, event = leave_offsets(directory, random.Random(seed), 5)
        said.add(says.removeprefix("leaves ").partition(" of simple")[0])
        loaded = {group: read(directory, group) for group in SIMPLE_GROUPS}
        if event is None:
            assert not any(loaded.values()), says
        else:
            assert loaded.pop(event.group) == {("plain", 0): event.offset}, says
            assert not any(loaded.values())
            assert (event.began_ns, event.ended_ns, event.code) == (5, 5, 0)
    assert said == {name for name, _ in LEFT}


def test_a_directory_without_groups_gets_none():
    assert leave_offsets(Directory(), random.Random(1), 5) == ("finds no log of groups", None)
