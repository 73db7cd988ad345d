"""TxnOffsetCommit: who may commit in a transaction, in which order it is checked, what is kept."""

import pytest

from broker.groups.errors import GroupError
from broker.groups.txn_commits import commit as commit_in_transaction
from broker.groups.txn_commits import prepare
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.runtime.steps import finished
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from storage.errors import LogFailed
from tests.support.broker_rig import Rig
from tests.support.classic_party import SESSION_MS, Party
from tests.support.group_rig import committed, find, member
from tests.support.pending_rig import end
from tests.support.rig_client import create

UNKNOWN, ILLEGAL, INVALID_GROUP, TOO_LARGE = 25, 22, 24, 12
LOADING, NOT_AVAILABLE, NOT_COORDINATOR, FENCED = 14, 15, 16, 47

# State, member, generation, instance id, code.
CLASSIC = [
    ("Empty", "", -1, None, 0),
    ("Empty", "a", -1, None, 0),
    ("Empty", "a", 0, None, UNKNOWN),
    ("Stable", "", -1, None, 0),
    ("Stable", "", -1, "s", UNKNOWN),
    ("Stable", "a", 1, None, 0),
    ("Stable", "a", -1, None, ILLEGAL),
    ("Stable", "a", 0, None, ILLEGAL),
    ("Stable", "a", 2, None, ILLEGAL),
    ("Stable", "x", 1, None, UNKNOWN),
    ("Stable", "a", 1, "s", UNKNOWN),
    ("PreparingRebalance", "", -1, None, 0),
    ("PreparingRebalance", "a", 1, None, 0),
    ("CompletingRebalance", "a", 1, None, 0),
    ("CompletingRebalance", "a", 0, None, ILLEGAL),
    ("Dead", "", -1, None, NOT_AVAILABLE),
]


def body_of(member_id, generation, instance_id=None, **fields):
    return TxnOffsetCommitRequest(
        **{
            "transactional_id": "x",
            "group_id": "g",
            "producer_id": 9,
            "producer_epoch": 3,
            "generation_id": generation,
            "member_id": member_id,
            "group_instance_id": instance_id,
            **fields,
        }
    )


def code_of(group, body, *partitions):
    try:
        group.check_txn_commit(body, [("a", number) for number in partitions])
    except GroupError as error:
        return error.code
    return 0


@pytest.mark.parametrize(("state", "who", "generation", "instance_id", "code"), CLASSIC)
def test_which_members_of_a_classic_group_may_commit(state, who, generation, instance_id, code):
    party = Party()
    ids = {}
    if state in ("Stable", "PreparingRebalance"):
        ids = party.stable("a")
    if state == "PreparingRebalance":
        party.enter("b")
    if state == "CompletingRebalance":
        ids = {"a": party.enter("a")}
        party.host.advance(0)
    if state == "Dead":
        party.group.removed(ErrorCode.NOT_COORDINATOR)
    assert party.state == state
    assert code_of(party.group, body_of(ids.get(who, who), generation, instance_id)) == code


def test_a_commit_in_a_transaction_does_not_keep_a_member_alive():
    party = Party()
    ids = party.stable("a")
    party.host.advance(SESSION_MS - 1)
    assert code_of(party.group, body_of(ids["a"], 1)) == 0
    party.host.advance(1)
    assert party.state == "Empty"


# -- The whole way --------------------------------------------------------------------------------


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path, offsets_topic_num_partitions="1")
    await create(made, "t", 2)
    await find(made)
    yield made
    await made.close()


async def commit(rig, *wanted, admits=0, metadata="", **fields):
    """Commit (topic, partition, offset) each; return (topic, partition, error), and admissions."""
    topics = [
        TxnOffsetCommitRequestTopic(
            name=topic,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=4,
                    committed_metadata=metadata,
                )
            ],
        )
        for topic, number, offset in wanted
    ]
    body = body_of(fields.pop("member_id", ""), fields.pop("generation", -1), **fields)
    answers, admissions = [], []

    def admit(number):
        admissions.append((number, _log(rig).end_offset))
        return ErrorCode(admits)

    prepared = prepare(rig.services.groups, body, topics)
    commit_in_transaction(rig.services.groups, body, prepared, admit, answers.append)
    if not answers:
        await rig.services.commit.durable(_partition(rig), _log(rig).end_offset, 5_000)
    (answered,) = map(finished, answers)
    codes = [
        (one.name, of.partition_index, of.error_code) for one in answered for of in one.partitions
    ]
    return codes, admissions


def _partition(rig):
    return rig.services.partitions.get(GROUP_TOPIC, 0)


def _log(rig):
    return _partition(rig).log


async def test_offsets_are_pending_when_answered_and_count_after_the_end(rig):
    codes, admissions = await commit(rig, ("t", 0, 5), ("t", 1, -5), metadata="why")
    assert codes == [("t", 0, 0), ("t", 1, 0)]
    assert admissions == [(0, 0)], "admitted before the append"
    assert _log(rig).durable_offset == 2
    assert await committed(rig) == {}
    end(rig, commits=True)
    assert await committed(rig) == {("t", 0): 5, ("t", 1): -5}
    found = rig.services.groups.registry_of("g").offsets.get("g", "t", 0)
    assert (found.metadata, found.leader_epoch, found.expires_ms) == ("why", 4, -1)


async def test_a_transaction_that_refuses_writes_nothing(rig):
    codes, _ = await commit(rig, ("t", 0, 5), ("t", 1, 6), admits=FENCED)
    assert codes == [("t", 0, FENCED), ("t", 1, FENCED)]
    assert _log(rig).end_offset == 0
    assert rig.services.groups.group("g") is None


async def test_too_large_metadata_is_refused_alone(rig):
    codes, _ = await commit(rig, ("t", 0, 5), metadata="x" * 4097)
    assert codes == [("t", 0, TOO_LARGE)]
    assert _log(rig).end_offset == 0
    assert rig.services.groups.group("g") is None


async def test_a_refusal_of_the_whole_counts_more_than_too_large_metadata(rig):
    codes, _ = await commit(rig, ("t", 0, 5), metadata="x" * 4097, admits=FENCED)
    assert codes == [("t", 0, FENCED)]


@pytest.mark.parametrize(
    ("fields", "code", "asks"),
    [
        ({"group_id": ""}, INVALID_GROUP, False),
        ({"group_id": "new", "generation": 1}, ILLEGAL, True),
        ({"generation": 99}, UNKNOWN, True),
    ],
)
async def test_refusals_of_the_group(rig, fields, code, asks):
    await member(rig)
    before = _log(rig).end_offset
    codes, admissions = await commit(rig, ("t", 0, 5), **fields)
    assert codes == [("t", 0, code)]
    assert bool(admissions) is asks
    assert _log(rig).end_offset == before


async def test_a_member_commits_and_so_does_who_is_none(rig):
    member_id, generation = await member(rig)
    for who in ({"member_id": member_id, "generation": generation}, {}):
        codes, _ = await commit(rig, ("t", 0, 5), **who)
        assert codes == [("t", 0, 0)]


async def test_a_group_that_is_not_served_joins_no_transaction(rig):
    (shard,) = rig.services.groups._shards
    state, shard.state = shard.state, type(shard.state).LOADING
    codes, admissions = await commit(rig, ("t", 0, 5))
    assert (codes, admissions) == ([("t", 0, LOADING)], [])
    shard.state = state


async def test_without_the_topic_of_groups_there_is_no_coordinator(rig):
    await rig.services.topics.delete(GROUP_TOPIC)
    rig.services.groups._shards = []
    answers = []
    body = body_of("", -1)
    topics = [
        TxnOffsetCommitRequestTopic(
            name="t",
            partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
        )
    ]
    groups = rig.services.groups
    prepared = prepare(groups, body, topics)
    commit_in_transaction(groups, body, prepared, lambda _: ErrorCode.NONE, answers.append)
    assert finished(answers[0])[0].partitions[0].error_code == NOT_COORDINATOR
    await find(rig)


async def test_a_commit_that_cannot_be_written_changes_nothing(rig):
    failed, _log(rig).failed = _log(rig).failed, LogFailed("here", "on purpose")
    codes, _ = await commit(rig, ("t", 0, 5))
    assert codes == [("t", 0, NOT_COORDINATOR)]
    assert not rig.services.groups.registry_of("g").offsets.has_group("g")
    assert rig.services.groups.group("g") is None
    _log(rig).failed = failed


async def test_the_answer_waits_for_the_disk_also_with_write_caching(rig):
    _log(rig).update_config(_log(rig).config.with_overrides({"write.caching": "true"}))
    codes, _ = await commit(rig, ("t", 0, 5))
    assert codes == [("t", 0, 0)]
    assert _log(rig).durable_offset == _log(rig).end_offset == 1
