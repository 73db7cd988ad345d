"""The heartbeat task: what it sends, when, and how it ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from client.msgpack.heartbeats import Heartbeats
from client.msgpack.membership import GroupRefused, MemberSettings, Membership, State, Subscription
from client.msgpack.transport import Transport, now_ms
from tests.support.group_peer import GroupPeer
from tests.support.msgpack_peer import MsgpackPeer

API = "consumer_group_heartbeat"


@asynccontextmanager
async def beating(peer):
    settings = MemberSettings(group_id="g", member_id="m", retry_ms=10, retry_ms_max=20)
    membership = Membership(settings, Subscription(("t",)), now_ms())
    async with MsgpackPeer(peer) as served, asyncio.timeout(60):
        transport = Transport(served.address, 5)
        heartbeats = Heartbeats(transport, membership)
        membership.polled(now_ms())
        heartbeats.start()
        try:
            yield heartbeats, membership
        finally:
            heartbeats.stop()
            transport.close()


async def test_the_task_joins_and_reports_an_answer_as_news():
    async with beating(GroupPeer([0])) as (heartbeats, membership):
        heartbeats.expect_news()
        await heartbeats.wait_for_news(60)
        assert membership.is_member
        heartbeats.check()


async def test_a_change_is_sent_at_once_when_the_task_is_woken():
    peer = GroupPeer([0])
    peer.interval_ms = 3_600_000
    async with beating(peer) as (heartbeats, membership):
        while not membership.is_member:
            await asyncio.sleep(0.001)
        membership.subscribe(Subscription(("u",)), now_ms())
        heartbeats.expect_news()
        heartbeats.wake()
        await heartbeats.wait_for_news(60)
        told = [body.get("subscribed_topic_names") for body in peer.asked(API)]
        assert told[-1] == ["u"]


async def test_the_error_of_a_failed_heartbeat_is_kept_until_one_succeeds():
    peer = GroupPeer([0])
    peer.codes[API] = [None, None]
    async with beating(peer) as (heartbeats, membership):
        while heartbeats.failure is None:
            await asyncio.sleep(0.001)
        assert "did not answer" in str(heartbeats.failure)
        while not membership.is_member:
            await asyncio.sleep(0.001)
        assert heartbeats.failure is None


async def test_a_refusal_ends_the_task():
    peer = GroupPeer([0])
    peer.codes[API] = [81]
    async with beating(peer) as (heartbeats, membership):
        while membership.state is not State.FAILED:
            await asyncio.sleep(0.001)
        with pytest.raises(GroupRefused, match="GROUP_MAX_SIZE_REACHED"):
            heartbeats.check()
        assert len(peer.asked(API)) == 1


async def test_there_is_nothing_to_check_before_the_start():
    membership = Membership(MemberSettings(group_id="g", member_id="m"), Subscription(), 0)
    heartbeats = Heartbeats(Transport("127.0.0.1:1", 1), membership)
    assert not heartbeats.have_begun
    heartbeats.stop()
    with pytest.raises(RuntimeError, match="subscribe"):
        heartbeats.check()
    await heartbeats.wait_for_news(0)
