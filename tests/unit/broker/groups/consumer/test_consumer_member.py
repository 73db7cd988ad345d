"""A member is an immutable value; a new one owns nothing."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from protocol.group_records import MemberState


def test_a_new_member_owns_nothing_and_has_no_assignment() -> None:
    member = ConsumerGroupMember(member_id="m")
    assert (member.member_epoch, member.state) == (0, MemberState.STABLE)
    assert member.assigned == member.pending_revocation == {}


def test_partitions_to_revoke_are_held_too() -> None:
    member = ConsumerGroupMember(
        member_id="m", assigned={b"a": {0: 3}}, pending_revocation={b"a": {1: 2}, b"b": {0: 1}}
    )
    assert [member.held_since(b"a", number) for number in (0, 1, 2)] == [3, 2, None]
    assert (member.held_since(b"b", 0), member.held_since(b"c", 0)) == (1, None)


def test_a_change_makes_a_new_value() -> None:
    member = ConsumerGroupMember(member_id="m")
    with pytest.raises(FrozenInstanceError):
        member.member_epoch = 1  # type: ignore[misc]
    assert replace(member, member_epoch=1) != member
