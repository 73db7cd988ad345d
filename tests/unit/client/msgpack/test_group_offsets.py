"""Commits and committed offsets: the meaning of each error, and which requests are retried."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from client.msgpack import backoff
from client.msgpack.group_offsets import CommitError, GroupOffsets
from client.msgpack.membership import MemberSettings, Membership, Partition, State, Subscription
from client.msgpack.positions import Positions
from client.msgpack.transport import Transport
from tests.support.group_peer import TOPIC_ID, GroupPeer
from tests.support.msgpack_peer import MsgpackPeer

ONE, TWO = Partition(TOPIC_ID, 0), Partition(TOPIC_ID, 1)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(backoff, "FIRST_S", 0.001)


@asynccontextmanager
async def offsets(peer, timeout_s=5.0):
    """Yield the offsets of a member in epoch 7 that holds two partitions."""
    membership = Membership(MemberSettings(group_id="g", member_id="m"), Subscription(("t",)), 0)
    membership.state = State.MEMBER
    membership.epoch = 7
    membership.owned = frozenset([ONE, TWO])
    positions = Positions()
    positions.hold(membership.owned)
    positions.move(ONE, 5, 3)
    async with MsgpackPeer(peer) as listener:
        transport = Transport(listener.address, timeout_s)
        yield GroupOffsets(transport, membership, positions, timeout_s), membership, positions
        transport.close()


async def test_a_commit_carries_the_member_and_its_epoch():
    peer = GroupPeer()
    async with offsets(peer) as (group, _, positions):
        await group.commit({ONE: 5, TWO: 6})
        assert positions.uncommitted() == {}
    assert peer.asked("offset_commit") == [
        {
            "group_id": "g",
            "generation_id_or_member_epoch": 7,
            "member_id": "m",
            "group_instance_id": None,
            "topics": [
                {
                    "topic_id": TOPIC_ID,
                    "partitions": [
                        {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 3},
                        {"partition_index": 1, "committed_offset": 6, "committed_leader_epoch": -1},
                    ],
                }
            ],
        }
    ]
    assert peer.committed == {0: 5, 1: 6}


@pytest.mark.parametrize("code", [14, 15, 16, 113])
async def test_a_retriable_error_is_retried_in_the_current_epoch(code):
    peer = GroupPeer()
    peer.codes["offset_commit"] = [code, code]
    async with offsets(peer) as (group, membership, _):
        membership.epoch = 8
        await group.commit({ONE: 5})
    epochs = [body["generation_id_or_member_epoch"] for body in peer.asked("offset_commit")]
    assert epochs == [8, 8, 8]
    assert peer.committed == {0: 5}


@pytest.mark.parametrize(
    ("code", "state", "said"),
    [
        (25, State.FENCED, "UNKNOWN_MEMBER_ID"),
        (110, State.FENCED, "FENCED_MEMBER_EPOCH"),
        (69, State.FENCED, "GROUP_ID_NOT_FOUND"),
        (12, State.MEMBER, "OFFSET_METADATA_TOO_LARGE"),
        (3, State.MEMBER, "UNKNOWN_TOPIC_OR_PARTITION"),
        (100, State.MEMBER, "UNKNOWN_TOPIC_ID"),
        (30, State.MEMBER, "GROUP_AUTHORIZATION_FAILED"),
        (31_999, State.MEMBER, "error 31999"),
    ],
)
async def test_a_permanent_error_is_reported(code, state, said):
    peer = GroupPeer()
    peer.codes["offset_commit"] = [code]
    async with offsets(peer) as (group, membership, positions):
        with pytest.raises(CommitError, match=said):
            await group.commit({ONE: 5})
        assert membership.state is state
        assert positions.uncommitted() == {ONE: 5}
    assert peer.committed == {}


async def test_without_a_membership_nothing_is_committed():
    peer = GroupPeer()
    async with offsets(peer) as (group, membership, _):
        membership.disowned()
        with pytest.raises(CommitError, match="not a member"):
            await group.commit({ONE: 5})
    assert peer.heard == []


async def test_an_unavailable_coordinator_times_out():
    peer = GroupPeer()
    peer.codes["offset_commit"] = [14] * 1000
    async with offsets(peer, timeout_s=0.05) as (group, _, _):
        with pytest.raises(CommitError, match="COORDINATOR_LOAD"):
            await group.commit({ONE: 5})


async def test_a_partition_missing_from_the_answer_is_not_committed():
    async with offsets(lambda _api, _body: {"topics": []}) as (group, _, positions):
        with pytest.raises(CommitError, match="UNKNOWN_SERVER_ERROR"):
            await group.commit({ONE: 5})
        assert positions.uncommitted() == {ONE: 5}


@pytest.mark.parametrize(
    ("code", "state"), [(14, State.MEMBER), (113, State.MEMBER), (25, State.FENCED)]
)
async def test_committed_offsets_are_retried_or_fenced(code, state):
    peer = GroupPeer()
    peer.committed[1] = 9
    peer.codes["offset_fetch"] = [code]
    async with offsets(peer) as (group, membership, _):
        assert await group.fetch([ONE, TWO]) == {}
        assert membership.state is state
        if state is State.MEMBER:
            assert await group.fetch([ONE, TWO]) == {ONE: -1, TWO: 9}
    asked = peer.asked("offset_fetch")[0]
    assert asked["require_stable"] is True
    assert (asked["groups"][0]["member_id"], asked["groups"][0]["member_epoch"]) == ("m", 7)


async def test_refused_committed_offsets_are_an_error():
    peer = GroupPeer()
    peer.codes["offset_fetch"] = [30]
    async with offsets(peer) as (group, _, _):
        with pytest.raises(CommitError, match="GROUP_AUTHORIZATION_FAILED"):
            await group.fetch([ONE])
