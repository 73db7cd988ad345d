"""DescribeTopicPartitions: hidden topics, and pages and cursors among them."""

from typing import Any

from tests.support.rights_cases import DESCRIBE, TOPIC, grant
from tests.support.rights_rig import RightsRig


async def page(rights: RightsRig, *names: str, **more: Any) -> tuple[list[Any], Any]:
    topics = [{"name": name} for name in names]
    answer = await rights.ask("DESCRIBE_TOPIC_PARTITIONS", 0, topics=topics, **more)
    following = answer.next_cursor
    found = [(one.name, one.error_code) for one in answer.topics]
    return found, following and (following.topic_name, following.partition_index)


async def several(rights: RightsRig) -> None:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("a", "b", "c")
    ]
    await rights.admin("CREATE_TOPICS", 7, topics=topics)
    rights.allow(grant(TOPIC, DESCRIBE, "a"), grant(TOPIC, DESCRIBE, "c"))


async def test_refused_topics_come_last(rights: RightsRig) -> None:
    await several(rights)
    assert await page(rights, "b", "a", "m") == ([("a", 0), ("b", 29), ("m", 29)], None)
    assert await page(rights, "b") == ([("b", 29)], None)


async def test_hidden_topics_do_not_count(rights: RightsRig) -> None:
    await several(rights)
    assert await page(rights) == ([("a", 0), ("c", 0)], None)
    assert await page(rights, response_partition_limit=1) == ([("a", 0)], ("c", 0))


async def test_a_cursor_at_a_hidden_topic_moves_on(rights: RightsRig) -> None:
    await several(rights)
    cursor = {"topic_name": "b", "partition_index": 3}
    assert await page(rights, cursor=cursor) == ([("c", 0)], None)
    assert await page(rights, "a", "b", "c", cursor=cursor) == ([("c", 0), ("b", 29)], None)
    cursor["topic_name"] = "d"
    assert await page(rights, cursor=cursor) == ([], None)


async def test_a_bad_cursor_is_left_to_the_handler(rights: RightsRig) -> None:
    await several(rights)
    cursor = {"topic_name": "z", "partition_index": 0}
    assert await page(rights, "a", cursor=cursor) == ([("a", 42)], None)
