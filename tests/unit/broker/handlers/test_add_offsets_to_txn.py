"""AddOffsetsToTxn: the partition of a group's offsets joins the transaction."""

import pytest

from broker.groups.group_log import partition_of
from broker.metadata.topic_rules import GROUP_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.support.transaction_client import begin


@pytest.mark.parametrize("version", range(5))
async def test_the_partition_of_the_group_joins(rig, version):
    producer = await begin(rig)
    assert await producer.add_offsets("group", version) == 0
    (one,) = rig.services.transactions.store.open
    count = rig.services.groups.log.count()
    assert list(one.places()) == [(GROUP_TOPIC, partition_of("group", count))]
    assert one.written.is_durable


async def test_a_group_keeps_its_partition_when_the_topic_grows(rig):
    """It moves at the next start: until then its offsets are committed where it is."""
    producer = await begin(rig)
    assert await producer.add_offsets("group") == 0
    assert await producer.end() == 0
    before = rig.services.groups.partition_of("group")
    count = 2 * rig.services.groups.log.count() + 1
    assert partition_of("group", count) != before
    grown = CreatePartitionsTopic(name=GROUP_TOPIC, count=count)
    answer = await rig.call(CreatePartitionsRequest(topics=[grown], timeout_ms=1_000), 3)
    assert answer.results[0].error_code == 0
    assert await producer.add_offsets("group") == 0
    (one,) = rig.services.transactions.store.open
    assert list(one.places()) == [(GROUP_TOPIC, before)]
    assert await producer.end() == 0


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90), (4, 90)])
async def test_a_fenced_producer_is_told_so_in_its_version(rig, version, code):
    producer = await begin(rig)
    producer.epoch = 9
    assert await producer.add_offsets("group", version) == code


async def test_requests_that_name_nothing(rig):
    producer = await begin(rig)
    assert await producer.add_offsets("") == 0  # as in Kafka; TxnOffsetCommit refuses it
    producer.transactional_id = ""
    assert await producer.add_offsets("group") == ErrorCode.INVALID_REQUEST
    producer.transactional_id = "unknown"
    assert await producer.add_offsets("group") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
