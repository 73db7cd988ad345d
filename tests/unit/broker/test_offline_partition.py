"""A partition whose recovery the disk interrupts: every API says so, and no answer goes back.

The log was served up to its recovery point once. Its high watermark, its latest offset and the ends
of its epochs were then lower than what clients had been told before the restart.
"""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.metadata.topic_rules import GROUP_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from protocol.messages.describe_topic_partitions import (
    TopicRequest as DescribedTopic,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.errors import LogFailed
from storage.opening import log_loading
from storage.segments.log_file import LogSlice
from tests.support.broker_rig import Rig, batch
from tests.support.group_rig import commit, committed, find
from tests.support.rig_client import ask, crash, create, produce

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def interrupt(monkeypatch: pytest.MonkeyPatch, directory: str) -> None:
    """Let the disk interrupt each recovery of the logs in this directory."""
    recover = log_loading.recover

    def interrupted(home: Any, segments: Any, *rest: Any) -> Any:
        if segments[0].files.directory.endswith(directory):
            raise LogFailed(segments[0].log_file.path, "read at position 0 failed: EIO")
        return recover(home, segments, *rest)

    monkeypatch.setattr(log_loading, "recover", interrupted)


@pytest.fixture
async def rig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Rig]:
    """A broker on two partitions of three records, the first of which is offline."""
    first = Rig(tmp_path)
    await create(first, "t", 2)
    for number in (0, 1):
        await produce(first, batch(b"a", b"b", b"c"), partition=number)
    await crash(first)
    interrupt(monkeypatch, "t-0")
    made = Rig(tmp_path)
    assert not [line for line in caplog.messages if "belongs to no topic" in line]
    yield made
    await made.close()


NUMBERS = (0, 1)


async def produced(rig: Rig) -> Any:
    data = [PartitionProduceData(index=n, records=batch(b"d")) for n in NUMBERS]
    topic = TopicProduceData(name="t", partition_data=data)
    answer = await rig.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), 9)
    return answer.responses[0].partition_responses


async def fetched(rig: Rig) -> Any:
    """Fetch from the end, which the offline partition must not make wait."""
    asked = [FetchPartition(partition=n, fetch_offset=3, partition_max_bytes=1000) for n in NUMBERS]
    body = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=asked)]
    )
    return (await ask(rig, body, 11, timeout_seconds=5)).responses[0].partitions


async def listed(rig: Rig, timestamp: int) -> Any:
    asked = [ListOffsetsPartition(partition_index=n, timestamp=timestamp) for n in NUMBERS]
    body = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
    return (await ask(rig, body, 11)).topics[0].partitions


async def epochs(rig: Rig) -> Any:
    asked = [OffsetForLeaderPartition(partition=n, leader_epoch=0) for n in NUMBERS]
    body = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=asked)]
    )
    return (await ask(rig, body, 4)).topics[0].partitions


async def producers(rig: Rig) -> Any:
    body = DescribeProducersRequest(
        topics=[TopicRequest(name="t", partition_indexes=list(NUMBERS))]
    )
    return (await ask(rig, body, 0)).topics[0].partitions


async def told(rig: Rig) -> dict[str, Any]:
    """Ask about both partitions; return what each API says of each."""
    answers = {"produce": await produced(rig), "fetch": await fetched(rig)}
    for number, timestamp in enumerate((-1, -2, -3, -4, -5, -6, 0)):
        answers[f"list {number}"] = await listed(rig, timestamp)
    return answers | {"epochs": await epochs(rig), "producers": await producers(rig)}


async def test_every_api_says_that_it_is_offline(rig: Rig) -> None:
    for what, (offline, served) in (await told(rig)).items():
        assert (what, offline.error_code) == (what, STORAGE_ERROR)
        assert (what, served.error_code) == (what, ErrorCode.NONE)
        for field in ("high_watermark", "last_stable_offset", "log_start_offset", "offset",
                      "end_offset", "base_offset"):  # fmt: skip
            assert getattr(offline, field, -1) == -1, (what, field)


async def test_no_records_of_it_are_deleted(rig: Rig) -> None:
    for offset in (-1, 2):
        asked = [DeleteRecordsPartition(partition_index=n, offset=offset) for n in (0, 1)]
        body = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=asked)], timeout_ms=1_000
        )
        offline, served = (await ask(rig, body, 2)).topics[0].partitions
        assert (offline.error_code, offline.low_watermark) == (STORAGE_ERROR, -1)
        assert (served.error_code, served.low_watermark) == (0, 3)


async def test_it_has_no_leader_and_no_size(rig: Rig) -> None:
    metadata = await ask(rig, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12)
    described = await ask(rig, DescribeTopicPartitionsRequest(topics=[DescribedTopic(name="t")]), 0)
    for answer in (metadata, described):
        offline, served = answer.topics[0].partitions
        assert offline.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (offline.leader_id, offline.offline_replicas) == (-1, [1])
        assert (served.error_code, served.leader_id) == (0, 1)
    for topics in (None, [DescribableLogDirTopic(topic="t", partitions=[0, 1])]):
        (directory,) = (await ask(rig, DescribeLogDirsRequest(topics=topics), 4)).results
        assert [one.partition_index for one in directory.topics[0].partitions] == [1]


async def test_it_is_served_again_when_the_disk_is_well(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert rig.services.metrics.partitions_offline_now == 1
    await rig.services.topics.open_offline()
    assert rig.services.metrics.partitions_offline_now == 1
    monkeypatch.undo()
    with caplog.at_level(logging.WARNING):
        await rig.services.topics.open_offline()
    assert "t-0 was offline and is open now: offsets 0 to 3" in caplog.text
    assert rig.services.metrics.partitions_offline_now == 0
    answers = await told(rig)
    assert [one.error_code for pair in answers.values() for one in pair] == [0] * 22
    assert [one.offset for one in answers["list 0"]] == [4, 4]
    assert [one.end_offset for one in answers["epochs"]] == [3, 3]


async def test_its_groups_have_no_coordinator_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may end before acknowledged commits, so the offsets in it may not be the last ones.

    Found by the sweep: an error of the disk in the recovery of a partition, and the consumers of
    its groups were sent back to where they had been at the recovery point.
    """
    first = Rig(tmp_path, offsets_topic_num_partitions="1")
    await create(first)
    await find(first)
    await commit(first, ("t", 0, 7))
    await crash(first)
    interrupt(monkeypatch, f"{GROUP_TOPIC}-0")
    again = Rig(tmp_path)
    await again.loading
    for _ in range(2):
        assert await coordinators(again) == [NOT_AVAILABLE] * 2
        assert await committed(again, ("t", 0)) == NOT_COORDINATOR
        assert await commit(again, ("t", 0, 8)) == [("t", 0, NOT_COORDINATOR)]
        await again.services.topics.open_offline()
        again.services.groups.look_again()
    monkeypatch.undo()
    await again.services.topics.open_offline()
    await again.services.groups.load()
    assert await coordinators(again) == [ErrorCode.NONE] * 2
    assert await committed(again, ("t", 0)) == {("t", 0): 7}
    await again.close()


async def coordinators(rig: Rig) -> list[int]:
    """Return what FindCoordinator says in its first versions, and in those with many keys."""
    single = await ask(rig, FindCoordinatorRequest(key="g"), 3)
    many = await ask(rig, FindCoordinatorRequest(coordinator_keys=["g"]), 6)
    (of_many,) = many.coordinators
    assert (single.node_id, of_many.node_id) == ((-1, -1) if single.error_code else (1, 1))
    return [single.error_code, of_many.error_code]


async def test_groups_whose_log_the_disk_does_not_give_are_loaded_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They were refused until a restart."""
    first = Rig(tmp_path, offsets_topic_num_partitions="1")
    await create(first)
    await find(first)
    await commit(first, ("t", 0, 7))
    await first.close()

    def unreadable(piece: LogSlice) -> bytes:
        raise LogFailed(piece.log_file.path, "read at position 0 failed: EIO")

    monkeypatch.setattr(LogSlice, "read", unreadable)
    again = Rig(tmp_path)
    await again.loading
    for _ in range(3):
        assert await committed(again, ("t", 0)) == NOT_COORDINATOR
        assert await coordinators(again) == [NOT_AVAILABLE] * 2
        again.services.groups.look_again()
        await again.services.groups.load()
    assert len([line for line in caplog.messages if "are not loaded" in line]) == 1
    monkeypatch.undo()
    again.services.groups.look_again()
    await again.services.groups.load()
    assert await committed(again, ("t", 0)) == {("t", 0): 7}
    await again.close()
