"""Sequences of heartbeats: joins, moved partitions, and refusals with their messages."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.consumer.draft import Draft
from broker.groups.consumer.member_heartbeat import check, heartbeat, leave
from broker.groups.consumer.member_steps import StepContext
from broker.groups.consumer.state import ConsumerState
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from protocol.errors import ErrorCode
from protocol.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.support.fake_topics import FakeTopics, topic_id

CALLER = Caller("client", "/127.0.0.1", 1)
ASSIGNORS = ("uniform", "range")
KINDS = {
    ConsumerGroupMemberMetadataKey: "member",
    ConsumerGroupMetadataKey: "epoch",
    ConsumerGroupTargetAssignmentMemberKey: "target",
    ConsumerGroupTargetAssignmentMetadataKey: "target epoch",
    ConsumerGroupCurrentMemberAssignmentKey: "current",
    ConsumerGroupRegularExpressionKey: "regex",
}
Owned = dict[str, list[int]]


class Group:
    """A group whose heartbeats succeed in writing; topics `a` with 4 partitions and `b` with 2."""

    def __init__(self, size_max: int = 10) -> None:
        self.state = ConsumerState("g")
        self.topics = FakeTopics(a=4, b=2)
        self.topics_changed = False
        self.size_max = size_max
        self.written: list[str] = []

    def context(self) -> StepContext:
        return StepContext(
            self.topics, self.topics_changed, 1_000, ASSIGNORS, self.size_max, 5_000, set()
        )

    def beat(
        self, member_id: str, epoch: int, owned: Owned | None = None, **said: Any
    ) -> ConsumerGroupHeartbeatResponse:
        draft = Draft(self.state)
        body = request(member_id, epoch, owned, **said)
        response = heartbeat(draft, body, member_id, CALLER, self.context())
        self.keep(draft)
        self.topics_changed = False
        return response

    def join(self, member_id: str, *names: str, **said: Any) -> ConsumerGroupHeartbeatResponse:
        if names or "subscribed_topic_regex" not in said:
            said["subscribed_topic_names"] = list(names)
        return self.beat(member_id, 0, {}, rebalance_timeout_ms=300_000, **said)

    def leave(self, member_id: str, epoch: int = -1, instance_id: str | None = None) -> None:
        draft = Draft(self.state)
        leave(draft, request(member_id, epoch, instance_id=instance_id), self.context())
        self.keep(draft)

    def keep(self, draft: Draft) -> None:
        self.state = draft.state
        self.written = [
            KINDS[type(key)] + ("" if value else " gone") for key, value in draft.records
        ]


def request(
    member_id: str, epoch: int, owned: Owned | None = None, **said: Any
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=epoch,
        topic_partitions=None
        if owned is None
        else [
            TopicPartitions(topic_id=topic_id(name), partitions=of) for name, of in owned.items()
        ],
        **said,
    )


def told(response: ConsumerGroupHeartbeatResponse) -> Owned | None:
    if response.assignment is None:
        return None
    return {
        topic.topic_id.decode().rstrip("."): topic.partitions
        for topic in response.assignment.topic_partitions
    }


# -- Refused before any group is looked up ------------------------------------------------------

JOINING = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["a"]}

CHECKS: dict[str, tuple[ConsumerGroupHeartbeatRequest, int, ErrorCode, str]] = {
    "no member id": (request("", 0, {}, **JOINING), 1, ErrorCode.INVALID_REQUEST, "MemberId"),
    "no member id, of old": (request("", 1), 0, ErrorCode.INVALID_REQUEST, "MemberId"),
    "no timeout": (
        request("m", 0, {}, subscribed_topic_names=["a"]), 1,
        ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.",
    ),
    "joins with partitions": (
        request("m", 0, {"a": [0]}, **JOINING), 1,
        ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.",
    ),
    "joins without saying what it has": (
        request("m", 0, None, **JOINING), 1,
        ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.",
    ),
    "joins without a subscription": (
        request("m", 0, {}, rebalance_timeout_ms=1), 1, ErrorCode.INVALID_REQUEST, "Subscribed",
    ),
    "leaves for a while, not static": (
        request("m", -2), 1, ErrorCode.INVALID_REQUEST, "InstanceId can't be null.",
    ),
    "an epoch that means nothing": (
        request("m", -3), 1, ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.",
    ),
    "an empty instance id": (
        request("m", 1, instance_id=""), 1, ErrorCode.INVALID_REQUEST, "InstanceId can't be empty.",
    ),
    "an empty rack": (
        request("m", 1, rack_id=""), 1, ErrorCode.INVALID_REQUEST, "RackId can't be empty.",
    ),
    "an assignor we lack": (
        request("m", 1, server_assignor="mine"), 1, ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor mine is not supported. Supported assignors: uniform, range.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_requests_that_are_refused_for_any_group(name: str) -> None:
    body, version, code, words = CHECKS[name]
    with pytest.raises(GroupError) as refused:
        check(body, version, ASSIGNORS)
    assert refused.value.code == code
    assert words in str(refused.value)


def test_an_empty_group_id_is_refused() -> None:
    body = request("m", 1)
    body.group_id = " "
    with pytest.raises(GroupError, match="GroupId can't be empty"):
        check(body, 1, ASSIGNORS)


def test_good_requests_pass() -> None:
    check(request("m", 0, {}, **JOINING), 1, ASSIGNORS)
    check(request("", 0, {}, **JOINING), 0, ASSIGNORS)
    check(request("m", 3, server_assignor="range"), 1, ASSIGNORS)
    check(request("m", -2, instance_id="i"), 1, ASSIGNORS)


# -- Joining and moving -------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once() -> None:
    group = Group()
    response = group.join("m1", "a", "b")
    assert told(response) == {"a": [0, 1, 2, 3], "b": [0, 1]}
    assert (response.member_id, response.member_epoch) == ("m1", 2)
    assert response.heartbeat_interval_ms == 5_000
    assert group.written == ["member", "epoch", "target", "target epoch", "current"]


def test_partitions_move_once_they_are_revoked() -> None:
    group = Group()
    group.join("m1", "a")
    assert told(group.join("m2", "a")) == {}, "m1 still owns all partitions"
    assert told(group.beat("m1", 2, {"a": [0, 1, 2, 3]})) == {"a": [0, 1]}
    assert group.beat("m1", 2, {"a": [0, 1, 2, 3]}).assignment is None, "already in the last answer"
    assert told(group.beat("m2", 3)) is None, "not free yet"
    assert group.beat("m1", 2, {"a": [0, 1]}).member_epoch == 3
    assert told(group.beat("m2", 3)) == {"a": [2, 3]}
    assert group.written == ["current"]
    assert told(group.beat("m2", 3)) is None
    assert group.written == []


def test_a_leaving_member_frees_its_partitions_and_raises_the_epoch() -> None:
    group = Group()
    group.join("m1", "a")
    group.join("m2", "a")
    group.leave("m1")
    assert group.written == ["current gone", "target gone", "member gone", "epoch"]
    assert told(group.beat("m2", 3)) == {"a": [0, 1, 2, 3]}


def test_more_partitions_and_deleted_topics_are_noticed() -> None:
    group = Group()
    group.join("m1", "a", "b")
    group.topics.set("a", 5)
    group.topics_changed = True
    assert told(group.beat("m1", 2)) == {"a": [0, 1, 2, 3, 4], "b": [0, 1]}
    group.topics.set("b", 0)
    group.topics_changed = True
    assert told(group.beat("m1", 3, {"a": [0, 1, 2, 3, 4], "b": [0, 1]})) == {"a": [0, 1, 2, 3, 4]}


def test_a_new_subscription_revokes_the_old_topics() -> None:
    group = Group()
    group.join("m1", "a")
    assert told(group.beat("m1", 2, {"a": [0, 1, 2, 3]}, subscribed_topic_names=["b"])) == {}
    after = group.beat("m1", 2, {})
    assert (told(after), after.member_epoch) == ({"b": [0, 1]}, 3)


def test_a_full_request_is_answered_in_full() -> None:
    group = Group()
    group.join("m1", "a")
    full = group.beat(
        "m1", 2, {"a": [0]}, rebalance_timeout_ms=300_000, subscribed_topic_names=["a"]
    )
    assert told(full) == {"a": [0, 1, 2, 3]}
    assert group.written == []


def test_a_member_that_rejoins_keeps_its_partitions() -> None:
    group = Group()
    group.join("m1", "a")
    again = group.join("m1", "a")
    assert (told(again), again.member_epoch) == ({"a": [0, 1, 2, 3]}, 2)


def test_the_assignor_preferred_by_most_members_is_used() -> None:
    group = Group()
    group.join("m1", "a", "b", server_assignor="range")
    group.join("m2", "a", "b")
    group.beat("m1", 2, {})
    assert told(group.beat("m1", 2, {})) is None
    assert {topic_id("a"): frozenset({0, 1}), topic_id("b"): frozenset({0})} in (
        group.state.targets.values()
    )


def test_a_full_group_refuses_members() -> None:
    group = Group(size_max=1)
    group.join("m1", "a")
    with pytest.raises(GroupError) as refused:
        group.join("m2", "a")
    assert refused.value.code == ErrorCode.GROUP_MAX_SIZE_REACHED
    group.beat("m1", 2)


# -- Epochs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "owned", "fenced"),
    [
        (3, None, False),
        (2, {}, False),  # the answer that raised it was lost
        (2, {"a": [0]}, False),
        (2, {"a": [3]}, True),  # owns partitions that it lost
        (2, None, True),  # does not name its partitions
        (4, {}, True),
    ],
)
def test_members_with_an_older_or_newer_epoch_are_fenced(
    epoch: int, owned: Owned, fenced: bool
) -> None:
    group = Group()
    group.join("m1", "a")
    group.join("m2", "a")
    group.beat("m1", 2, {"a": [0, 1]})
    member = group.state.members["m1"]
    assert (member.member_epoch, member.previous_member_epoch) == (3, 2)
    if fenced:
        with pytest.raises(GroupError) as refused:
            group.beat("m1", epoch, owned)
        assert refused.value.code == ErrorCode.FENCED_MEMBER_EPOCH
        assert "must abandon all its partitions and rejoin" in str(refused.value)
    else:
        assert group.beat("m1", epoch, owned).member_epoch == 3


def test_an_unknown_member_is_refused() -> None:
    group = Group()
    group.join("m1", "a")
    for attempt in (lambda: group.beat("m2", 2), lambda: group.leave("m2")):
        with pytest.raises(GroupError, match="Member m2 is not a member of group g") as refused:
            attempt()
        assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID


# -- Static members -------------------------------------------------------------------------------


def test_a_static_member_gets_its_partitions_back() -> None:
    group = Group()
    group.join("m1", "a", instance_id="i")
    epoch = group.state.epoch
    group.leave("m1", -2, "i")
    assert group.written == ["current"]
    back = group.join("m2", "a", instance_id="i")
    assert told(back) == {"a": [0, 1, 2, 3]}
    assert (group.state.epoch, back.member_epoch) == (epoch, epoch), "no partition moved for it"
    assert list(group.state.members) == ["m2"]
    with pytest.raises(GroupError) as refused:
        group.beat("m1", 2, instance_id="i")
    assert refused.value.code == ErrorCode.FENCED_INSTANCE_ID


def test_a_present_static_member_is_not_replaced() -> None:
    group = Group()
    group.join("m1", "a", instance_id="i")
    with pytest.raises(GroupError) as refused:
        group.join("m2", "a", instance_id="i")
    assert refused.value.code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert list(group.state.members) == ["m1"]


def test_an_unknown_instance_id_is_refused() -> None:
    group = Group()
    group.join("m1", "a")
    with pytest.raises(GroupError, match="Instance id i is unknown") as refused:
        group.beat("m1", 2, instance_id="i")
    assert refused.value.code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_may_leave_for_good() -> None:
    group = Group()
    group.join("m1", "a", instance_id="i")
    group.leave("m1", -1, "i")
    assert group.state.members == {}
    assert group.state.static_ids == {}


# -- Expressions ----------------------------------------------------------------------------------


def test_an_expression_is_resolved_and_follows_the_topics() -> None:
    group = Group()
    assert told(group.join("m1", subscribed_topic_regex="[ab]")) == {
        "a": [0, 1, 2, 3], "b": [0, 1],
    }  # fmt: skip
    assert group.written == ["member", "regex", "epoch", "target", "target epoch", "current"]
    group.topics.set("c", 1)
    group.topics_changed = True
    assert group.beat("m1", 2).assignment is None, "c does not match"
    assert group.written == []
    group.topics.set("b", 0)
    group.topics_changed = True
    assert told(group.beat("m1", 2, {"a": [0, 1, 2, 3]})) == {"a": [0, 1, 2, 3]}
    assert group.state.regexes["[ab]"].topics == {"a"}


def test_an_expression_goes_with_its_last_member() -> None:
    group = Group()
    group.join("m1", subscribed_topic_regex="a")
    group.join("m2", subscribed_topic_regex="a")
    group.leave("m1")
    assert "regex gone" not in group.written
    group.beat("m2", 3, {}, subscribed_topic_regex="b")
    assert group.state.regexes.keys() == {"b"}
    group.leave("m2")
    assert group.state.regexes == {}


def test_an_invalid_expression_changes_nothing() -> None:
    group = Group()
    with pytest.raises(GroupError) as refused:
        group.join("m1", subscribed_topic_regex="(")
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert group.state.members == {}
