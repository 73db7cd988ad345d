"""Stories of groups, each with a group of its own.

lagging member      syncs, beats and commits in a generation that is over
hasty leader        sends its assignments twice, not the same ones
replaced member     goes on after another client has joined under its static id
returning member    comes back to the classic protocol, the last of its consumer group
remaining member    of the classic protocol, after the consumer group it was in is none any more
slow revoker        never gives up what it must: it is removed in its time
busy revoker        must give up more before its time is over: it has its time again
patient member      stays, and keeps its offsets, though offsets expire at once
"""

from __future__ import annotations

from typing import Any, Final

from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.clients.telling import Teller, Untold, tells

JOIN, SYNC, BEAT, LEAVE, LIST, COMMIT, OFFSETS, BEAT_848 = 7, 5, 4, 4, 5, 8, 8, 1
SESSION_MS: Final = 40_000  # longer than a story
REBALANCE_MS: Final = 2_000
QUICK_MS: Final = 400
SLACK_MS: Final = 4_000  # of an alarm, whatever the machine does
SOON_MS: Final = 250
CONVERTS_DOWN: Final = ("bidirectional", "downgrade")
RANGE: Final = ("range",)
E: Final = ErrorCode
STALE: Final = (E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID)


# -- What members say ------------------------------------------------------------------------------


def _joins(
    group: str,
    member_id: str,
    instance_id: str | None,
    offer: tuple[str, ...],
    topics: list[str],
    rebalance_ms: int,
) -> JoinGroupRequest:
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=topics), 1)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in offer],
    )


async def _join(
    teller: Teller,
    group: str,
    *,
    who: str = "one",
    member_id: str = "",
    instance_id: str | None = None,
    offer: tuple[str, ...] = RANGE,
    topics: tuple[str, ...] = ("t",),
    rebalance_ms: int = REBALANCE_MS,
) -> Any:
    """Join; return the answer, which may be an error."""
    body = _joins(group, member_id, instance_id, offer, list(topics), rebalance_ms)
    answer = await teller.in_life(body, JOIN, who=who)
    if answer.error_code == E.MEMBER_ID_REQUIRED:
        body.member_id = answer.member_id
        answer = await teller.in_life(body, JOIN, who=who)
    return answer


def _syncs(
    group: str, joined: Any, instance_id: str | None, assignment: bytes | None
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=joined.protocol_name,
        assignments=[]
        if assignment is None
        else [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
    )


def _assignment(*numbers: int) -> bytes:
    named = [TopicPartition(topic="t", partitions=list(numbers))]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=named))


async def _member(teller: Teller, group: str, **more: Any) -> Any:
    """Join and sync, alone; return the answer to the JoinGroup."""
    who, instance_id = more.get("who", "one"), more.get("instance_id")
    joined = await _join(teller, group, **more)
    teller.needs(joined.error_code == 0)
    body = _syncs(group, joined, instance_id, _assignment(0))
    teller.needs((await teller.in_life(body, SYNC, who=who)).error_code == 0)
    return joined


def _beats(group: str, joined: Any, instance_id: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance_id,
    )


def _commits(
    group: str, name: str, offset: int, joined: Any, instance_id: str | None = None
) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=[part])],
    )


async def _quit(teller: Teller, group: str, joined: Any, who: str = "one") -> None:
    me = MemberIdentity(member_id=joined.member_id)
    await teller.ask(LeaveGroupRequest(group_id=group, members=[me]), LEAVE, who=who)


# -- The classic protocol --------------------------------------------------------------------------


async def lagging_member(teller: Teller) -> None:
    """Be heard in no generation that is over."""
    group = teller.name
    name = f"{group}-topic"
    await teller.create(name)
    first = await _member(teller, group)
    again = await _join(teller, group, member_id=first.member_id, topics=("t", "u"))
    teller.needs(again.error_code == 0 and again.generation_id > first.generation_id)
    late = _syncs(group, first, None, _assignment(1))
    code = (await teller.in_life(late, SYNC)).error_code
    teller.expect(code in STALE, f"a sync of a generation that is over: {code}")
    body = _syncs(group, again, None, _assignment(0))
    teller.needs((await teller.in_life(body, SYNC)).error_code == 0)
    code = (await teller.in_life(late, SYNC)).error_code
    teller.expect(code in STALE, f"a sync of a generation that is over: {code}")
    code = (await teller.in_life(_beats(group, first), BEAT)).error_code
    teller.expect(code in STALE, f"a heartbeat of a generation that is over: {code}")
    answer = await teller.in_life(_commits(group, name, 7, first), COMMIT)
    code = answer.topics[0].partitions[0].error_code
    teller.expect(code in STALE, f"a commit of a generation that is over: {code}")
    await _quit(teller, group, again)


async def hasty_leader(teller: Teller) -> None:
    """Send two assignments for one generation; the judge of groups reads the log at the end."""
    group = teller.name
    joined = await _join(teller, group)
    teller.needs(joined.error_code == 0)
    waiters = [
        await teller.sent(_syncs(group, joined, None, _assignment(number)), SYNC)
        for number in range(teller.rng.choice((2, 3)))
    ]
    told = [await teller.answer(waiter) for waiter in waiters]
    shares = {one.assignment for one in told if one.error_code == 0}
    teller.expect(len(shares) <= 1, "two assignments for one generation")


async def replaced_member(teller: Teller) -> None:
    """Have no say once another client has the static id."""
    group, place = teller.name, "i"
    name = f"{group}-topic"
    await teller.create(name)
    first = await _member(teller, group, who="one", instance_id=place)
    second = await _join(teller, group, who="two", instance_id=place)
    teller.needs(second.error_code == 0 and second.member_id != first.member_id)
    told = [
        (await teller.in_life(_beats(group, first, place), BEAT)).error_code,
        (await teller.in_life(_syncs(group, first, place, None), SYNC)).error_code,
        (await teller.in_life(_commits(group, name, 7, first, place), COMMIT))
        .topics[0]
        .partitions[0]
        .error_code,
    ]
    is_fenced = all(code == E.FENCED_INSTANCE_ID for code in told)
    teller.expect(is_fenced, f"a member whose static id another one has is told {told}")


# -- The consumer protocol -------------------------------------------------------------------------


def _beats_848(
    teller: Teller, member_id: str, epoch: int, topics: list[str] | None, **more: Any
) -> ConsumerGroupHeartbeatRequest:
    more.setdefault("rebalance_timeout_ms", REBALANCE_MS)
    return ConsumerGroupHeartbeatRequest(
        group_id=teller.name,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=topics,
        **more,
    )


def _owns(told: Any) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=one.topic_id, partitions=list(one.partitions))
        for one in told.assignment.topic_partitions
    ]


async def _assigned(teller: Teller, name: str, rebalance_ms: int) -> Any:
    """Join a consumer group alone; return an answer with all partitions of a topic."""
    epoch: int = 0
    owned: list[TopicPartitions] | None = []
    for _ in range(8):
        body = _beats_848(
            teller,
            "a",
            epoch,
            [name],
            rebalance_timeout_ms=rebalance_ms,
            topic_partitions=owned,
        )
        told = await teller.in_life(body, BEAT_848, who="a")
        teller.needs(told.error_code == 0)
        epoch = told.member_epoch
        if told.assignment is not None and told.assignment.topic_partitions:
            return told
        await teller.rest(SOON_MS)
    raise Untold


async def _must_revoke(teller: Teller, name: str, rebalance_ms: int) -> tuple[Any, Any]:
    """Return what `a` owns and the answer that tells it to give some of it to `b`."""
    whole = await _assigned(teller, name, rebalance_ms)
    owned, count = _owns(whole), sum(len(one.partitions) for one in _owns(whole))
    body = _beats_848(teller, "b", 0, [name], topic_partitions=[])
    teller.needs((await teller.in_life(body, BEAT_848, who="b")).error_code == 0)
    for _ in range(8):
        told = await _keeps(teller, whole.member_epoch, owned, rebalance_ms)
        teller.needs(told.error_code == 0)
        if told.assignment is not None:
            fewer = sum(len(one.partitions) for one in told.assignment.topic_partitions)
            if fewer < count:
                return owned, told
        await teller.rest(SOON_MS)
    raise Untold


async def _keeps(
    teller: Teller,
    epoch: int,
    owned: list[TopicPartitions],
    rebalance_ms: int,
    topics: list[str] | None = None,
) -> Any:
    """Beat as `a`, which gives up nothing."""
    body = _beats_848(
        teller, "a", epoch, topics, rebalance_timeout_ms=rebalance_ms, topic_partitions=owned
    )
    return await teller.in_life(body, BEAT_848, who="a")


async def slow_revoker(teller: Teller) -> None:
    """Keep what must be given up, and be removed."""
    name = f"{teller.name}-topic"
    await teller.create(name, 4)
    owned, told = await _must_revoke(teller, name, QUICK_MS)
    until_ms = teller.now_ms + QUICK_MS + SLACK_MS
    while teller.now_ms < until_ms:
        await teller.rest(SOON_MS)
        if (await _keeps(teller, told.member_epoch, owned, QUICK_MS)).error_code:
            return
    teller.expect(False, f"a member keeps for {SLACK_MS} ms what it must give up")


async def busy_revoker(teller: Teller) -> None:
    """Have more to give up before the time for the first is over: all of it has the whole time."""
    names = [f"{teller.name}-{end}" for end in "xy"]
    for name in names:
        await teller.create(name, 2)
    epoch, owned = 0, []
    for _ in range(8):
        body = _beats_848(teller, "a", epoch, names, topic_partitions=owned)
        told = await teller.in_life(body, BEAT_848, who="a")
        teller.needs(told.error_code == 0)
        epoch = told.member_epoch
        owned = _owns(told) if told.assignment is not None else owned
        if sum(len(one.partitions) for one in owned) == 2 * len(names):
            break
        await teller.rest(SOON_MS)
    else:
        raise Untold
    body = _beats_848(teller, "b", 0, [names[0]], topic_partitions=[])
    teller.needs((await teller.in_life(body, BEAT_848, who="b")).error_code == 0)
    for _ in range(8):
        told = await _keeps(teller, epoch, owned, REBALANCE_MS)
        teller.needs(told.error_code == 0)
        if told.assignment is not None:
            break
        await teller.rest(SOON_MS)
    else:
        raise Untold
    told_ms, epoch = teller.now_ms, told.member_epoch
    before = len(told.assignment.topic_partitions)
    await teller.rest(0.6 * REBALANCE_MS)
    asked_ms = teller.now_ms
    told = await _keeps(teller, epoch, owned, REBALANCE_MS, [names[0]])
    teller.needs(told.error_code == 0 and told.assignment is not None)
    teller.needs(len(told.assignment.topic_partitions) < before)  # the other one has to go, too
    await teller.rest(max(0.0, told_ms + 1.15 * REBALANCE_MS - teller.now_ms))
    code = (await _keeps(teller, told.member_epoch, owned, REBALANCE_MS)).error_code
    teller.needs(teller.now_ms < asked_ms + REBALANCE_MS)
    teller.expect(code == 0, f"{code} within the time for what had to be given up later")


async def returning_member(teller: Teller) -> None:
    """Come back to the classic protocol, as the last of the group: it is a classic one then."""
    config = teller.context.loaded.config
    teller.needs(str(config.group_consumer_migration_policy) in CONVERTS_DOWN)
    group, name, place = teller.name, f"{teller.name}-topic", "i"
    await teller.create(name)
    body = _beats_848(teller, "a", 0, [name], topic_partitions=[], instance_id=place)
    told = await teller.in_life(body, BEAT_848, who="a")
    teller.needs(told.error_code == 0)
    body = _beats_848(teller, "a", -2, None, instance_id=place)
    teller.needs((await teller.in_life(body, BEAT_848, who="a")).error_code == 0)
    joined = await _join(teller, group, who="b", instance_id=place, topics=(name,))
    teller.needs(joined.error_code == 0)
    listed = await teller.in_life(ListGroupsRequest(), LIST)
    types = [one.group_type for one in listed.groups if one.group_id == group]
    teller.expect(types == ["classic"], f"a group whose members are all classic is {types}")


async def remaining_member(teller: Teller) -> None:
    """Offer two protocols, and meet one who has the second alone, in a classic group by then."""
    config = teller.context.loaded.config
    teller.needs(str(config.group_consumer_migration_policy) in CONVERTS_DOWN)
    group, name = teller.name, f"{teller.name}-topic"
    await teller.create(name)
    body = _beats_848(teller, "a", 0, [name], topic_partitions=[])
    teller.needs((await teller.in_life(body, BEAT_848, who="a")).error_code == 0)
    offer = ("range", "roundrobin")
    stays = await _join(teller, group, who="b", topics=(name,), offer=offer, rebalance_ms=QUICK_MS)
    teller.needs(stays.error_code == 0)
    body = _syncs(group, stays, None, None)
    teller.needs((await teller.in_life(body, SYNC, who="b")).error_code == 0)
    body = _beats_848(teller, "a", -1, None)
    teller.needs((await teller.in_life(body, BEAT_848, who="a")).error_code == 0)
    comes = await _join(
        teller, group, who="c", topics=(name,), offer=offer[1:], rebalance_ms=QUICK_MS
    )
    code = comes.error_code
    is_refused = code == E.INCONSISTENT_GROUP_PROTOCOL
    teller.expect(not is_refused, "a protocol that all members have is refused")


async def patient_member(teller: Teller) -> None:
    """Stay, and find the offset that was committed long ago."""
    group, name = teller.name, f"{teller.name}-topic"
    await teller.create(name)
    joined = await _member(teller, group, topics=(name,))
    offset = teller.rng.getrandbits(30)
    answer = await teller.in_life(_commits(group, name, offset, joined), COMMIT)
    teller.needs(answer.topics[0].partitions[0].error_code == 0)
    for _ in range(5):
        await teller.rest(500)
        code = (await teller.in_life(_beats(group, joined), BEAT)).error_code
        teller.needs(code == 0)
    asked = OffsetFetchRequestTopics(name=name, partition_indexes=[0])
    asked_group = OffsetFetchRequestGroup(group_id=group, topics=[asked])
    answer = await teller.in_life(OffsetFetchRequest(groups=[asked_group]), OFFSETS)
    found = answer.groups[0].topics[0].partitions[0].committed_offset
    teller.expect(found == offset, f"an offset of a topic that a member reads is {found}")
    await _quit(teller, group, joined)


KINDS: Final = {
    "lagging member": tells(lagging_member),
    "hasty leader": tells(hasty_leader),
    "replaced member": tells(replaced_member),
    "returning member": tells(returning_member),
    "remaining member": tells(remaining_member),
    "slow revoker": tells(slow_revoker),
    "busy revoker": tells(busy_revoker),
    "patient member": tells(patient_member),
}
