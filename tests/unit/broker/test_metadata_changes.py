"""Late is not failed: the fate of changes whose client got REQUEST_TIMED_OUT."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from broker import metadata_changes
from broker.configs.changes import SET, Operation, Resource
from broker.metadata.growth import MorePartitions
from broker.metadata.image import CONFIG_TOPIC
from broker.metadata.metadata_log import MetadataLog
from broker.metadata.quota_image import quota_entity
from broker.metadata.topic_life import TopicState
from broker.metadata.topic_rules import NewTopic, TopicError
from broker.quotas.alterations import Alteration
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.broker_rig import Rig, batch
from tests.support.fake_connection import FakeConnection
from tests.support.quota_changes import alter_quotas
from tests.support.rig_client import crash, create, produce, strays
from tests.support.slow_metadata import SlowMetadata, hold

SOON_MS = 20
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data")
    yield made
    assert await made.close()


def hold_for_impatient(monkeypatch: pytest.MonkeyPatch) -> SlowMetadata:
    """Hold the metadata log from now on, and let clients wait only briefly."""
    monkeypatch.setattr(metadata_changes, "METADATA_TIMEOUT_MS", SOON_MS)
    return hold(monkeypatch.setattr)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def settled(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_changes, "METADATA_TIMEOUT_MS", 60_000)
    async with asyncio.timeout(60):
        await rig.services.topics.finish()


async def produced(rig: Rig, topic: str = "t", partition: int = 0) -> ErrorCode:
    """Produce with acks=all; return the code."""
    data = PartitionProduceData(index=partition, records=batch(b"a"))
    body = ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = (await rig.call(body, 9)).responses[0].partition_responses[0]
    return ErrorCode(answer.error_code)


async def described(rig: Rig, topic: str = "t") -> list[Any]:
    """Return the partitions of a topic as Metadata has them."""
    body = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    partitions: list[Any] = (await rig.call(body, 9)).topics[0].partitions
    return partitions


async def is_late(change: Any) -> None:
    with pytest.raises(TopicError) as caught:
        await change
    assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT


async def test_a_creation_that_is_late_brings_the_topic_online(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once answered UNKNOWN_TOPIC_OR_PARTITION for ever, and could not be created again."""
    slow = hold_for_impatient(monkeypatch)
    await is_late(rig.services.topics.create([NewTopic(name="t", partition_count=2)]))
    assert await produced(rig) == UNKNOWN
    codes = [partition.error_code for partition in await described(rig)]
    assert codes == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
    await is_late(rig.services.topics.create([NewTopic(name="t")]))
    slow.release()
    await settled(rig, monkeypatch)
    assert await produced(rig, partition=1) == ErrorCode.NONE
    again = (await rig.services.topics.create([NewTopic(name="t")]))["t"]
    assert isinstance(again, TopicError)
    assert again.code == ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_client_that_gets_topic_already_exists_can_rely_on_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = hold(monkeypatch.setattr)
    first = asyncio.create_task(rig.services.topics.create([NewTopic(name="t")]))
    await until(lambda: slow.held_count > 0)
    second = asyncio.create_task(rig.services.topics.create([NewTopic(name="t")]))
    await asyncio.sleep(0.05)
    assert not second.done()
    slow.release()
    refused = (await second)["t"]
    assert isinstance(refused, TopicError)
    assert refused.code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert await produced(rig) == ErrorCode.NONE
    await first


async def test_a_topic_is_created_even_if_its_client_disconnects(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = hold(monkeypatch.setattr)
    client = asyncio.create_task(rig.services.topics.create([NewTopic(name="t")]))
    await until(lambda: slow.held_count > 0)
    client.cancel()
    await asyncio.gather(client, return_exceptions=True)
    slow.release()
    await settled(rig, monkeypatch)
    assert await produced(rig) == ErrorCode.NONE


async def test_a_deletion_that_is_late_takes_no_records_and_is_finished(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once acknowledged acks=all by name, and was a stray after the next start."""
    await create(rig)
    assert await produced(rig) == ErrorCode.NONE
    slow = hold_for_impatient(monkeypatch)
    await is_late(rig.services.topics.delete("t"))
    assert await produced(rig) == UNKNOWN
    assert rig.services.logs.directory.has_partition("t", 0), "a power cut may undo it"
    await is_late(rig.services.topics.create([NewTopic(name="t")]))
    slow.release()
    await settled(rig, monkeypatch)
    assert not rig.services.logs.directory.has_partition("t", 0)
    assert strays(rig) == []
    await create(rig)
    assert await produce(rig, batch(b"b")) == 0


async def test_a_name_is_free_once_its_deletion_is_done(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_id = await create(rig, "t", 3)
    assert await produced(rig, partition=2) == ErrorCode.NONE
    slow = hold(monkeypatch.setattr)
    deleting = asyncio.create_task(rig.services.topics.delete("t"))
    await until(lambda: slow.held_count > 0)
    creating = asyncio.create_task(create(rig, "t", 3))
    await asyncio.sleep(0.05)
    assert not creating.done()
    slow.release()
    await deleting
    assert await creating != old_id
    assert await produce(rig, batch(b"b"), partition=2) == 0


async def test_partitions_that_are_late_appear(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(rig)
    slow = hold_for_impatient(monkeypatch)
    await is_late(rig.services.topics.grow([MorePartitions(name="t", count=3)]))
    await is_late(rig.services.topics.grow([MorePartitions(name="t", count=4)]))
    assert await produced(rig) == ErrorCode.NONE
    assert await produced(rig, partition=2) == UNKNOWN
    await rig.services.topics.open_offline()
    assert not rig.services.logs.directory.has_partition("t", 2), "opened before it was durable"
    slow.release()
    await settled(rig, monkeypatch)
    assert [await produced(rig, partition=number) for number in range(4)] == [0] * 4
    (life,) = rig.services.controller.lives
    assert life.state is TopicState.ONLINE


async def test_configs_that_are_late_take_effect(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(rig)
    slow = hold_for_impatient(monkeypatch)
    change = Resource(CONFIG_TOPIC, "t", [Operation("retention.ms", SET, "77")])
    await is_late(rig.services.configs.alter([change]))
    log = rig.services.partitions.get("t", 0).log
    assert log.config.retention_ms != 77
    slow.release()
    await settled(rig, monkeypatch)
    assert log.config.retention_ms == 77


async def test_a_topic_deleted_before_it_was_online_is_gone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = hold_for_impatient(monkeypatch)
    await is_late(rig.services.topics.create([NewTopic(name="t", partition_count=3)]))
    await is_late(rig.services.topics.delete("t"))
    slow.release()
    await settled(rig, monkeypatch)
    assert strays(rig) == []
    assert [log.topic for log in rig.services.logs.all()] == ["__cluster_metadata"]
    await create(rig, "t", 1)
    assert await produce(rig, batch(b"a")) == 0


@pytest.mark.parametrize("what", ["create", "delete", "grow"])
async def test_a_metadata_log_that_fails_leaves_a_topic_undecided_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig, "t" if what != "create" else "other")
    slow = hold_for_impatient(monkeypatch)
    topics = rig.services.topics
    changes = {
        "create": lambda: topics.create([NewTopic(name="t", partition_count=2)]),
        "delete": lambda: topics.delete("t"),
        "grow": lambda: topics.grow([MorePartitions(name="t", count=2)]),
    }
    await is_late(changes[what]())
    slow.release(OSError(5, "Input/output error"))
    await settled(rig, monkeypatch)
    (life,) = [life for life in rig.services.controller.lives if life.topic.name == "t"]
    assert life.state is TopicState.UNDECIDED
    expected = {"create": [STORAGE] * 2, "delete": [STORAGE, UNKNOWN], "grow": [0, STORAGE]}
    assert [await produced(rig, partition=number) for number in range(2)] == expected[what]
    if what != "delete":
        offline = [partition.leader_id for partition in await described(rig)]
        assert offline == [-1 if code else 1 for code in expected[what]]
    await topics.open_offline()
    assert await produced(rig, partition=1) == expected[what][1]
    monkeypatch.undo()
    await crash(rig)


async def test_a_partition_that_is_offline_hides_no_other_topic(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata once answered KAFKA_STORAGE_ERROR for everything."""
    disk = rig.services.logs.directory.filesystem
    mkdir = disk.mkdir

    def full(_: object, path: str) -> None:
        if path.endswith("t-1"):
            raise OSError(28, "No space left on device", path)
        mkdir(path)

    monkeypatch.setattr(type(disk), "mkdir", full)
    await create(rig, "t", 3)
    partitions = await described(rig)
    assert [partition.leader_id for partition in partitions] == [1, -1, 1]
    assert partitions[1].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert partitions[1].offline_replicas == [1]
    monkeypatch.undo()


async def alter_quota(rig: Rig, value: float | None) -> None:
    """Set the quota of a client id as a request does, or remove it."""
    entity = quota_entity([("client-id", "app")])
    asked = [Alteration(entity, [("producer_byte_rate", value)])]
    outcomes = await alter_quotas(rig, asked)
    assert outcomes == {entity: None}


async def alter_config(rig: Rig, value: str) -> None:
    """Set a config of the topic as a request does."""
    change = Resource(CONFIG_TOPIC, "t", [Operation("retention.ms", SET, value)])
    assert await rig.services.configs.alter([change]) == [None]


async def test_a_change_that_is_repeated_waits_for_the_first_one(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image has it already, but a power cut could still take it."""
    await create(rig, "t")
    slow = hold_for_impatient(monkeypatch)
    for _ in range(2):
        await is_late(alter_quota(rig, 1_000.0))
        await is_late(alter_config(rig, "5000"))
    assert rig.services.quotas.clients is None, "not in use before it is durable"
    slow.release()
    await settled(rig, monkeypatch)
    assert rig.services.quotas.clients is not None
    await alter_quota(rig, 1_000.0)
    await alter_config(rig, "5000")


async def test_errors_do_not_wait_for_what_others_change(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(rig, "t")
    slow = hold_for_impatient(monkeypatch)
    await is_late(alter_config(rig, "5000"))
    change = Resource(CONFIG_TOPIC, "t", [Operation("retention.ms", SET, "soon")])
    (error,) = await rig.services.configs.alter([change])
    assert error is not None
    assert error.code == ErrorCode.INVALID_CONFIG
    entity = quota_entity([("client-id", "app")])
    asked = [Alteration(entity, [("no_such_quota", 1.0)])]
    refused = (await alter_quotas(rig, asked))[entity]
    assert refused is not None
    assert refused.code == ErrorCode.INVALID_REQUEST
    elsewhere = ReassignablePartition(partition_index=0, replicas=[2])
    body = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=[elsewhere])]
    )
    moved = (await rig.call(body, 1)).responses[0].partitions[0]
    assert moved.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    slow.release()
    await settled(rig, monkeypatch)


async def test_late_changes_of_one_quota_are_used_in_their_order(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the first one still makes room on the disk when the second is durable."""
    slow = hold_for_impatient(monkeypatch)
    await is_late(alter_quota(rig, 1_000.0))
    await is_late(alter_quota(rig, 2_000.0))
    quotas = rig.services.quotas
    request = FakeConnection().request(None)
    request.header.client_id = "app"
    made_room: list[int] = []

    def used() -> float:
        quota = quotas.clients and quotas.clients._quota("producer_byte_rate", request)
        return quota.limit if quota else 0

    def keep_room(_: MetadataLog) -> None:
        made_room.append(1)
        deadline = time.monotonic() + 30
        while len(made_room) == 1 or used() != 2_000:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    monkeypatch.setattr(MetadataLog, "lacks_room", True)
    monkeypatch.setattr(MetadataLog, "keep_room", keep_room)
    slow.release()
    await settled(rig, monkeypatch)
    assert len(made_room) == 2
    assert used() == 2_000
    monkeypatch.undo()
