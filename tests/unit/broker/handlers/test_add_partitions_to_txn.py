"""AddPartitionsToTxn: all partitions or none, in each version."""

import pytest

from broker.metadata.topic_rules import GROUP_TOPIC
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.support.rig_client import ask, create
from tests.support.transaction_client import begin


@pytest.mark.parametrize("version", range(4))
async def test_all_are_added_or_none(rig, version):
    producer = await begin(rig)
    await create(rig, "a", 2)
    assert await producer.add("a", [0, 7, 1], version) == [55, 3, 55]
    assert await producer.add("unknown", [0], version) == [3]
    assert await producer.add(GROUP_TOPIC, [0], version) == [29]
    assert not rig.services.transactions.store.open
    assert await producer.add("a", [0, 1], version) == [0, 0]
    assert await producer.add("a", [0], version) == [0]
    (one,) = rig.services.transactions.store.open
    assert list(one.places()) == [("a", 0), ("a", 1)]


@pytest.mark.parametrize(("version", "code"), [(1, 47), (2, 90), (3, 90)])
async def test_a_fenced_producer_is_told_so_in_its_version(rig, version, code):
    producer = await begin(rig)
    await create(rig, "a")
    producer.epoch = 9
    assert await producer.add("a", [0], version) == [code]


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_ask_for_many_transactions_and_may_only_look(rig, version):
    producer = await begin(rig)
    other = await begin(rig, "other")
    await create(rig, "a", 2)
    await producer.add("a", [0])

    def asked(one, *, verify_only):
        return AddPartitionsToTxnTransaction(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            producer_epoch=one.epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name="a", partitions=[0, 1])],
        )

    body = AddPartitionsToTxnRequest(
        transactions=[asked(producer, verify_only=True), asked(other, verify_only=False)]
    )
    answer = await ask(rig, body, version)
    assert answer.error_code == 0
    codes = {
        result.transactional_id: [
            one.partition_error_code
            for topic in result.topic_results
            for one in topic.results_by_partition
        ]
        for result in answer.results_by_transaction
    }
    assert codes == {"t": [0, ErrorCode.TRANSACTION_ABORTABLE], "other": [0, 0]}


@pytest.mark.parametrize("transactional_id", ["", "unknown"])
async def test_an_unknown_id(rig, transactional_id):
    producer = await begin(rig)
    await create(rig, "a")
    producer.transactional_id = transactional_id
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING if transactional_id else 42
    assert await producer.add("a", [0]) == [code]
