"""Members of the classic protocol in a consumer group: the broker assigns partitions to them."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.group import Caller
from protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol.messages.leave_group import MemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.fake_topics import FakeTopics
from tests.support.group_host import FakeHost

SESSION_MS = 10_000
REBALANCE_MS = 60_000


class House:
    """A group that reads topic `a` (4 partitions), with a member `new` of the new protocol."""

    def __init__(self, **settings: Any) -> None:
        self.host = FakeHost(group_consumer_migration_policy="upgrade", **settings)
        self.host.topics = FakeTopics(a=4)
        self.group = ConsumerGroup("g", self.host)
        self.epochs: list[int] = []
        self.beat(0, topic_partitions=[], subscribed_topic_names=["a"], rebalance_timeout_ms=1)

    def beat(self, epoch: int, **said: Any) -> None:
        body = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="new", member_epoch=epoch, **said
        )
        self.group.consumer_group_heartbeat(
            body, Caller("c", "/h", 1), lambda answer: self.epochs.append(answer.member_epoch)
        )

    def give_up(self) -> None:
        """Let the new member revoke what the broker asks for, and take its assignment."""
        self.beat(self.epochs[-1])
        self.beat(self.epochs[-1], topic_partitions=[])

    def request(
        self,
        member_id: str = "old",
        *,
        owned: list[int] | None = None,
        protocols: tuple[str, ...] = ("range",),
        protocol_type: str = "consumer",
        **said: Any,
    ) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(
            topics=["a"],
            owned_partitions=[TopicPartition(topic="a", partitions=owned)] if owned else [],
        )
        return JoinGroupRequest(
            group_id="g",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=encode_subscription(subscription))
                for name in protocols
            ],
            **said,
        )

    def join(self, member_id: str = "old", *, version: int = 9, **said: Any) -> JoinGroupResponse:
        answers: list[JoinGroupResponse] = []
        caller = Caller("c", "/h", version)
        self.group.join(self.request(member_id, **said), caller, answers.append)
        (answer,) = answers
        return answer

    def sync(self, generation: int, **said: Any) -> SyncGroupResponse:
        answers: list[SyncGroupResponse] = []
        body = SyncGroupRequest(
            group_id="g", generation_id=generation, **{"member_id": "old", **said}
        )
        self.group.sync(body, answers.append)
        (answer,) = answers
        return answer

    def heartbeat(self, generation: int, **said: Any) -> ErrorCode:
        return self.group.heartbeat(
            HeartbeatRequest(group_id="g", generation_id=generation, **{"member_id": "old", **said})
        )


@pytest.fixture
def house() -> House:
    return House()


def held(answer: SyncGroupResponse) -> list[int]:
    assert answer.error_code == 0
    return [
        number
        for topic in decode_assignment(answer.assignment).assigned_partitions
        for number in topic.partitions
    ]


def test_a_member_joins_syncs_and_waits_for_partitions_that_are_not_free(house: House) -> None:
    joined = house.join()
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 3, "range")
    assert (joined.leader, joined.members) == ("", []), "no member leads"
    assert held(house.sync(3)) == []
    assert house.heartbeat(3) == ErrorCode.NONE
    house.give_up()
    assert house.heartbeat(3) == ErrorCode.REBALANCE_IN_PROGRESS, (
        "more partitions are assigned to it"
    )
    assert house.join().generation_id == 3
    assert len(held(house.sync(3))) == 2
    assert house.heartbeat(3) == ErrorCode.NONE


def test_a_member_revokes_by_rejoining(house: House) -> None:
    house.join()
    house.give_up()
    house.join()
    before = held(house.sync(3))
    house.beat(3, topic_partitions=[], subscribed_topic_names=[])
    house.beat(-1)
    assert house.heartbeat(3) == ErrorCode.REBALANCE_IN_PROGRESS
    house.join(owned=before)
    assert held(house.sync(house.group.state.epoch)) == [0, 1, 2, 3]


def test_a_new_member_joins_again_with_its_id(house: House) -> None:
    first = house.join("")
    assert (first.error_code, first.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "id1")
    assert "id1" not in house.group.state.members
    assert house.join("id1").error_code == 0
    assert house.join("", version=3).error_code == 0, "old versions let it join at once"


def test_a_static_member_replaces_itself(house: House) -> None:
    house.join("", group_instance_id="i")
    again = house.join("", group_instance_id="i")
    assert again.error_code == 0
    assert set(house.group.state.members) == {"new", again.member_id}
    fenced = house.join("other", group_instance_id="i")
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("sticky",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("sticky", "range")}, ErrorCode.NONE),
    ],
)
def test_members_of_the_classic_protocol_need_a_common_protocol(
    house: House, said: dict[str, Any], code: ErrorCode
) -> None:
    house.join()
    assert house.join("old2", **said).error_code == code


def test_a_full_group_refuses_members() -> None:
    house = House(group_consumer_max_size=1)
    assert house.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize(
    ("generation", "said", "code"),
    [
        (3, {}, ErrorCode.NONE),
        (3, {"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
        (2, {}, ErrorCode.ILLEGAL_GENERATION),
        (3, {"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (2, {"member_id": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (3, {"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (3, {"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (3, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_which_members_may_sync(
    house: House, generation: int, said: dict[str, Any], code: ErrorCode
) -> None:
    house.join()
    assert house.sync(generation, **said).error_code == code
    if "protocol_name" not in said and "protocol_type" not in said:
        assert house.heartbeat(generation, **said) == code


def test_a_sync_after_the_next_epoch(house: House) -> None:
    house.join()
    house.join("old2")
    assert house.sync(3).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_undecodable_subscriptions_are_refused(house: House) -> None:
    answers: list[JoinGroupResponse] = []
    body = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        member_id="old",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00")],
    )
    house.group.join(body, Caller("c", "/h", 9), answers.append)
    assert answers[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert set(house.group.state.members) == {"new"}


def test_a_classic_member_keeps_its_own_session_timeout(house: House) -> None:
    house.join()
    house.sync(3)
    house.host.advance(SESSION_MS - 1)
    house.heartbeat(3)
    house.host.advance(SESSION_MS - 1)
    assert "old" in house.group.state.members
    house.host.advance(1)
    assert "old" not in house.group.state.members


@pytest.mark.parametrize("step", ["to sync", "to join again"])
def test_a_member_that_misses_a_step_is_removed(house: House, step: str) -> None:
    house.join()
    if step == "to join again":
        house.sync(3)
        house.join("old2")
    for _ in range(REBALANCE_MS // 5_000):
        assert "old" in house.group.state.members
        house.heartbeat(3)
        house.host.advance(5_000)
    assert "old" not in house.group.state.members


def test_members_leave_by_id_and_by_static_id(house: House) -> None:
    house.join()
    house.join("", group_instance_id="i")
    responses = house.group.leave(
        [
            MemberIdentity(member_id="old"),
            MemberIdentity(member_id="nobody"),
            MemberIdentity(member_id="", group_instance_id="i"),
            MemberIdentity(member_id="new"),
        ]
    )
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [response.error_code for response in responses] == [0, unknown, 0, 0]
    assert house.group.state.members == {}, "administrators remove members of either protocol"


def test_static_members_leave_by_their_ids(house: House) -> None:
    member_id = house.join("", group_instance_id="i").member_id
    refused, gone = house.group.leave(
        [
            MemberIdentity(member_id="other", group_instance_id="i"),
            MemberIdentity(member_id=member_id, group_instance_id="i"),
        ]
    )
    assert (refused.error_code, gone.error_code) == (ErrorCode.FENCED_INSTANCE_ID, 0)
    assert set(house.group.state.members) == {"new"}


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_a_sync_waits_until_its_partitions_are_durable(house: House, code: ErrorCode) -> None:
    house.join()
    house.give_up()
    house.host.holds = True
    answers: list[Any] = []
    house.group.join(house.request(), Caller("c", "/h", 9), answers.append)
    house.group.sync(
        SyncGroupRequest(group_id="g", generation_id=3, member_id="old"), answers.append
    )
    assert answers == []
    house.host.flush(code)
    assert [answer.error_code for answer in answers] == [code, code]
    assert bool(answers[1].assignment) is (code == ErrorCode.NONE)


def test_commits_name_the_generation(house: House) -> None:
    house.join()
    body = OffsetCommitRequest(group_id="g", member_id="old", generation_id_or_member_epoch=3)
    house.group.check_commit(body, [("a", 0)], 8)
