"""TxnOffsetCommit: the handler, with the coordinator of transactions. Its rules: groups/."""

import asyncio
import inspect

import pytest

from broker.groups.shard import ShardState
from broker.handlers import txn_offset_commit
from broker.handlers.txn_offset_commit import error_response, handle
from broker.runtime.request import Pending
from broker.runtime.steps import finished
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection
from tests.support.group_rig import commit as plain_commit
from tests.support.group_rig import committed, find
from tests.support.rig_client import across, create
from tests.support.transaction_client import SETTINGS, Transactor, begin

UNKNOWN_TOPIC, INVALID_GROUP, INVALID_REQUEST = 3, 24, 42
LOADING, NOT_AVAILABLE = 14, 15
INVALID_EPOCH, INVALID_STATE, WRONG_ID, ABORTABLE = 47, 48, 49, 120


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path, **SETTINGS)
    await create(made, "t", 2)
    await find(made)
    yield made
    assert await made.close()


@pytest.fixture
async def producer(rig):
    return await begin(rig, "x")


def request_of(producer, *wanted, version=5, **fields):
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for name, number, offset in wanted:
        topic = topics.setdefault(name, TxnOffsetCommitRequestTopic(name=name))
        topic.partitions.append(
            TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
        )
    body = TxnOffsetCommitRequest(
        **{
            "transactional_id": producer.transactional_id,
            "group_id": "g",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.epoch,
            "topics": list(topics.values()),
            **fields,
        }
    )
    body = across(body, TxnOffsetCommitRequest, version)
    return FakeConnection().request(body, api_key=ApiKey.TXN_OFFSET_COMMIT, version=version)


async def commit(producer, *wanted, **fields):
    """Commit (topic, partition, offset) each; return (topic, partition, error)."""
    request = request_of(producer, *wanted, **fields)
    answer = handle(request, producer.rig.services)
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, Pending):
        future = asyncio.get_running_loop().create_future()
        answer.then(future.set_result, future.set_exception)
        answer = await asyncio.wait_for(future, 10)
    if inspect.isgenerator(answer):  # of a large commit
        answer = finished(answer)
    answer = across(answer, TxnOffsetCommitResponse, request.header.api_version)
    return [
        (topic.name, one.partition_index, one.error_code)
        for topic in answer.topics
        for one in topic.partitions
    ]


@pytest.mark.parametrize("version", [0, 2, 3, 4, 5])
@pytest.mark.parametrize("is_commit", [True, False])
async def test_offsets_count_when_the_transaction_is_committed(rig, producer, version, is_commit):
    await plain_commit(rig, ("t", 0, 1))
    if version < 5:
        assert await producer.add_offsets("g") == 0
    assert await commit(producer, ("t", 0, 5), ("t", 1, 6), version=version) == [
        ("t", 0, 0),
        ("t", 1, 0),
    ]
    assert await committed(rig) == {("t", 0): 1}
    assert await producer.end(is_commit=is_commit, version=5 if version == 5 else 3) == 0
    assert await committed(rig) == ({("t", 0): 5, ("t", 1): 6} if is_commit else {("t", 0): 1})


async def test_unknown_topics_and_partitions_come_first_in_the_answer(rig, producer):
    wanted = [("t", 0, 1), ("t", 7, 1), ("no", 0, 1), ("t", 1, 1)]
    assert await commit(producer, *wanted) == [
        ("t", 7, UNKNOWN_TOPIC),
        ("t", 0, 0),
        ("t", 1, 0),
        ("no", 0, UNKNOWN_TOPIC),
    ]
    assert await producer.end() == 0
    assert await committed(rig) == {("t", 0): 1, ("t", 1): 1}


async def test_an_unknown_topic_without_partitions_is_answered(rig, producer):
    """As in Kafka; one that exists is not."""
    topics = [TxnOffsetCommitRequestTopic(name=name) for name in ("nope", "t")]
    response = handle(request_of(producer, topics=topics), rig.services)
    assert [(topic.name, topic.partitions) for topic in response.topics] == [("nope", [])]


async def test_unknown_topics_alone_join_no_transaction(rig, producer):
    assert await commit(producer, ("no", 0, 1)) == [("no", 0, UNKNOWN_TOPIC)]
    assert rig.services.transactions.find("x").partition_count == 0


@pytest.mark.parametrize(
    ("version", "code"), [(0, INVALID_STATE), (3, INVALID_STATE), (4, ABORTABLE), (5, 0)]
)
async def test_a_group_that_was_not_added(rig, producer, version, code):
    assert await commit(producer, ("t", 0, 1), version=version) == [("t", 0, code)]


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epoch": -1}, INVALID_EPOCH),
        ({"epoch": +1}, INVALID_EPOCH),
        ({"producer_id": +1}, WRONG_ID),
        ({"transactional_id": "nobody"}, WRONG_ID),
        ({"transactional_id": ""}, INVALID_REQUEST),
    ],
)
async def test_another_producer(rig, producer, version, change, code):
    await producer.init(expected=(producer.producer_id, producer.epoch))  # epoch 1
    await producer.add_offsets("g")
    for name, value in change.items():
        known = getattr(producer, name)
        setattr(producer, name, value if isinstance(value, str) else known + value)
    assert await commit(producer, ("t", 0, 1), version=version) == [("t", 0, code)]


async def test_an_empty_group_id(rig, producer):
    assert await commit(producer, ("t", 0, 1), group_id="") == [("t", 0, INVALID_GROUP)]


@pytest.mark.parametrize(("version", "code"), [(1, NOT_AVAILABLE), (2, LOADING), (5, LOADING)])
async def test_a_group_that_is_being_loaded(rig, producer, version, code):
    """Clients before 2.0 retry COORDINATOR_LOAD_IN_PROGRESS without end."""
    shards = rig.services.groups._shards
    for shard in shards:
        shard.state = ShardState.LOADING
    assert await commit(producer, ("t", 0, 1), version=version) == [("t", 0, code)]
    for shard in shards:
        shard.state = ShardState.SERVING


async def test_a_commit_waits_for_the_end_of_the_transaction_before(rig, producer):
    """And is never told CONCURRENT_TRANSACTIONS once EndTxn is answered."""
    for offset in range(5):
        assert await commit(producer, ("t", 0, offset)) == [("t", 0, 0)]
        assert await producer.end(version=4 if offset % 2 else 5) == 0
    assert await committed(rig) == {("t", 0): 4}


async def test_a_commit_that_comes_while_the_transaction_ends_is_of_the_next_one(rig, producer):
    assert await commit(producer, ("t", 0, 1)) == [("t", 0, 0)]
    ending = asyncio.create_task(producer.end(version=4))
    while not rig.services.transactions.find("x").is_ending:
        await asyncio.sleep(0)
    late = asyncio.create_task(commit(producer, ("t", 0, 2)))
    assert await ending == 0
    assert await late == [("t", 0, 0)]
    assert await committed(rig) == {("t", 0): 1}
    assert await producer.end(version=4) == 0
    assert await committed(rig) == {("t", 0): 2}


@pytest.fixture
def all_are_large(monkeypatch):
    monkeypatch.setattr(txn_offset_commit, "PARTITIONS_ON_THE_LOOP", 1)


@pytest.mark.usefixtures("all_are_large")
async def test_large_commits_are_prepared_in_a_thread_and_keep_their_order(rig, producer):
    threads = []
    run = rig.services.pool.run

    async def slower(call):
        threads.append(call)
        await asyncio.sleep(0.02 if len(threads) == 1 else 0)
        return await run(call)

    rig.services.pool.run = slower
    answers = await asyncio.gather(
        commit(producer, ("t", 0, 1), ("t", 1, 1), ("no", 0, 1)),
        commit(producer, ("t", 0, 2), ("t", 1, 2)),
        commit(producer, ("t", 0, 3)),  # small, and behind the others all the same
    )
    assert len(threads) == 2
    assert answers == [
        [("no", 0, UNKNOWN_TOPIC), ("t", 0, 0), ("t", 1, 0)],
        [("t", 0, 0), ("t", 1, 0)],
        [("t", 0, 0)],
    ]
    assert producer.transactional_id not in rig.services.groups.large_commits.waiting
    assert await producer.end(is_commit=True, version=5) == 0
    assert await committed(rig) == {("t", 0): 3, ("t", 1): 2}


async def test_no_commit_that_comes_in_the_same_turn_overtakes_a_large_one(
    rig, producer, monkeypatch
):
    monkeypatch.setattr(txn_offset_commit, "PARTITIONS_ON_THE_LOOP", 1)
    large = request_of(producer, ("t", 0, 1), ("t", 1, 1))
    small = request_of(producer, ("t", 0, 2))
    for one in (large, small):
        rig.dispatcher.dispatch(one)
    async with asyncio.timeout(5):
        while not (large.connection.sent and small.connection.sent):
            await asyncio.sleep(0.001)
    assert await producer.end(is_commit=True, version=5) == 0
    assert await committed(rig) == {("t", 0): 2, ("t", 1): 1}


@pytest.mark.usefixtures("all_are_large")
async def test_a_large_commit_is_checked_when_it_is_appended(rig, producer):
    run = rig.services.pool.run
    fenced = []

    async def fenced_meanwhile(call):
        rig.services.pool.run = run
        fenced.append(await begin_again(rig))
        return await run(call)

    rig.services.pool.run = fenced_meanwhile
    wanted = (("t", 0, 1), ("t", 1, 1))
    assert await commit(producer, *wanted) == [("t", 0, INVALID_EPOCH), ("t", 1, INVALID_EPOCH)]
    assert fenced
    assert await committed(rig) == {}


@pytest.mark.usefixtures("all_are_large")
async def test_a_topic_that_goes_while_a_large_commit_is_prepared_is_unknown(rig, producer):
    run = rig.services.pool.run

    async def deleted_meanwhile(call):
        rig.services.pool.run = run
        prepared = await run(call)
        await rig.call(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1_000), 5)
        return prepared

    await create(rig, "u", 1)
    rig.services.pool.run = deleted_meanwhile
    answer = await commit(producer, ("t", 0, 1), ("u", 0, 1))
    assert answer == [("u", 0, UNKNOWN_TOPIC), ("t", 0, 0)]
    assert await producer.end(is_commit=True, version=5) == 0
    assert await committed(rig) == {("t", 0): 1}


async def test_a_fenced_producers_offsets_are_dropped(rig, producer):
    assert await commit(producer, ("t", 0, 1)) == [("t", 0, 0)]
    await begin_again(rig)
    assert await commit(producer, ("t", 0, 2)) == [("t", 0, INVALID_EPOCH)]
    assert await committed(rig) == {}
    assert rig.services.groups.group("g") is None


async def begin_again(rig):
    successor = Transactor(rig, "x")
    async with asyncio.timeout(5):
        while (await successor.init()).error_code:
            await asyncio.sleep(0.001)


def test_an_error_is_repeated_for_each_partition():
    producer = Transactor(None, "x")
    answer = error_response(
        request_of(producer, ("t", 0, 1), ("u", 1, 1)), ErrorCode.UNSTABLE_OFFSET_COMMIT
    )
    assert [(one.name, one.partitions[0].error_code) for one in answer.topics] == [
        ("t", 88),
        ("u", 88),
    ]


async def test_a_topic_that_is_named_often_is_looked_up_once(rig, producer, monkeypatch):
    looked_up = []
    by_name = rig.services.topics.by_name
    monkeypatch.setattr(
        rig.services.topics, "by_name", lambda name: looked_up.append(name) or by_name(name)
    )
    one = TxnOffsetCommitRequestPartition(partition_index=1, committed_offset=5)
    named = TxnOffsetCommitRequestTopic(name="t", partitions=[one])
    missing = TxnOffsetCommitRequestTopic(name="missing", partitions=[one])
    found = await commit(producer, topics=[named, missing] * 20)
    assert sorted(set(found)) == [("missing", 1, UNKNOWN_TOPIC), ("t", 1, 0)]
    assert len(found) == 40
    assert (looked_up.count("t"), looked_up.count("missing")) == (1, 1)
