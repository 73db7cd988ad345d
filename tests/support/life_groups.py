"""The groups of a scripted life: two consumers, their commits, and the answers they got.

There is a member of a classic group, a member of a consumer group (KIP-848), and a client that
commits without a membership. Whatever fails, the broker answers each request, if only with "no
coordinator available", and

- a committed offset, or one that a client has fetched, never goes back, and a fetch returns only
  offsets that a client committed;
- deleted offsets and groups stay deleted;
- a member that joined, with a generation or an epoch, is still a member after a restart.

Unlike the members of `tests.faults.group_members` they act in a fixed order and run no tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.memory_broker import MemoryBroker

TOPIC = "plain"
CLASSIC, CONSUMER, SIMPLE, DELETED = "classic", "consumer", "simple", "deleted"
SESSION_MS = 1_700_000  # longer than any wait of a life
SETTINGS = {
    "offsets_topic_num_partitions": "2",
    "offsets_topic_compression_codec": "4",
    "group_consumer_max_session_timeout_ms": str(SESSION_MS),
    "group_consumer_session_timeout_ms": str(SESSION_MS),
}
NOW_UNAVAILABLE = {
    int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
    int(ErrorCode.NOT_COORDINATOR),
}
NO_OFFSET = -1


@dataclass
class Offset:
    """The changes of one group's committed offset, in order; NO_OFFSET: deleted."""

    tried: list[int] = field(default_factory=lambda: [NO_OFFSET])
    known: int = 0  # the last of `tried` that was acknowledged or fetched

    def check(self, group: str, found: int) -> None:
        """Check a fetched offset; later fetches must not go back behind it."""
        possible = self.tried[self.known :]
        assert found in possible, f"{group}: committed offset {found}, not one of {possible}"
        self.known = len(self.tried) - 1 - self.tried[::-1].index(found)


class LifeGroups:
    """The members: their requests and their state."""

    broker: MemoryBroker

    def __init__(self) -> None:
        self.offsets = {name: Offset() for name in (CLASSIC, CONSUMER, SIMPLE, DELETED)}
        self.classic: tuple[str, int] | None = None  # member id and generation, once joined
        self.epoch = JOIN_EPOCH
        self.assigned: list[TopicPartitions] = []
        self.number = 0

    async def find(self) -> None:
        """Make the coordinator create its topic."""
        answer = await self.broker.call(FindCoordinatorRequest(key=SIMPLE), 3)
        assert answer.error_code in {0, *NOW_UNAVAILABLE}, answer

    async def commit(self, group: str) -> int:
        """Commit the next offset to a group, as its member if it has one; return the code."""
        member: dict[str, Any] = {}
        if group == CLASSIC and self.classic is not None:
            member = {
                "member_id": self.classic[0], "generation_id_or_member_epoch": self.classic[1]
            }  # fmt: skip
        elif group == CONSUMER and self.epoch != JOIN_EPOCH:
            member = {"member_id": CONSUMER, "generation_id_or_member_epoch": self.epoch}
        elif group in (CLASSIC, CONSUMER):
            return -1
        self.number += 1
        offset = self.offsets[group]
        offset.tried.append(self.number)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.number)
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        body = OffsetCommitRequest(group_id=group, topics=[topic], **member)
        code = (await self.broker.call(body, 9)).topics[0].partitions[0].error_code
        may_be = NOW_UNAVAILABLE | {int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        assert code in {0, *may_be}, f"{group}: a commit is answered {code}"
        if code == 0:
            offset.known = len(offset.tried) - 1
        return int(code)

    async def fetch_all(self) -> dict[str, int]:
        """Fetch the offset of each group; return the codes."""
        asked = [
            OffsetFetchRequestGroup(
                group_id=name, topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
            )
            for name in self.offsets
        ]
        answer = await self.broker.call(OffsetFetchRequest(groups=asked), 9)
        codes = {}
        for group in answer.groups:
            codes[group.group_id] = group.error_code
            if group.error_code:
                assert group.error_code in NOW_UNAVAILABLE, group
                continue
            found = group.topics[0].partitions[0].committed_offset
            self.offsets[group.group_id].check(group.group_id, found)
        return codes

    async def join(self) -> None:
        """Become a member of the classic group, or stay one."""
        if self.classic is not None:
            return
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]))
        body = JoinGroupRequest(
            group_id=CLASSIC,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        joined = await self.broker.call(body, 3)
        assert joined.error_code in {0, *NOW_UNAVAILABLE}, joined
        if joined.error_code:
            return
        share = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"share")
        sync = SyncGroupRequest(
            group_id=CLASSIC,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[share],
        )
        synced = await self.broker.call(sync, 3)
        again = {int(ErrorCode.REBALANCE_IN_PROGRESS), int(ErrorCode.UNKNOWN_MEMBER_ID)}
        assert synced.error_code in {0, *NOW_UNAVAILABLE, *again}, synced
        if synced.error_code == 0:
            assert synced.assignment == b"share"
            self.classic = joined.member_id, joined.generation_id

    async def beat(self) -> list[int]:
        """Send both members' heartbeats; the consumer group's member rejoins if it must."""
        codes = []
        if self.classic is not None:
            member_id, generation = self.classic
            body = HeartbeatRequest(group_id=CLASSIC, generation_id=generation, member_id=member_id)
            code = (await self.broker.call(body, 3)).error_code
            assert code in {0, *NOW_UNAVAILABLE}, f"{CLASSIC}: a heartbeat is answered {code}"
            codes.append(code)
        is_new = self.epoch == JOIN_EPOCH
        answer = await self.broker.call(
            ConsumerGroupHeartbeatRequest(
                group_id=CONSUMER,
                member_id=CONSUMER,
                member_epoch=self.epoch,
                rebalance_timeout_ms=SESSION_MS if is_new else -1,
                subscribed_topic_names=[TOPIC] if is_new else None,
                topic_partitions=[] if is_new else self.assigned,
            ),
            1,
        )
        code = answer.error_code
        assert code in {0, *NOW_UNAVAILABLE}, f"{CONSUMER}: a heartbeat is answered {code}"
        if code == 0:
            assert answer.member_epoch >= self.epoch, f"{CONSUMER}: back to {answer.member_epoch}"
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = answer.assignment.topic_partitions
        codes.append(code)
        return codes

    async def forget(self, group: str) -> None:
        """Delete the offset of a group that has no members."""
        self.offsets[group].tried.append(NO_OFFSET)
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topic = OffsetDeleteRequestTopic(name=TOPIC, partitions=[partition])
        answer = await self.broker.call(OffsetDeleteRequest(group_id=group, topics=[topic]), 0)
        codes = [answer.error_code, *(p.error_code for t in answer.topics for p in t.partitions)]
        self._deleted(group, codes)

    async def delete(self, group: str) -> None:
        """Delete a group."""
        self.offsets[group].tried.append(NO_OFFSET)
        answer = await self.broker.call(DeleteGroupsRequest(groups_names=[group]), 2)
        self._deleted(group, [answer.results[0].error_code])

    def _deleted(self, group: str, codes: list[int]) -> None:
        unknown = {int(ErrorCode.GROUP_ID_NOT_FOUND), int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        assert set(codes) <= {0, *NOW_UNAVAILABLE, *unknown}, f"{group}: deleting: {codes}"
        if not any(codes):
            self.offsets[group].known = len(self.offsets[group].tried) - 1

    async def judge(self, *, has_topic: bool) -> None:
        """Check on a healthy disk that offsets and members are known and that groups work."""
        await self.broker.loading
        await self.find()
        codes = await self.fetch_all()
        assert not any(codes.values()), codes
        assert not any(await self.beat()), "a heartbeat is refused"
        if has_topic:
            assert await self.commit(SIMPLE) == 0
            assert await self.commit(CONSUMER) == 0
            assert await self.commit(CLASSIC) in (0, -1)
            assert not any((await self.fetch_all()).values())
