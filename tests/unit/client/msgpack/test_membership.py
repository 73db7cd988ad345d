"""A member, answer by answer: what it says, gives up and takes, and when it is lost."""

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
    """A broker's answer; `numbers` are the partitions to hold, None for no news."""
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
    """A membership whose clock is the test's."""

    def __init__(self, **settings):
        super().__init__(
            MemberSettings(group_id="g", member_id="m", **settings), Subscription(("t",)), 0
        )
        self.now_ms = 0.0

    def say(self):
        return self.request(self.now_ms)

    def hear(self, *arguments, **more):
        """Let what is due be asked, and answered so; return what was asked."""
        due_ms = self.due_ms()
        assert due_ms is not None, "it has nothing to say"
        self.now_ms = max(self.now_ms, due_ms)
        asked = self.say()
        self.answered(answer(*arguments, **more), self.now_ms)
        return asked

    def follow(self):
        """Give up and take what the target asks for."""
        change = self.change(NAMED)
        if change is not None:
            self.give_up(change.revoked, self.now_ms)
            self.take(change.assigned, self.now_ms)
        return change

    @classmethod
    def holding(cls, *numbers, **settings):
        """A member in epoch 1 that has told what it holds."""
        member = cls(**settings)
        member.hear(1, numbers)
        member.follow()
        member.hear(1)
        return member


def test_joining_tells_everything_and_what_follows_only_that_it_is_here():
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
    assert member.due_ms() is None  # one at a time
    member.answered(answer(3), 10)
    assert (member.state, member.epoch, member.due_ms()) == (State.MEMBER, 3, 10 + INTERVAL_MS)
    assert member.request(10 + INTERVAL_MS - 1) is None
    assert member.request(10 + INTERVAL_MS) == {
        "group_id": "g", "member_id": "m", "member_epoch": 3, "instance_id": "i",
    }  # fmt: skip


def test_it_gives_up_before_it_takes_and_tells_both_at_once():
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


def test_a_newer_target_takes_the_place_of_one_that_was_not_reached():
    member = Member.holding(0, 1)
    member.hear(2, [1])
    member.hear(3, [0])
    assert member.change(NAMED) == (held(1), frozenset())


def test_a_target_taken_back_before_it_was_reached_is_acknowledged():
    """Else the broker would wait, for as long as a rebalance may take, to hear of the rest."""
    member = Member.holding(0)
    member.hear(2, [0, 1])
    member.hear(3, [0])
    assert member.change(NAMED) is None
    assert member.due_ms() == member.now_ms
    assert member.hear(3)["topic_partitions"] == [{"topic_id": A, "partitions": [0]}]
    assert member.due_ms() == member.now_ms + INTERVAL_MS


def test_what_was_told_not_to_be_held_is_not_taken_before_the_answer():
    """Its answer may take it back, and may be lost."""
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


def test_what_has_no_name_yet_is_not_taken():
    member = Member()
    member.hear(1, [0], topic_id=B)
    assert member.change({A}) is None
    assert not member.is_settled
    assert member.change({A, B}) == (frozenset(), held(0, topic_id=B))


def test_another_subscription_is_told_at_once_also_while_an_answer_is_awaited():
    member = Member.holding(0)
    member.subscribe(Subscription(regex="t.*"), member.now_ms)
    asked = member.say()
    assert (asked["subscribed_topic_names"], asked["subscribed_topic_regex"]) == ([], "t.*")
    member.subscribe(Subscription(("u",)), member.now_ms)
    member.answered(answer(1), member.now_ms)
    assert member.due_ms() == member.now_ms
    assert member.hear(2)["subscribed_topic_names"] == ["u"]
    member.subscribe(Subscription(("u",)), member.now_ms)  # no news
    assert member.due_ms() == member.now_ms + INTERVAL_MS


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_is_away_is_asked_again_ever_later_and_told_everything(code):
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


def test_a_lost_answer_leaves_what_is_held_and_tells_everything_again():
    member = Member.holding(0, 1)
    member.now_ms = member.due_ms()
    member.say()
    member.unanswered(member.now_ms)
    assert member.is_member
    asked = member.hear(2, [0])  # of the epoch that the lost answer brought
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
def test_who_is_known_no_more_loses_all_and_joins_from_scratch(code):
    member = Member.holding(0, 1)
    member.hear(code=code)
    assert member.state is State.FENCED
    assert not member.is_member
    assert member.change(NAMED) is None
    assert member.due_ms() is None  # not before the loss is taken note of
    assert member.take_loss() == held(0, 1)
    assert member.take_loss() == frozenset()
    assert member.due_ms() > member.now_ms
    asked = member.hear(7, [1])
    assert (asked["member_epoch"], asked["topic_partitions"]) == (0, [])
    assert asked["member_id"] == "m"
    assert member.follow() == (frozenset(), held(1))


def test_who_held_nothing_joins_again_by_itself():
    member = Member()
    member.hear(1, [])
    member.hear(code=ErrorCode.FENCED_MEMBER_EPOCH)
    assert member.hear(2, [])["member_epoch"] == 0


def test_what_a_commit_learns_counts_and_the_answer_on_its_way_does_not():
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


def test_giving_up_while_fenced_is_no_loss_and_nothing_is_taken():
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
def test_a_refusal_for_good_ends_it(code, was_member):
    member = Member.holding(0) if was_member else Member()
    member.hear(code=code)
    assert member.state is State.FAILED
    assert "group 'g': " in str(member.error)
    assert str(int(code)) in str(member.error)
    assert member.due_ms() is None
    assert member.take_loss() == (held(0) if was_member else frozenset())
    assert member.leave() is None


def test_an_instance_id_held_by_another_is_waited_for_and_not_for_ever():
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
def test_a_reader_that_does_not_poll_leaves_until_it_does(instance_id, epoch):
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


def test_the_answer_to_a_farewell_is_not_taken_for_that_to_a_join():
    member = Member.holding(0, rebalance_ms=1_000)
    member.now_ms = 1_000
    member.say()
    member.take_loss()  # polled again, before the answer
    member.answered(answer(-1), member.now_ms)
    assert (member.state, member.epoch) == (State.JOINING, 0)
    assert member.hear(4, [])["member_epoch"] == 0


def test_what_is_to_be_given_up_is_held_until_it_is():
    member = Member.holding(0, 1)
    member.hear(2, [0])
    member.now_ms = member.due_ms()
    member.say()
    member.unanswered(member.now_ms)
    assert member.hear(2, [0])["topic_partitions"] == [{"topic_id": A, "partitions": [0, 1]}]


def test_one_that_held_nothing_waits_for_a_poll_as_well():
    member = Member(rebalance_ms=1_000)
    member.hear(1, [])
    member.now_ms = 1_000
    member.say()
    member.answered(answer(-1), member.now_ms)
    assert member.due_ms() is None


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_leaving_is_the_last_word(instance_id, epoch):
    member = Member.holding(0, instance_id=instance_id)
    assert member.leave()["member_epoch"] == epoch
    assert (member.state, member.owned, member.due_ms()) == (State.LEFT, frozenset(), None)
    member.answered(answer(5, [1]), member.now_ms)
    assert member.state is State.LEFT
    assert Member().leave() is None  # nobody knows of it
    joining = Member()
    joining.say()
    joining.unanswered(0)
    assert joining.leave() is not None  # the broker may
