"""DescribeProducers: each partition's producers. Compared with Kafka."""

from pathlib import Path

from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import ask, crash, create, produce

TIMESTAMP = 1_700_000_000_000


async def describe(rig: Rig, *topics: tuple[str, list[int]]) -> list[tuple[str, list[tuple]]]:
    body = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=numbers) for name, numbers in topics]
    )
    answer = await ask(rig, body, 0)
    return [
        (
            topic.name,
            [
                (one.partition_index, one.error_code, one.error_message, one.active_producers)
                for one in topic.partitions
            ],
        )
        for topic in answer.topics
    ]


async def fill(rig: Rig) -> ProducerState:
    await create(rig, count=2)
    options = {"producer_id": 7, "producer_epoch": 3}
    await produce(rig, batch(b"a", b"b", timestamp=TIMESTAMP, base_sequence=0, **options))
    await produce(rig, batch(b"c", timestamp=TIMESTAMP + 5, base_sequence=2, **options))
    await produce(rig, batch(b"not idempotent"))
    return ProducerState(
        producer_id=7,
        producer_epoch=3,
        last_sequence=2,
        last_timestamp=TIMESTAMP + 5,
        coordinator_epoch=-1,
        current_txn_start_offset=-1,
    )


async def test_a_producer_is_described_with_its_last_batch(rig: Rig) -> None:
    state = await fill(rig)
    assert await describe(rig, ("t", [0, 1])) == [("t", [(0, 0, None, [state]), (1, 0, None, [])])]


async def test_a_producer_is_described_after_a_crash(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    state = await fill(rig)
    await crash(rig)
    again = Rig(tmp_path / "data")
    assert await describe(again, ("t", [0])) == [("t", [(0, 0, None, [state])])]
    assert await again.close()


async def test_unknown_partitions_are_refused(rig: Rig) -> None:
    await create(rig)
    found = await describe(
        rig,
        ("t", [9, -1]),
        ("nope", [0, 1]),
        ("a b", [0]),
        ("", [0]),
        ("__cluster_metadata", [0]),
        ("t", []),
    )
    codes = [(name, [(number, code) for number, code, _, _ in rows]) for name, rows in found]
    assert codes == [
        ("t", [(9, 3), (-1, 3)]),
        ("nope", [(0, 3), (1, 3)]),
        ("a b", [(0, 17)]),
        ("", [(0, 17)]),
        ("__cluster_metadata", [(0, 3)]),
        ("t", []),
    ]
    assert all(message for _, rows in found[1:] for _, _, message, _ in rows)


async def test_a_partition_requested_twice_is_answered_once(rig: Rig) -> None:
    await create(rig)
    assert await describe(rig, ("t", [0, 0]), ("t", [0])) == [
        ("t", [(0, 0, None, [])]),
        ("t", []),
    ]
    assert await describe(rig) == []
