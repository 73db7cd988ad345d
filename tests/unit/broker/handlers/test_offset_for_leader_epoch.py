"""OffsetForLeaderEpoch: where an epoch ended. Compared with Kafka."""

from pathlib import Path
from typing import Any

import pytest

from protocol.errors import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, crash, create, produce

FENCED = (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
UNKNOWN_EPOCH = (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


async def answers(
    rig: Rig, *asked: tuple[int, int, int], topic: str = "t", version: int = 4, replica: int = -1
) -> list[tuple[int, int, int]]:
    """Request (partition, current epoch, epoch); return each one's (error, epoch, end offset)."""
    body = OffsetForLeaderEpochRequest(
        replica_id=replica,
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=partition, current_leader_epoch=current, leader_epoch=epoch
                    )
                    for partition, current, epoch in asked
                ],
            )
        ],
    )
    (answer,) = (await ask(rig, body, version)).topics
    assert answer.topic == topic
    assert [one.partition for one in answer.partitions] == [partition for partition, _, _ in asked]
    return [(one.error_code, one.leader_epoch, one.end_offset) for one in answer.partitions]


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("current", "epoch", "expected"),
    [
        (-1, 0, (0, 0, 3)),
        (0, 0, (0, 0, 3)),
        (-1, -1, (0, -1, -1)),
        (-1, 1, (0, -1, -1)),
        (-1, 9, (0, -1, -1)),
        (0, 9, (0, -1, -1)),
        (-1, -5, (0, -5, 0)),
        (1, 0, UNKNOWN_EPOCH),
        (5, 5, UNKNOWN_EPOCH),
        (-2, 0, FENCED),
    ],
)
async def test_a_log_of_one_epoch(
    rig: Rig, version: int, current: int, epoch: int, expected: tuple[int, int, int]
) -> None:
    await create(rig)
    await produce(rig, batch(b"a", b"b", b"c"))
    assert await answers(rig, (0, current, epoch), version=version) == [expected]


@pytest.mark.parametrize(("epoch", "expected"), [(0, (0, 0, 0)), (3, (0, -1, -1))])
async def test_an_empty_log_knows_its_leader_epoch(
    rig: Rig, epoch: int, expected: tuple[int, int, int]
) -> None:
    await create(rig)
    assert await answers(rig, (0, -1, epoch)) == [expected]


async def test_epochs_across_crashes(tmp_path: Path) -> None:
    """Epochs 0 and 2 have records, 1 was skipped, and 3 has none yet."""
    for end in (2, None, 5, None):
        rig = Rig(tmp_path / "data")
        if end == 2:
            await create(rig)
            await produce(rig, batch(b"a", b"b"))
        elif end == 5:
            await produce(rig, batch(b"a", b"b", b"c"))
        if rig.services.partitions.get("t", 0).log.leader_epoch < 3:
            await crash(rig)
    expected: dict[tuple[int, int], Any] = {
        (-1, 0): (0, 0, 2),
        (-1, 1): (0, 0, 2),
        (-1, 2): (0, 2, 5),
        (3, 3): (0, 3, 5),
        (-1, 4): (0, -1, -1),
        (2, 2): FENCED,
        (4, 3): UNKNOWN_EPOCH,
    }
    asked = [(0, current, epoch) for current, epoch in expected]
    assert await answers(rig, *asked) == list(expected.values())
    await produce(rig, batch(b"d"))
    assert await answers(rig, (0, 3, 3), (0, 3, 2)) == [(0, 3, 6), (0, 2, 5)]
    assert await rig.close()


async def test_unknown_topics_and_partitions(rig: Rig) -> None:
    await create(rig)
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert await answers(rig, (9, 5, 0), (0, -1, 0), (-1, -1, 0)) == [unknown, (0, 0, 0), unknown]
    assert await answers(rig, (0, -1, 0), topic="no") == [unknown]


@pytest.mark.parametrize("replica", [-3, -2, -1, 0, 1, 7])
async def test_the_replica_id_makes_no_difference(rig: Rig, replica: int) -> None:
    await create(rig)
    assert await answers(rig, (0, -1, 0), replica=replica) == [(0, 0, 0)]


async def test_records_that_are_not_durable_yet_count(rig: Rig) -> None:
    await create(rig)
    partition = rig.services.partitions.get("t", 0)
    partition.flush_started_ns = rig.clock.monotonic_ns()
    await produce(rig, batch(b"a"), acks=1)
    assert partition.log.high_watermark == 0
    assert await answers(rig, (0, 0, 0)) == [(0, 0, 1)]
    partition.flush_started_ns = 0
    rig.services.commit.flush_now(partition)
