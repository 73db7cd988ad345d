"""A member is a value: what it is made of, and what a new one has."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from protocol.group_records import MemberState


def test_a_new_member_has_nothing_and_follows_nothing() -> None:
    member = ConsumerGroupMember(member_id="m")
    assert (member.member_epoch, member.state) == (0, MemberState.STABLE)
    assert member.assigned == member.pending_revocation == {}


def test_a_change_is_a_new_member() -> None:
    member = ConsumerGroupMember(member_id="m")
    with pytest.raises(FrozenInstanceError):
        member.member_epoch = 1  # type: ignore[misc]
    assert replace(member, member_epoch=1) != member
