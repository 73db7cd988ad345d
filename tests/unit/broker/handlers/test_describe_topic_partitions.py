"""DescribeTopicPartitions: pages of topics. Each row was also tried on Kafka 4.3."""

import pytest

from broker.handlers import describe_topic_partitions
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from tests.support.broker_rig import Rig
from tests.support.metadata_node import create_topic
from tests.support.rig_client import ask, create

Place = tuple[str, int]
Page = tuple[list[tuple[int, str, list[int]]], Place | None]


async def page(rig: Rig, names: list[str], cursor: Place | None = None, limit: int = 2_000) -> Page:
    body = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    answer = await ask(rig, body, 0)
    after = answer.next_cursor
    return (
        [
            (topic.error_code, topic.name, [one.partition_index for one in topic.partitions])
            for topic in answer.topics
        ],
        after and (after.topic_name, after.partition_index),
    )


@pytest.fixture
async def filled(rig: Rig) -> Rig:
    await create(rig, "qb", 3)
    await create(rig, "qa", 2)
    await create(rig, "__consumer_offsets", 1)
    return rig


async def test_a_topic_is_described_completely(filled: Rig) -> None:
    body = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in ("nope", "qa", "__consumer_offsets")]
    )
    internal, unknown, known = (await ask(filled, body, 0)).topics
    image = filled.services.controller.image
    assert known.topic_id == image.topics["qa"].topic_id
    assert known.partitions == [
        DescribeTopicPartitionsResponsePartition(
            partition_index=number,
            leader_id=1,
            leader_epoch=0,
            replica_nodes=[1],
            isr_nodes=[1],
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
        for number in range(2)
    ]
    assert (internal.is_internal, known.is_internal, unknown.is_internal) == (True, False, False)
    assert unknown.topic_id == bytes(16)
    for topic in (internal, unknown, known):
        assert topic.topic_authorized_operations == 3576


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (0, ([(0, "qa", [0])], ("qa", 1))),
        (-1, ([(0, "qa", [0])], ("qa", 1))),
        (1, ([(0, "qa", [0])], ("qa", 1))),
        (2, ([(0, "qa", [0, 1])], ("qb", 0))),
        (3, ([(0, "qa", [0, 1]), (0, "qb", [0])], ("qb", 1))),
        (4, ([(0, "qa", [0, 1]), (0, "qb", [0, 1])], ("qb", 2))),
        (5, ([(0, "qa", [0, 1]), (0, "qb", [0, 1, 2])], None)),
        (2**31 - 1, ([(0, "qa", [0, 1]), (0, "qb", [0, 1, 2])], None)),
    ],
)
async def test_limits(filled: Rig, limit: int, expected: Page) -> None:
    assert await page(filled, ["qb", "qa"], limit=limit) == expected


@pytest.mark.parametrize(
    ("names", "cursor", "limit", "expected"),
    [
        (["qb", "qa"], ("qa", 1), 9, ([(0, "qa", [1]), (0, "qb", [0, 1, 2])], None)),
        (["qb", "qa"], ("qa", 1), 2, ([(0, "qa", [1]), (0, "qb", [0])], ("qb", 1))),
        (["qb", "qa"], ("qa", 2), 9, ([(0, "qa", []), (0, "qb", [0, 1, 2])], None)),
        (["qb", "qa"], ("qa", 5), 2, ([(0, "qa", []), (0, "qb", [0, 1])], ("qb", 2))),
        (["qb", "qa"], ("qb", 1), 2, ([(0, "qb", [1, 2])], None)),
        (["qb", "qa", "zz"], ("qb", 1), 2, ([(0, "qb", [1, 2])], ("zz", 0))),
        (["qb", "qa"], ("qa", -1), 9, ([(42, "qb", []), (42, "qa", [])], None)),
        (["qb", "qa"], ("qab", 0), 9, ([(42, "qb", []), (42, "qa", [])], None)),
        (["qb", "qa"], ("", 0), 9, ([(42, "qb", []), (42, "qa", [])], None)),
        (["qa"], ("qa", 2**31 - 1), 9, ([(0, "qa", [])], None)),
        (
            ["zz", "qb", "nope", "qa"],
            ("nope", 3),
            9,
            ([(3, "nope", []), (0, "qa", [0, 1]), (0, "qb", [0, 1, 2]), (3, "zz", [])], None),
        ),
        ([], ("qa", -1), 9, ([], None)),
        ([], ("qab", 1), 9, ([(0, "qb", [0, 1, 2])], None)),
        ([], ("zz", 0), 9, ([], None)),
        ([], ("", 1), 2, ([(0, "__consumer_offsets", [0]), (0, "qa", [0])], ("qa", 1))),
    ],
    ids=repr,
)
async def test_cursors(
    filled: Rig, names: list[str], cursor: Place, limit: int, expected: Page
) -> None:
    assert await page(filled, names, cursor, limit) == expected


@pytest.mark.parametrize(
    ("names", "limit", "expected"),
    [
        (["qa", "qa", "nope", "nope"], 9, ([(3, "nope", []), (0, "qa", [0, 1])], None)),
        (["zz", "nope", "qa"], 2, ([(3, "nope", []), (0, "qa", [0, 1])], ("zz", 0))),
        (["qa", "a b"], 9, ([(17, "a b", []), (0, "qa", [0, 1])], None)),
        (["x" * 250], 9, ([(17, "x" * 250, [])], None)),
        (["__cluster_metadata"], 9, ([(3, "__cluster_metadata", [])], None)),
        (["", "qa"], 9, ([(17, "", []), (0, "qa", [0, 1])], None)),  # Kafka: -1 for both
    ],
    ids=repr,
)
async def test_names(filled: Rig, names: list[str], limit: int, expected: Page) -> None:
    assert await page(filled, names, limit=limit) == expected


async def test_the_pages_have_everything_once(filled: Rig) -> None:
    seen = []
    cursor: Place | None = ("", 0)
    while cursor is not None:
        topics, cursor = await page(filled, [], cursor, limit=2)
        seen += [(name, number) for _, name, numbers in topics for number in numbers]
    assert seen == [
        ("__consumer_offsets", 0),
        ("qa", 0),
        ("qa", 1),
        ("qb", 0),
        ("qb", 1),
        ("qb", 2),
    ]


async def test_no_answer_has_more_partitions_than_kafka_allows(
    filled: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe_topic_partitions.PARTITIONS_MAX == 2_000
    monkeypatch.setattr(describe_topic_partitions, "PARTITIONS_MAX", 2)
    assert await page(filled, ["qb"], limit=2**31 - 1) == ([(0, "qb", [0, 1])], ("qb", 2))


async def test_a_partition_that_is_not_open_yet_has_no_leader(filled: Rig) -> None:
    create_topic(filled.services.controller, "soon", filled.clock.now_ms())
    body = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="soon")])
    ((partition,),) = (topic.partitions for topic in (await ask(filled, body, 0)).topics)
    assert partition.error_code == 5
