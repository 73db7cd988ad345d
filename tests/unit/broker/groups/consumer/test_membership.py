"""A draft becomes the state once it is written; targets that are computed late still apply."""

from __future__ import annotations

import pytest

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.deadlines import Deadlines
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.membership import Membership
from broker.groups.consumer.state import ConsumerState
from broker.groups.errors import GroupError
from protocol.errors import ErrorCode
from protocol.group_records import MemberState
from tests.support.fake_topics import FakeTopics, topic_id
from tests.support.group_host import FakeHost

A = topic_id("a")


@pytest.fixture
def host() -> FakeHost:
    made = FakeHost()
    made.topics = FakeTopics(a=2)
    return made


def membership(host: FakeHost) -> Membership:
    deadlines = Deadlines(host.clock, host.alarm(lambda _: 1 << 63))
    return Membership(ConsumerState("g"), host, deadlines, [("old", None)])


def with_member(of: Membership, epoch: int = 2) -> Draft:
    draft = Draft(of.state)
    draft.put_epoch(epoch, 7)
    draft.put_member(ConsumerGroupMember(member_id="m1", topic_names=frozenset({"a"})))
    return draft


def test_a_failed_write_changes_nothing(host: FakeHost) -> None:
    made = membership(host)
    before = made.state
    host.refuses = ErrorCode.NOT_COORDINATOR
    with pytest.raises(GroupError):
        made.write(with_member(made), None)
    assert made.state is before
    assert made.group_state == "Empty"


def test_the_first_write_removes_the_replaced_group(host: FakeHost) -> None:
    made = membership(host)
    codes: list[ErrorCode] = []
    draft = with_member(made)
    made.write(draft, codes.append)
    assert host.records == [("old", None), *draft.records]
    assert (made.state, made.group_state, codes) == (draft.state, "Assigning", [ErrorCode.NONE])
    made.write(with_member(made, epoch=3), None)
    assert host.records.count(("old", None)) == 1


def test_an_answer_without_a_record_waits_for_earlier_records(host: FakeHost) -> None:
    made = membership(host)
    host.holds = True
    codes: list[ErrorCode] = []
    made.write(with_member(made), None)
    made.write(Draft(made.state), codes.append)
    assert codes == []
    host.flush(ErrorCode.NOT_COORDINATOR)
    assert codes == [ErrorCode.NOT_COORDINATOR]


def test_targets_are_computed_in_the_pool_and_not_after_the_group_ended(host: FakeHost) -> None:
    made = membership(host)
    made.write(with_member(made), None)
    made.find_targets()
    made.find_targets()
    assert (len(host.computing), made.reachable_epoch) == (1, 1)
    host.computing.pop()()
    assert made.state.targets == {"m1": {A: frozenset({0, 1})}}
    assert (made.reachable_epoch, made.group_state) == (2, "Reconciling")
    made.write(with_member(made, epoch=3), None)
    made.find_targets()
    made.end()
    host.records.clear()
    host.computing.pop()()
    assert (host.records, made.group_state) == ([], "Dead")


def test_a_member_that_must_revoke_has_its_rebalance_timeout(host: FakeHost) -> None:
    made = membership(host)
    draft = with_member(made)
    draft.put_current(
        ConsumerGroupMember(member_id="m1", member_epoch=2, state=MemberState.UNREVOKED_PARTITIONS)
    )
    made.write(draft, None)
    made.renew_session("m1")
    assert made.deadlines.missed(1 << 62) == (["m1"], ["m1"])
    draft = Draft(made.state)
    draft.remove_member("m1")
    made.write(draft, None)
    assert made.deadlines.missed(1 << 62) == ([], [])
