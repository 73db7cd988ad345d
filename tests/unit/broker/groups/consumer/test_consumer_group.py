"""A consumer group in its host: answers wait for the disk, expired deadlines remove members."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.consumer import member_steps
from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.consumer.subscriptions import ResolvedRegex
from broker.groups.errors import GroupError
from broker.groups.group import Caller
from protocol.errors import ErrorCode
from protocol.group_records import MemberState
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.support.fake_topics import FakeTopics, topic_id
from tests.support.group_host import FakeHost

CALLER = Caller("client", "/127.0.0.1", 1)
SESSION_MS = 45_000
REBALANCE_MS = 60_000


class House:
    """A group of topic `a` with 4 partitions, and its members' last answers."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.host.topics = FakeTopics(a=4)
        self.group = ConsumerGroup("g", self.host)
        self.answers: list[ConsumerGroupHeartbeatResponse] = []

    def beat(self, member_id: str, epoch: int, owned: list[int] | None = None, **said: Any) -> None:
        if owned is not None:
            pieces = [TopicPartitions(topic_id=topic_id("a"), partitions=owned)]
            said = {"topic_partitions": pieces if owned else [], **said}
        body = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, **said
        )
        self.group.consumer_group_heartbeat(body, CALLER, self.answers.append)

    def join(self, member_id: str, **said: Any) -> None:
        said = {"subscribed_topic_names": ["a"], "rebalance_timeout_ms": REBALANCE_MS, **said}
        self.beat(member_id, 0, [], **said)

    def numbers(self, answer: ConsumerGroupHeartbeatResponse) -> list[int] | None:
        if answer.assignment is None:
            return None
        return [
            number for topic in answer.assignment.topic_partitions for number in topic.partitions
        ]

    def may_commit(self, member_id: str, epoch: int, *partitions: int, version: int = 9) -> int:
        body = OffsetCommitRequest(
            group_id="g", member_id=member_id, generation_id_or_member_epoch=epoch
        )
        places = [("a", number) for number in partitions]
        try:
            self.group.check_commit(body, places, version)
        except GroupError as error:
            return error.code
        return 0


@pytest.fixture
def house() -> House:
    return House()


def test_a_member_gets_only_durable_state(house: House) -> None:
    house.host.holds = True
    house.join("m1")
    assert house.answers == []
    house.host.flush()
    assert house.numbers(house.answers[0]) == [0, 1, 2, 3]


def test_a_write_that_does_not_become_durable_is_an_error(house: House) -> None:
    house.host.holds = True
    house.join("m1")
    house.host.flush(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert house.answers[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert house.answers[0].assignment is None


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
def test_a_repeated_heartbeat_gets_only_durable_state(house: House, code: ErrorCode) -> None:
    house.host.holds = True
    house.join("m1")
    house.join("m1")
    assert house.answers == []
    house.host.flush(code)
    assert [answer.error_code for answer in house.answers] == [code, code]


def test_a_failed_write_changes_nothing(house: House) -> None:
    house.host.refuses = ErrorCode.NOT_COORDINATOR
    with pytest.raises(GroupError):
        house.join("m1")
    assert house.group.is_empty
    assert house.answers == []


def test_a_member_without_an_id_gets_one(house: House) -> None:
    house.join("")
    assert house.answers[0].member_id == "id1"
    assert list(house.group.state.members) == ["id1"]


def test_a_heartbeat_with_nothing_new_writes_nothing(house: House) -> None:
    house.join("m1")
    house.host.records.clear()
    house.beat("m1", 2)
    assert house.host.records == []
    assert (house.answers[-1].member_epoch, house.answers[-1].assignment) == (2, None)


def test_the_next_heartbeat_checks_changed_topics(house: House) -> None:
    house.join("m1")
    house.host.topics.set("a", 5)
    house.beat("m1", 2)
    assert house.answers[-1].assignment is None, "the group was not notified"
    house.group.topics_changed("a")
    house.beat("m1", 2)
    assert house.numbers(house.answers[-1]) == [0, 1, 2, 3, 4]


def test_a_heartbeat_resolves_some_expressions_and_the_next_ones_go_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each member may have one of its own, and each takes 4 ms for 5,000 topics."""
    asked: list[str] = []
    resolve = member_steps.resolve

    def counted(pattern: str, *rest: Any) -> ResolvedRegex:
        asked.append(pattern)
        return resolve(pattern, *rest)

    monkeypatch.setattr(member_steps, "resolve", counted)
    monkeypatch.setattr(member_steps, "NAMES_PER_STEP", 1)
    patterns = ["[ab]", "a|b", "b?a?"]
    for number, pattern in enumerate(patterns):
        house.join(f"m{number}", subscribed_topic_names=[], subscribed_topic_regex=pattern)
    members = house.group.state.members
    while house.group.membership.topics_changed:
        house.beat("m0", members["m0"].member_epoch, [])
        members = house.group.state.members
    house.host.topics.set("b", 2)
    house.group.topics_changed("b")
    house.host.refuses = ErrorCode.NOT_COORDINATOR
    with pytest.raises(GroupError):
        house.beat("m0", members["m0"].member_epoch)
    asked.clear()
    for count in (1, 2, 3, 3):
        house.beat("m0", house.group.state.members["m0"].member_epoch)
        assert asked == sorted(patterns)[:count], "that of the refused step once more"
    assert {one.topics for one in house.group.state.regexes.values()} == {frozenset("ab")}
    house.beat("m2", 0, [], rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_regex="b?a?")
    targets = house.group.state.targets.values()
    assert sum(len(numbers) for one in targets for numbers in one.values()) == 6
    assert all(targets)


def test_heartbeats_extend_the_session(house: House) -> None:
    house.join("m1")
    for _ in range(3):
        house.host.advance(SESSION_MS - 1)
        house.beat("m1", 2)
    house.host.advance(SESSION_MS - 1)
    assert not house.group.is_empty
    house.host.advance(1)
    assert house.group.is_empty
    assert [value is None for _, value in house.host.records[-4:]] == [True, True, True, False]


def test_configs_of_the_group_itself_apply(house: House) -> None:
    house.host.configs = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "7000",
    }
    house.join("m1")
    house.beat("m1", 2)
    assert [answer.heartbeat_interval_ms for answer in house.answers] == [7_000, 7_000]
    house.host.advance(49_999)
    assert not house.group.is_empty
    house.host.advance(1)
    assert house.group.is_empty


def test_a_silent_members_partitions_go_to_the_others(house: House) -> None:
    house.join("m1")
    house.host.advance(SESSION_MS // 2)
    house.join("m2")
    house.host.advance(SESSION_MS // 2)
    house.beat("m2", 3)
    assert house.numbers(house.answers[-1]) == [0, 1, 2, 3]


def test_a_member_that_does_not_revoke_in_time_is_removed(house: House) -> None:
    house.join("m1")
    house.join("m2")
    house.beat("m1", 2, [0, 1, 2, 3])
    for _ in range(REBALANCE_MS // 20_000):
        assert set(house.group.state.members) == {"m1", "m2"}
        house.host.advance(20_000)
        if "m1" in house.group.state.members:
            house.beat("m1", 2, [0, 1, 2, 3])
        house.beat("m2", 3)
    assert set(house.group.state.members) == {"m2"}


def test_a_member_that_revokes_in_time_stays(house: House) -> None:
    house.join("m1")
    house.join("m2")
    house.beat("m1", 2, [0, 1, 2, 3])
    house.host.advance(30_000)
    house.beat("m1", 2, [0, 1])
    house.beat("m2", 3)
    for _ in range(4):
        house.host.advance(30_000)
        house.beat("m1", 3)
        house.beat("m2", 3)
    assert set(house.group.state.members) == {"m1", "m2"}
    assert house.group.state_name == "Stable"


def test_an_unwritable_removal_of_expired_members_is_retried(house: House) -> None:
    house.join("m1")
    house.host.refuses = ErrorCode.NOT_COORDINATOR
    house.host.advance(SESSION_MS)
    assert not house.group.is_empty
    house.host.advance(SESSION_MS)
    assert house.group.is_empty


def test_after_a_restart_every_member_has_a_new_session(house: House) -> None:
    house.join("m1")
    restarted = ConsumerGroup("g", house.host)
    for key, value in house.host.records:
        restarted.state.apply(key, value)
    house.group.removed(ErrorCode.NOT_COORDINATOR)
    restarted.loaded()
    house.group = restarted
    house.host.advance(SESSION_MS - 1)
    house.beat("m1", 2)
    assert house.answers[-1].member_epoch == 2
    house.host.advance(SESSION_MS)
    assert restarted.is_empty


def test_the_states_that_clients_see(house: House) -> None:
    group = house.group
    assert group.state_name == "Empty"
    house.join("m1")
    assert group.state_name == "Stable"
    house.join("m2")
    assert group.state_name == "Reconciling"
    house.beat("m1", -1)
    assert group.state_name == "Assigning"
    house.beat("m2", 3)
    assert group.state_name == "Stable"


def test_a_group_knows_the_topics_it_reads(house: House) -> None:
    house.join("m1")
    house.join("m2", subscribed_topic_names=None, subscribed_topic_regex="b?a")
    assert house.group.is_subscribed_to("a")
    assert not house.group.is_subscribed_to("b")
    assert (house.group.protocol_type, house.group.kind.value) == ("consumer", "consumer")


# -- Offsets and administration -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("member_id", "epoch", "version", "code"),
    [
        ("m1", 2, 9, ErrorCode.NONE),
        ("m1", 1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("m1", 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("m1", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
        ("m2", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_members_may_commit(
    house: House, member_id: str, epoch: int, version: int, code: ErrorCode
) -> None:
    assert house.may_commit("", -1, 0) == 0
    house.join("m1")
    assert house.may_commit(member_id, epoch, 0, version=version) == code


def test_an_older_epoch_will_do_for_partitions_that_the_member_has_had_since(house: House) -> None:
    """KIP-1251: its epoch may have grown without its knowing it yet."""
    stale = ErrorCode.STALE_MEMBER_EPOCH
    house.join("m1")
    house.join("m2")
    assert house.may_commit("m1", 2, 0, 1, 2, 3) == 0, "in its epoch, it may commit all"
    house.beat("m1", 2)
    house.beat("m1", 2, [0, 1])
    house.beat("m2", 3, [])
    assert house.may_commit("m1", 2, 0, 1) == 0
    assert house.may_commit("m1", 2, 0, 2) == stale, "it has not got 2 any more"
    assert house.may_commit("m1", 1, 0) == stale, "it got 0 later"
    assert house.may_commit("m1", 4, 0) == stale
    house.beat("m2", -1)
    house.beat("m1", 3, [0, 1])
    assert house.may_commit("m1", 3, 0, 1) == 0
    assert house.may_commit("m1", 3, 2) == stale, "it got 2 again in epoch 4"
    assert house.may_commit("m1", 4, 2) == 0


@pytest.mark.parametrize("numbers", [([0, 1], [2, 3]), ([2, 3], [0, 1])])
def test_a_member_owns_all_partitions_that_it_names_in_whatever_pieces(
    house: House, numbers: tuple[list[int], list[int]]
) -> None:
    house.join("m1")
    house.join("m2")
    pieces = [TopicPartitions(topic_id=topic_id("a"), partitions=of) for of in numbers]
    house.beat("m1", 2, topic_partitions=pieces)
    assert house.group.state.members["m1"].state == MemberState.UNREVOKED_PARTITIONS
    house.beat("m2", 3, [])
    assert house.numbers(house.answers[-1]) in (None, [])


def test_a_static_member_that_leaves_for_a_while_need_not_revoke(house: House) -> None:
    house.join("m1", instance_id="i", rebalance_timeout_ms=1_000)
    house.join("m2")
    house.beat("m1", 2, instance_id="i")
    house.beat("m1", -2, instance_id="i")
    house.host.advance(SESSION_MS - 1)
    assert "m1" in house.group.state.members, "its session is not over"
    house.host.advance(1)
    assert "m1" not in house.group.state.members


def test_a_member_that_must_revoke_more_gets_its_time_anew(house: House) -> None:
    house.host.topics = FakeTopics(a=4, b=1)
    house.join("m1", subscribed_topic_names=["a", "b"])
    house.join("m2")
    house.beat("m1", 2)
    house.host.advance(REBALANCE_MS // 2)
    house.beat("m1", 2)
    house.beat("m2", 3)
    house.host.advance(REBALANCE_MS // 2 - 1)
    house.beat("m1", 2, subscribed_topic_names=["b"])
    house.beat("m2", 3)
    house.host.advance(REBALANCE_MS // 2)
    assert "m1" in house.group.state.members
    house.beat("m1", 2)
    house.host.advance(REBALANCE_MS // 2)
    assert "m1" not in house.group.state.members


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        ("m1", 2, None),
        ("m1", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("m2", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_offset_fetches_of_members_and_non_members(
    house: House, member_id: str | None, epoch: int, code: ErrorCode | None
) -> None:
    house.join("m1")
    if code is None:
        house.group.check_fetch(member_id, epoch)
    else:
        with pytest.raises(GroupError) as refused:
            house.group.check_fetch(member_id, epoch)
        assert refused.value.code == code


def test_only_an_empty_group_is_deleted(house: House) -> None:
    house.join("m1")
    with pytest.raises(GroupError) as refused:
        house.group.check_delete()
    assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    house.group.check_offset_delete()
    house.beat("m1", -1)
    house.group.check_delete()
    assert all(value is None for _, value in house.group.tombstones())
    assert house.group.expiry().since_ms is None


def test_the_first_write_of_a_group_removes_the_group_it_replaces(house: House) -> None:
    house.group = ConsumerGroup("g", house.host, replaced=[("old", None)])
    house.join("m1")
    house.join("m2")
    assert house.host.records[0] == ("old", None)
    assert house.host.records.count(("old", None)) == 1
