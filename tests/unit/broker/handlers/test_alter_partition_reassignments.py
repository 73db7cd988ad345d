"""AlterPartitionReassignments: what one broker can and cannot do. Compared with Kafka 4.3.0."""

import asyncio
from pathlib import Path

import pytest

from broker.handlers import alter_partition_reassignments
from broker.metadata.topic_rules import NewTopic
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection

NO_MOVE = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
BAD = ErrorCode.INVALID_REPLICA_ASSIGNMENT
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def moving(
    *moves: tuple[str, int, list[int] | None], **fields: int
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=number, replicas=replicas)],
            )
            for name, number, replicas in moves
        ],
        **fields,
    )


def outcomes(answer) -> list[tuple[int, str | None]]:
    return [
        (one.error_code, one.error_message)
        for topic in answer.responses
        for one in topic.partitions
    ]


CASES = [
    ("where it is", ("t", 0, [1]), 0, None),
    ("nothing to take back", ("t", 0, None), NO_MOVE, None),
    ("another broker", ("t", 0, [2]), BAD, "includes broker 2, but no such broker is registered"),
    ("one more broker", ("t", 0, [1, 2]), BAD, "includes broker 2, but no such broker"),
    ("twice the same", ("t", 0, [1, 1]), BAD, "includes the broker 1 more than once"),
    ("a stranger behind a pair", ("t", 0, [1, 1, 3]), BAD, "the broker 1 more than once"),
    ("a stranger before a pair", ("t", 0, [1, 1, 0]), BAD, "broker 0, but no such broker"),
    ("none", ("t", 0, []), BAD, "includes an empty replica list"),
    ("no such topic", ("nope", 0, [1]), UNKNOWN, "Unable to find a topic named nope."),
    ("no such partition", ("t", 5, [1]), UNKNOWN, "Unable to find partition t:5."),
    ("a negative partition", ("t", -1, None), UNKNOWN, "Unable to find partition t:-1."),
]


@pytest.mark.parametrize(("name", "move", "code", "text"), CASES, ids=[case[0] for case in CASES])
async def test_outcomes(rig: Rig, name: str, move, code: int, text: str | None) -> None:
    await rig.services.topics.create([NewTopic(name="t", partition_count=2)])
    end_offset = rig.services.controller.metadata_log.end_offset
    answer = await rig.call(moving(move), 1)
    ((found, message),) = outcomes(answer)
    assert (answer.error_code, answer.error_message, found) == (0, None, code), name
    assert message is None if text is None else text in message
    assert rig.services.controller.metadata_log.end_offset == end_offset, "no record was written"


async def test_each_partition_has_its_own_outcome(rig: Rig) -> None:
    await rig.services.topics.create([NewTopic(name="t")])
    moves = [("t", 0, None), ("t", 0, [1]), ("nope", 0, [1]), ("t", 0, [2])]
    answer = await rig.call(moving(*moves), 1)
    assert [code for code, _ in outcomes(answer)] == [NO_MOVE, 0, UNKNOWN, BAD]


async def test_the_whole_request(rig: Rig) -> None:
    empty = await rig.call(moving(), 1)
    assert (empty.error_code, empty.error_message, empty.responses) == (0, "", [])
    late = await rig.call(moving(("t", 0, [1]), timeout_ms=0), 1)
    assert (late.error_code, outcomes(late)) == (7, [(7, None)])
    kept = await rig.call(moving(allow_replication_factor_change=False), 1)
    assert kept.allow_replication_factor_change, "an empty request is answered with the defaults"


@pytest.mark.parametrize(
    ("replicas", "adding", "removing", "wanted", "allow", "code", "left"),
    [
        ([1, 2, 3], [], [], [1], True, 0, [1]),
        ([2, 1], [], [], [1], True, 0, [1]),
        ([1, 2], [], [], [1], False, ErrorCode.INVALID_REPLICATION_FACTOR, [1, 2]),
        ([1, 2], [], [2], [1], False, 0, [1]),
        ([1, 2], [2], [], [1], True, 0, [1]),
        ([1, 2], [2], [], None, True, 0, [1]),
        ([2, 1], [1], [2], None, True, BAD, [2, 1]),
    ],
)
async def test_a_directory_of_a_larger_cluster_can_be_reassigned_to_this_broker(
    tmp_path: Path, replicas, adding, removing, wanted, allow, code, left
) -> None:
    rig = Rig(tmp_path / "data")
    await rig.services.topics.create([NewTopic(name="t")])
    (topic,) = rig.services.topics.all()
    partition = topic.partitions[0]
    ours = partition.directories[0]
    partition.replicas, partition.adding_replicas = replicas, adding
    partition.removing_replicas = removing
    partition.directories = [ours if node == 1 else bytes([node] * 16) for node in replicas]
    request = moving(("t", 0, wanted), allow_replication_factor_change=allow)
    ((found, message),) = outcomes(await rig.call(request, 1))
    (topic,) = rig.services.topics.all()
    partition = topic.partitions[0]
    assert (found, partition.replicas) == (code, left), message
    if not code:
        assert (partition.adding_replicas, partition.removing_replicas) == ([], [])
        assert partition.directories == [ours]
        assert partition.leader == 1
    assert await rig.close()


async def test_a_partition_without_a_local_replica_cannot_be_assigned_here(rig: Rig) -> None:
    await rig.services.topics.create([NewTopic(name="t")])
    rig.services.controller._led.clear()
    ((code, message),) = outcomes(await rig.call(moving(("t", 0, [1])), 1))
    assert code == BAD
    assert "not on broker 1" in str(message)


async def test_a_topic_that_is_deleted_after_the_turn_of_its_partition(
    rig: Rig, monkeypatch
) -> None:
    """Its change is not recorded: a record of a topic that is gone would stop the next start."""
    monkeypatch.setattr(alter_partition_reassignments, "PARTITIONS_PER_TURN", 2)
    for name in "tu":
        await rig.services.topics.create([NewTopic(name=name)])
        (partition,) = rig.services.topics.by_name(name).partitions
        partition.replicas, partition.directories = [1, 2], [partition.directories[0], bytes(16)]
    body = moving(("t", 0, [1]), ("u", 0, [1]), ("nope", 0, [1]))
    request = FakeConnection().request(body, api_key=body.MESSAGE.api_key, version=1)
    answer, _ = await asyncio.gather(
        alter_partition_reassignments.handle(request, rig.services),
        rig.services.topics.delete("t"),
    )
    assert [code for code, _ in outcomes(answer)] == [UNKNOWN, 0, UNKNOWN]
    (topic,) = rig.services.topics.all()
    assert (topic.name, topic.partitions[0].replicas) == ("u", [1])
