"""Creating and deleting topics: what a change waits for, and whom a deletion notifies."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.metadata.growth import MorePartitions
from broker.metadata.topic_rules import NewTopic, TopicError
from broker.topic_logs import LOGS_PER_JOB
from protocol.errors import ErrorCode
from storage.errors import LogFailed
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import crash, create, produce, strays


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


async def test_a_topic_is_found_by_its_name_and_id_and_can_be_written(rig: Rig) -> None:
    topics = rig.services.topics
    assert topics.all() == []
    topic_id = await create(rig, "t", 2, retention_ms="5")
    topic = topics.by_name("t")
    assert topic is not None
    assert topics.by_id(topic_id) is topic
    assert topics.all() == [topic]
    assert topics.by_name("u") is topics.by_id(b"x" * 16) is None
    assert topic.configs == {"retention.ms": "5"}
    assert await produce(rig, batch(b"a"), partition=1) == 0


async def test_two_clients_create_the_same_topic(rig: Rig) -> None:
    topics = rig.services.topics
    first, second = await asyncio.gather(*(topics.create([NewTopic(name="t")]) for _ in range(2)))
    assert not isinstance(first["t"], TopicError)
    refused = second["t"]
    assert isinstance(refused, TopicError)
    assert refused.code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert len(rig.services.partitions) == 1


async def test_the_second_of_two_clients_waits_for_a_large_creation_of_the_first(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.topics.RECORDS_ENCODED_HERE_MAX", 0)  # a thread encodes them
    topics = rig.services.topics

    async def find() -> bool:
        await topics.create([NewTopic(name="t")])
        return any(partition.log.topic == "t" for partition in rig.services.partitions.all())

    assert await asyncio.gather(find(), find()) == [True, True]


async def test_validation_creates_nothing(rig: Rig) -> None:
    outcomes = await rig.services.topics.validate([NewTopic(name="t"), NewTopic(name="..")])
    assert [isinstance(outcome, TopicError) for outcome in outcomes.values()] == [False, True]
    assert rig.services.topics.all() == []
    assert len(rig.services.partitions) == 0


async def test_deleting_a_missing_topic(rig: Rig) -> None:
    with pytest.raises(TopicError) as caught:
        await rig.services.topics.delete("t")
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_of_many_topics_listeners_hear_of_one_in_each_turn_of_the_loop(rig: Rig) -> None:
    """The coordinator looks at every group then: 10,000 of them take 5 ms for each topic."""
    topics, loop = rig.services.topics, asyncio.get_running_loop()
    heard: list[tuple[str, bool]] = []
    in_this_turn: list[str] = []

    def changed(name: str, topic: object) -> None:
        heard.append((name, topic is not None))
        if not in_this_turn:
            loop.call_soon(in_this_turn.clear)
        in_this_turn.append(name)
        assert len(in_this_turn) == 1, in_this_turn

    topics.listen(changed)
    names = [f"t{number}" for number in range(8)]
    await topics.create([NewTopic(name=name) for name in names])
    await asyncio.gather(*map(topics.delete, names))
    assert sorted(heard[:8]) == [(name, True) for name in names]
    assert sorted(heard[8:]) == [(name, False) for name in names]


async def test_blocks_of_producer_ids_are_consecutive_and_durable(rig: Rig) -> None:
    blocks = [await rig.services.topics.next_producer_ids() for _ in range(3)]
    assert blocks == [range(n * 1_000, (n + 1) * 1_000) for n in range(3)]
    log = rig.services.controller.metadata_log.log
    assert log.durable_offset == log.end_offset


@pytest.mark.parametrize("what", ["create", "delete", "next_producer_ids"])
async def test_a_metadata_log_that_fails_during_the_wait(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig, "there")

    async def fails(*_: object) -> ErrorCode:
        return ErrorCode.KAFKA_STORAGE_ERROR

    monkeypatch.setattr(rig.services.commit, "durable", fails)
    topics = rig.services.topics
    calls = {
        "create": lambda: topics.create([NewTopic(name="t")]),
        "delete": lambda: topics.delete("there"),
        "next_producer_ids": topics.next_producer_ids,
    }
    with pytest.raises(TopicError) as caught:
        await calls[what]()
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert rig.services.logs.get("there", 0).failed is None
    names = ["there"] if what != "delete" else []  # out of sight, and its log as it was
    assert [partition.log.topic for partition in rig.services.partitions.all()] == names
    await crash(rig)


async def test_a_topic_that_may_be_gone_after_a_restart_is_not_reported_as_existing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig, "there")

    async def fails(*_: object) -> ErrorCode:
        return ErrorCode.KAFKA_STORAGE_ERROR

    monkeypatch.setattr(rig.services.commit, "durable", fails)
    topics = rig.services.topics
    with pytest.raises(TopicError):
        await topics.create([NewTopic(name="t")])
    with pytest.raises(TopicError):
        await topics.grow([MorePartitions(name="there", count=2)])
    outcomes = await topics.create([NewTopic(name="t"), NewTopic(name="there")])
    codes = [outcome.code for outcome in outcomes.values() if isinstance(outcome, TopicError)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.TOPIC_ALREADY_EXISTS]
    await crash(rig)


async def test_a_failed_metadata_log_changes_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig, "there")
    rig.services.controller.metadata_log.log.failed = LogFailed("metadata", "fsync failed")
    with pytest.raises(LogFailed):
        await rig.services.topics.create([NewTopic(name="t")])
    with pytest.raises(LogFailed):
        await rig.services.topics.delete("there")
    with pytest.raises(LogFailed):
        await rig.services.topics.next_producer_ids()
    assert [topic.name for topic in rig.services.topics.all()] == ["there"]
    await crash(rig)


async def test_no_topic_changes_between_a_plan_and_its_records(rig: Rig) -> None:
    count = 10 * LOGS_PER_JOB
    creations = [create(rig, name, count) for name in ("a", "b", "a.b")]
    refused = create(rig, "a_b", count)
    outcomes = await asyncio.gather(*creations, refused, return_exceptions=True)
    assert [isinstance(outcome, bytes) for outcome in outcomes] == [True, True, True, False]
    growing = rig.services.topics.grow([MorePartitions(name="a", count=2 * count)])
    grown, _ = await asyncio.gather(growing, rig.services.topics.delete("a"))
    assert not isinstance(grown["a"], TopicError)
    assert rig.services.topics.by_name("a") is None
    assert strays(rig) == []


async def test_one_partition_is_logged_in_the_singular(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "barnabas.topics")
    await create(rig, "t", 1)
    await create(rig, "u", 2)
    await rig.services.topics.delete("t")
    told = [record.getMessage() for record in caplog.records]
    assert "created topic t with 1 partition" in told
    assert "created topic u with 2 partitions" in told
    assert "deleted topic t with 1 partition" in told
