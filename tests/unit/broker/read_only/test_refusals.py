"""The requests that a read-only broker refuses, and those that it serves."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.handlers import HANDLERS
from broker.read_only.refusals import MESSAGE, READS, REFUSED
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support import data_directory
from tests.support.broker_rig import Rig, batch


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_directory.make(tmp_path_factory.mktemp("read-only") / "data")


@pytest.fixture
async def rig(directory: Path) -> AsyncIterator[Rig]:
    made = Rig(directory, barnabas_read_only="true")
    yield made
    assert await made.close()


def test_every_api_reads_or_is_refused() -> None:
    keys = {row.api_key for row in HANDLERS}
    assert keys == READS | set(REFUSED)
    assert not READS & set(REFUSED)


async def test_a_produce_request_is_refused(rig: Rig) -> None:
    data = PartitionProduceData(index=0, records=batch(b"x"))
    topics = [TopicProduceData(name="t", partition_data=[data])]
    answer = await rig.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 9)
    part = answer.responses[0].partition_responses[0]
    assert part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert part.error_message == MESSAGE


async def test_topics_are_not_created_and_the_answer_says_why(rig: Rig) -> None:
    body = CreateTopicsRequest(
        topics=[CreatableTopic(name="n", num_partitions=1, replication_factor=1)]
    )
    answer = await rig.call(body, 7)
    assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert answer.topics[0].error_message == MESSAGE


async def test_metadata_requests_create_no_topic(rig: Rig) -> None:
    answer = await rig.call(MetadataRequest(topics=[MetadataRequestTopic(name="n")]), 8)
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_producers_and_members_are_refused(rig: Rig) -> None:
    answer = await rig.call(InitProducerIdRequest(transaction_timeout_ms=1), 4)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    answer = await rig.call(
        JoinGroupRequest(group_id="g", session_timeout_ms=10_000, protocol_type="consumer"), 7
    )
    assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_group_requests_are_answered_in_a_directory_without_groups(rig: Rig) -> None:
    body = FindCoordinatorRequest(coordinator_keys=["g"], key_type=0)
    assert (await rig.call(body, 4)).coordinators[0].error_code == ErrorCode.NONE
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    group = (await rig.call(asked, 8)).groups[0]
    assert (group.error_code, group.topics) == (ErrorCode.NONE, [])


async def test_records_are_served(rig: Rig) -> None:
    wanted = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1_000)
    body = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[wanted])]
    )
    part = (await rig.call(body, 11)).responses[0].partitions[0]
    assert (part.error_code, part.high_watermark) == (ErrorCode.NONE, 1)
    assert part.records
