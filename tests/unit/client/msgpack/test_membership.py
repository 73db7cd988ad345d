"""A member, answer by answer: its heartbeats, revocations, assignments, and when it is fenced."""

from __future__ import annotations

import pytest

from client.msgpack.membership import MemberSettings, Membership, Partition, State, Subscription
from protocol.errors import ErrorCode

A, B = b"a" * 16, b"b" * 16
NAMED = {A, B}
INTERVAL_MS = 5_000


def held(*numbers, topic_id=A):
    return frozenset(Partition(topic_id, number) for number in numbers)


def answer(epoch=1, numbers=None, code=0, topic_id=A):
    """Return a broker's answer; `numbers` are the assigned partitions, None for no change."""
    assignment = None
    if numbers is not None:
        topics = [{"topic_id": topic_id, "partitions": list(numbers)}] if numbers else []
        assignment = {"topic_partitions": topics}
    return {
        "error_code": code,
        "error_message": None,
        "member_epoch": epoch,
        "heartbeat_interval_ms": INTERVAL_MS,
        "assignment": assignment,
    }


class Member(Membership):
    """A membership whose clock the test sets."""

    def __init__(self, **settings):
        super().__init__(
            MemberSettings(group_id="g", member_id="m", **settings), Subscription(("t",)), 0
        )
        self.now_ms = 0.0

    def say(self):
        return self.request(self.now_ms)

    def hear(self, *arguments, **more):
        """Send the due heartbeat, answer it with `answer(...)`, and return its body."""
        due_ms = self.due_ms()
        assert due_ms is not None, "no heartbeat is due"
        self.now_ms = max(self.now_ms, due_ms)
        asked = self.say()
        self.answered(answer(*arguments, **more), self.now_ms)
        return asked

    def follow(self):
        """Revoke and take partitions as the target assignment demands."""
        change = self.change(NAMED)
        if change is not None:
            self.give_up(change.revoked, self.now_ms)
            self.take(change.assigned, self.now_ms)
        return change

    @classmethod
    def holding(cls, *numbers, **settings):
        """Return a member in epoch 1 that has reported the partitions it holds."""
        member = cls(**settings)
        member.hear(1, numbers)
        member.follow()
        member.hear(1)
        return member


def test_joining_sends_all_fields_and_later_heartbeats_only_the_epoch():
    member = Member(assignor="range", instance_id="i")
    assert member.say() == {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "instance_id": "i",
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": "",
        "rebalance_timeout_ms": 300_000,
        "server_assignor": "range",
        "topic_partitions": [],
    }
    assert member.say() is None
    assert member.due_ms() is None  # one heartbeat at a time
    member.answered(answer(3), 10)
    assert (member.state, member.epoch, member.due_ms()) == (State.MEMBER, 3, 10 + INTERVAL_MS)
    assert member.request(10 + INTERVAL_MS - 1) is None
    assert member.request(10 + INTERVAL_MS) == {
        "group_id": "g", "member_id": "m", "member_epoch": 3, "instance_id": "i",
    }  # fmt: skip


def test_a_member_revokes_before_it_takes_and_reports_both_at_once():
    member = Member.holding(0, 1)
    assert member.is_settled
    member.hear(2, [1, 2])
    assert not member.is_settled
    assert member.change(NAMED) == (held(0), held(2))
    member.give_up(held(0), member.now_ms)
    assert member.owned == held(1)
    member.take(held(2), member.now_ms)
    assert member.due_ms() == member.now_ms
    asked = member.hear(2)
    assert asked["topic_partitions"] == [{"topic_id": A, "partitions": [1, 2]}]
    assert asked["member_epoch"] == 2
    assert "subscribed_topic_names" not in asked
    assert member.is_settled
    assert member.change(NAMED) is None


def test_a_newer_target_replaces_an_unreached_one():
    member = Member.holding(0, 1)
    member.hear(2, [1])
    member.hear(3, [0])
    assert member.change(NAMED) == (held(1), frozenset())


def test_a_target_withdrawn_before_it_was_reached_is_acknowledged():
    """Otherwise the broker would wait for the acknowledgement until the rebalance timeout."""
    member = Member.holding(0)
    member.hear(2, [0, 1])
    member.hear(3, [0])
    assert member.change(NAMED) is None
    assert member.due_ms() == member.now_ms
    assert member.hear(3)["topic_partitions"] == [{"topic_id": A, "partitions": [0]}]
    assert member.due_ms() == member.now_ms + INTERVAL_MS


def test_a_partition_reported_as_revoked_is_not_taken_before_the_answer():
    """The answer may withdraw the partition, and may be lost."""
    member = Member.holding(0)
    member.hear(2, [0, 1])
    for _ in range(2):
        member.now_ms = member.due_ms()
        member.say()
        member.unanswered(member.now_ms)
    assert member.change(NAMED) is None
    member.take(held(1), member.now_ms)
    assert member.owned == held(0)
    member.hear(2, [0, 1])
    assert member.change(NAMED) == (frozenset(), held(1))


def test_a_topic_without_a_known_name_is_not_taken():
    member = Member()
    member.hear(1, [0], topic_id=B)
    assert member.change({A}) is None
    assert not member.is_settled
    assert member.change({A, B}) == (frozenset(), held(0, topic_id=B))


def test_a_new_subscription_is_sent_at_once_even_while_an_answer_is_awaited():
    member = Member.holding(0)
    member.subscribe(Subscription(regex="t.*"), member.now_ms)
    asked = member.say()
    assert (asked["subscribed_topic_names"], asked["subscribed_topic_regex"]) == ([], "t.*")
    member.subscribe(Subscription(("u",)), member.now_ms)
    member.answered(answer(1), member.now_ms)
    assert member.due_ms() == member.now_ms
    assert member.hear(2)["subscribed_topic_names"] == ["u"]
    member.subscribe(Subscription(("u",)), member.now_ms)  # unchanged
    assert member.due_ms() == member.now_ms + INTERVAL_MS


@pytest.mark.parametrize("code", [14, 15, 16])
def test_an_unavailable_coordinator_is_retried_with_backoff_and_sent_all_fields(code):
    member = Member.holding(0)
    waits = []
    for _ in range(6):
        asked = member.hear(code=code)
        waits.append(member.due_ms() - member.now_ms)
    assert waits == [100, 200, 400, 800, 1000, 1000]
    assert member.seeks_coordinator is (code != 14)
    assert asked["member_epoch"] == 1
    assert asked["topic_partitions"] == [{"topic_id": A, "partitions": [0]}]
    assert asked["subscribed_topic_names"] == ["t"]
    assert member.is_member
    member.hear(1)
    assert member.due_ms() == member.now_ms + INTERVAL_MS


def test_a_lost_answer_keeps_the_partitions_and_resends_all_fields():
    member = Member.holding(0, 1)
    member.now_ms = member.due_ms()
    member.say()
    member.unanswered(member.now_ms)
    assert member.is_member
    asked = member.hear(2, [0])  # the epoch of the lost answer
    assert asked["member_epoch"] == 1
    assert asked["topic_partitions"] == [{"topic_id": A, "partitions": [0, 1]}]
    assert member.follow() == (held(1), frozenset())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)
def test_a_fenced_member_loses_all_partitions_and_rejoins(code):
    member = Member.holding(0, 1)
    member.hear(code=code)
    assert member.state is State.FENCED
    assert not member.is_member
    assert member.change(NAMED) is None
    assert member.due_ms() is None  # not before the caller has taken the loss
    assert member.take_loss() == held(0, 1)
    assert member.take_loss() == frozenset()
    assert member.due_ms() > member.now_ms
    asked = member.hear(7, [1])
    assert (asked["member_epoch"], asked["topic_partitions"]) == (0, [])
    assert asked["member_id"] == "m"
    assert member.follow() == (frozenset(), held(1))


def test_a_fenced_member_without_partitions_rejoins_by_itself():
    member = Member()
    member.hear(1, [])
    member.hear(code=ErrorCode.FENCED_MEMBER_EPOCH)
    assert member.hear(2, [])["member_epoch"] == 0


def test_a_commit_that_fences_the_member_outdates_the_pending_answer():
    member = Member.holding(0)
    member.now_ms = member.due_ms()
    member.say()
    member.disowned()
    assert member.state is State.FENCED
    member.answered(answer(1), member.now_ms)
    assert member.state is State.FENCED
    assert member.take_loss() == held(0)
    member.disowned()
    assert member.state is State.JOINING


def test_a_revocation_while_fenced_is_no_loss_and_nothing_is_taken():
    member = Member.holding(0, 1)
    member.hear(2, [1, 2])
    change = member.change(NAMED)
    member.disowned()
    member.give_up(change.revoked, member.now_ms)
    member.take(change.assigned, member.now_ms)
    assert member.take_loss() == held(1)


@pytest.mark.parametrize(
    ("code", "was_member"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, False),
        (ErrorCode.INVALID_REQUEST, False),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, True),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, False),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, False),
        (ErrorCode.FENCED_INSTANCE_ID, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, True),
        (31_999, True),
    ],
)
def test_a_permanent_refusal_ends_the_membership(code, was_member):
    member = Member.holding(0) if was_member else Member()
    member.hear(code=code)
    assert member.state is State.FAILED
    assert "group 'g': " in str(member.error)
    assert str(int(code)) in str(member.error)
    assert member.due_ms() is None
    assert member.take_loss() == (held(0) if was_member else frozenset())
    assert member.leave() is None


def test_a_member_waits_for_an_instance_id_in_use_but_not_forever():
    member = Member(instance_id="i", unreleased_ms=5_000)
    began_ms = member.now_ms
    while member.state is State.JOINING:
        member.hear(code=ErrorCode.UNRELEASED_INSTANCE_ID)
    assert member.state is State.FAILED
    assert 5_000 <= member.now_ms - began_ms <= 6_000
    released = Member(instance_id="i", unreleased_ms=5_000)
    released.hear(code=ErrorCode.UNRELEASED_INSTANCE_ID)
    released.hear(1, [0])
    assert released.is_member


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_consumer_that_does_not_poll_leaves_until_it_polls(instance_id, epoch):
    member = Member.holding(0, instance_id=instance_id, rebalance_ms=8_000)
    member.hear(1)
    assert member.due_ms() == 8_000
    member.now_ms = 8_000
    assert member.say()["member_epoch"] == epoch
    assert not member.is_member
    member.answered(answer(epoch), member.now_ms)
    assert member.state is State.FENCED
    assert member.due_ms() is None
    member.polled(member.now_ms)
    assert member.take_loss() == held(0)
    assert member.hear(2, [])["member_epoch"] == 0


def test_the_answer_to_a_leave_is_not_taken_for_the_answer_to_a_join():
    member = Member.holding(0, rebalance_ms=1_000)
    member.now_ms = 1_000
    member.say()
    member.take_loss()  # the consumer polls again before the answer
    member.answered(answer(-1), member.now_ms)
    assert (member.state, member.epoch) == (State.JOINING, 0)
    assert member.hear(4, [])["member_epoch"] == 0


def test_a_partition_is_held_until_it_is_revoked():
    member = Member.holding(0, 1)
    member.hear(2, [0])
    member.now_ms = member.due_ms()
    member.say()
    member.unanswered(member.now_ms)
    assert member.hear(2, [0])["topic_partitions"] == [{"topic_id": A, "partitions": [0, 1]}]


def test_a_member_without_partitions_waits_for_a_poll_too():
    member = Member(rebalance_ms=1_000)
    member.hear(1, [])
    member.now_ms = 1_000
    member.say()
    member.answered(answer(-1), member.now_ms)
    assert member.due_ms() is None


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_leave_is_the_last_heartbeat(instance_id, epoch):
    member = Member.holding(0, instance_id=instance_id)
    assert member.leave()["member_epoch"] == epoch
    assert (member.state, member.owned, member.due_ms()) == (State.LEFT, frozenset(), None)
    member.answered(answer(5, [1]), member.now_ms)
    assert member.state is State.LEFT
    assert Member().leave() is None  # the broker does not know it
    joining = Member()
    joining.say()
    joining.unanswered(0)
    assert joining.leave() is not None  # the broker may know it
