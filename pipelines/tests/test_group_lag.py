"""How far groups are behind, asked of a broker."""

from __future__ import annotations

import struct

from pyspark_barnabas.jobs.group_lag import (
    GroupLag,
    lag_of_cluster,
    lags_of,
)
from pyspark_barnabas.options import source_options
from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.error_codes import Retriable
from pyspark_barnabas.wire.primitives import Reader, array, string

OFFSET_COMMIT = 8


def commit(cluster, monkeypatch, group, topic, offsets):
    """Commit as a program without a group's membership does: OffsetCommit 2."""
    monkeypatch.setitem(protocol.ADMIN_VERSIONS, OFFSET_COMMIT, 2)
    rows = [struct.pack(">iq", *pair) + string("") for pair in offsets.items()]
    topics = array([string(topic) + array(rows)])
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) + topics

    def answered(read):
        def retried(reader: Reader):
            errors, answer = read(reader)
            if set(errors) & {14, 15, 16}:  # no coordinator yet
                raise Retriable("no coordinator yet")
            return answer

        return retried

    def coordinator(reader: Reader):
        reader.int32()
        return [reader.int16()], None

    def result(reader: Reader):
        rows = reader.array(
            lambda: (reader.string(), reader.array(lambda: (reader.int32(), reader.int16())))
        )
        return [error for _, parts in rows for _, error in parts], rows

    asked = string(group) + b"\0"
    cluster.ask("finding the coordinator", protocol.FIND_COORDINATOR, asked, answered(coordinator))
    answer = cluster.ask("committing", OFFSET_COMMIT, body, answered(result))
    assert answer == [(topic, [(index, 0) for index in offsets])]


def test_lag_is_what_lies_behind_the_committed_offset():
    committed = {("g", "t", 0): 3, ("g", "t", 1): 50, ("g", "gone", 0): 1, ("h", "t", 0): -1}
    ends = {("t", 0): 10, ("t", 1): 40, ("t", 2): 5}
    assert lags_of(committed, ends) == [GroupLag("g", "t", {0: 7, 1: 0})]
    assert lags_of(committed, ends)[0].total == 7


def test_a_broker_is_asked_for_all_groups(topic, monkeypatch):
    for partition in range(3):
        topic.append(partition, [Record(None, b"x", 1)] * 20)
    commit(topic.cluster, monkeypatch, f"one-{topic.name}", topic.name, {0: 5, 2: 20})
    commit(topic.cluster, monkeypatch, f"two-{topic.name}", topic.name, {1: 0})
    options = source_options(topic.options(), streaming=False).cluster
    ends = {(topic.name, partition): 20 for partition in range(3)}
    assert lag_of_cluster(options, ends) == [
        GroupLag(f"one-{topic.name}", topic.name, {0: 15, 2: 0}),
        GroupLag(f"two-{topic.name}", topic.name, {1: 20}),
    ]
