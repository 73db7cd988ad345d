"""The group consumer against a scripted group: the order of its actions."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from client.msgpack.fetching import FetchError
from client.msgpack.group_consumer import GroupConsumer, GroupSettings, RebalanceListener
from client.msgpack.membership import GroupRefused
from client.msgpack.transport import TransportError, UnknownPlace
from client.places import Place
from tests.support.group_peer import GroupPeer
from tests.support.msgpack_peer import MsgpackPeer

WAIT_S = 120


def places(*numbers):
    return [Place("t", number) for number in numbers]


class Told(RebalanceListener):
    """Records its callbacks among the requests that the peer gets."""

    def __init__(self, peer):
        self.told = []
        self._peer = peer

    async def on_assigned(self, found):
        self._note("assigned", found)

    async def on_revoked(self, found):
        self._note("revoked", found)

    async def on_lost(self, found):
        self._note("lost", found)

    def _note(self, what, found):
        numbers = [place.partition for place in found]
        self.told.append((what, numbers))
        self._peer.heard.append((what, numbers))


@asynccontextmanager
async def consumer_of(peer, **settings):
    wanted = GroupSettings(**{"group_id": "g", "auto_offset_reset": "earliest", **settings})
    listener = Told(peer)
    async with (
        MsgpackPeer(peer) as served,
        asyncio.timeout(WAIT_S),
        GroupConsumer(served.address, wanted, listener=listener, timeout_s=5) as consumer,
    ):
        consumer.subscribe(["t"])
        yield consumer, listener


async def until(consumer, condition):
    """Poll until `condition` holds; return the records read."""
    found = []
    while not condition():
        found += await consumer.poll(wait_ms=20)
    return found


async def test_it_reads_from_the_committed_offset_or_else_from_the_start():
    peer = GroupPeer([0, 1, 2])
    peer.committed = {1: 1, 2: 2}
    async with consumer_of(peer) as (consumer, listener):
        found = await until(consumer, lambda: len(consumer.positions()) == 3)
        found += await until(consumer, lambda: set(consumer.positions().values()) == {2})
        read = sorted((one.place.partition, one.record.offset) for one in found)
        assert read == [(0, 0), (0, 1), (1, 1)]
        assert listener.told == [("assigned", [0, 1, 2])]
        assert consumer.assignment == places(0, 1, 2)
        assert await consumer.end_offsets() == dict.fromkeys(places(0, 1, 2), 2)
        await consumer.commit()
        assert await consumer.committed(places(0)) == {Place("t", 0): 2}
        await consumer.commit({Place("t", 1): 1})
    assert peer.committed == {0: 2, 1: 1, 2: 2}
    assert peer.asked("consumer_group_heartbeat")[-1]["member_epoch"] == -1


@pytest.mark.parametrize(("reset", "count"), [("earliest", 2), ("latest", 0)])
async def test_without_a_committed_offset_the_reset_decides_the_start(reset, count):
    async with consumer_of(GroupPeer([3]), auto_offset_reset=reset) as (consumer, _):
        found = await until(consumer, lambda: consumer.positions() == {Place("t", 3): 2})
        assert len(found) == count


async def test_the_reset_error_fails_the_poll_until_a_seek():
    peer = GroupPeer([3])
    async with consumer_of(peer, auto_offset_reset="error") as (consumer, _):
        with pytest.raises(FetchError, match=r"t-3 has no position.*reset-offsets"):
            await until(consumer, lambda: False)
        consumer.seek(Place("t", 3), 1)
        (read,) = await until(consumer, lambda: consumer.position(Place("t", 3)) == 2)
        assert read.record.offset == 1


async def test_a_position_outside_the_log_is_reset():
    peer = GroupPeer([0])
    peer.committed = {0: 50}
    peer.codes["fetch"] = [1]
    async with consumer_of(peer) as (consumer, _):
        found = await until(consumer, lambda: consumer.positions() == {Place("t", 0): 2})
        assert [one.record.offset for one in found] == [0, 1]


async def test_a_revoked_partition_is_committed_reported_and_only_then_released():
    peer = GroupPeer([0, 1])
    async with consumer_of(peer, auto_commit_ms=3_600_000) as (consumer, listener):
        await until(consumer, lambda: set(consumer.positions().values()) == {2})
        peer.target, peer.epoch = [1, 2], 2
        peer.heard.clear()
        await until(consumer, lambda: consumer.assignment == places(1, 2))
        assert listener.told[1:] == [("revoked", [0]), ("assigned", [2])]
        await until(consumer, lambda: any("topic_partitions" in b for _, b in beats(peer)))
        commit, revoked = index(peer, "offset_commit"), index(peer, "revoked")
        told = next(n for n, body in beats(peer) if "topic_partitions" in body)
        assert commit < revoked < told
        assert peer.heard[commit][1]["topics"][0]["partitions"][0]["partition_index"] == 0
    assert peer.committed == {0: 2, 1: 2, 2: 2}  # it committed the others when it left


def beats(peer):
    return [
        (n, body) for n, (api, body) in enumerate(peer.heard) if api == "consumer_group_heartbeat"
    ]


def index(peer, what):
    return next(n for n, (api, _) in enumerate(peer.heard) if api == what)


@pytest.mark.parametrize("code", [25, 110])
async def test_a_fenced_consumer_reports_the_loss_commits_nothing_and_rejoins(code):
    peer = GroupPeer([0, 1])
    async with consumer_of(peer, auto_commit_ms=3_600_000) as (consumer, listener):
        await until(consumer, lambda: set(consumer.positions().values()) == {2})
        peer.codes["consumer_group_heartbeat"] = [code]
        found = await until(consumer, lambda: len(listener.told) == 3)
        found += await until(consumer, lambda: set(consumer.positions().values()) == {2})
        assert listener.told[1:] == [("lost", [0, 1]), ("assigned", [0, 1])]
        assert peer.asked("offset_commit") == []
        assert len(found) == 4  # read again, as nothing was committed


async def test_records_fetched_while_it_was_fenced_are_not_returned():
    peer = GroupPeer([0])

    class Fencing(GroupPeer):
        def _fetch(self, body, code):
            consumer.membership.disowned()
            return super()._fetch(body, code)

    peer = Fencing([0])
    async with consumer_of(peer) as (consumer, listener):
        await until(consumer, lambda: ("assigned", [0]) in listener.told)
        for _ in range(5):
            assert await consumer.poll(wait_ms=20) == []
        assert ("lost", [0]) in listener.told


async def test_paused_partitions_stay_assigned_and_are_not_read():
    peer = GroupPeer([0, 1])
    async with consumer_of(peer) as (consumer, _):

        class Pausing(Told):
            async def on_assigned(self, found):
                consumer.pause(Place("t", 0))

        consumer._listener = Pausing(peer)
        found = await until(
            consumer, lambda: consumer.positions() and consumer.position(Place("t", 1)) == 2
        )
        found += await consumer.poll(wait_ms=20)
        assert {one.place.partition for one in found} == {1}
        consumer.resume(Place("t", 0))
        found = await until(consumer, lambda: consumer.position(Place("t", 0)) == 2)
        assert len(found) == 2
        with pytest.raises(UnknownPlace, match="t-3 is not assigned"):
            consumer.pause(Place("t", 3))


async def test_a_missing_coordinator_is_retried():
    peer = GroupPeer([0])
    peer.codes["consumer_group_heartbeat"] = [16, 15]
    async with consumer_of(peer) as (consumer, _):
        await until(consumer, lambda: consumer.assignment)
    assert peer.asked("find_coordinator") == [{"key_type": 0, "coordinator_keys": ["g"]}] * 2


async def test_a_lost_connection_is_reopened_and_nothing_is_lost():
    peer = GroupPeer([0])
    peer.codes = {"consumer_group_heartbeat": [0, None], "fetch": [None]}
    async with consumer_of(peer) as (consumer, listener):
        with pytest.raises(TransportError):
            await until(consumer, lambda: False)
        found = await until(consumer, lambda: consumer.positions() == {Place("t", 0): 2})
        assert len(found) == 2
        await until(consumer, lambda: len(beats(peer)) > 3)
        assert listener.told == [("assigned", [0])]


async def test_a_group_that_rejects_the_member_fails_the_poll():
    peer = GroupPeer([0])
    peer.codes["consumer_group_heartbeat"] = [81]
    async with consumer_of(peer) as (consumer, _):
        with pytest.raises(GroupRefused, match="GROUP_MAX_SIZE_REACHED"):
            await until(consumer, lambda: False)


async def test_a_topic_is_taken_once_its_name_is_known():
    peer = GroupPeer([0])
    peer.codes["metadata"] = [100]
    async with consumer_of(peer) as (consumer, listener):
        await until(consumer, lambda: consumer.assignment)
        assert listener.told == [("assigned", [0])]


async def test_an_error_of_a_partition_comes_after_the_records_of_the_others():
    peer = GroupPeer([0])
    peer.codes["fetch"] = [29, 100]
    async with consumer_of(peer) as (consumer, _):
        with pytest.raises(FetchError, match="t-0: TOPIC_AUTH"):
            await until(consumer, lambda: False)
        assert len(await until(consumer, lambda: consumer.position(Place("t", 0)) == 2)) == 2


async def test_a_failed_automatic_commit_is_kept_and_an_explicit_one_is_raised():
    peer = GroupPeer([0])
    async with consumer_of(peer, auto_commit_ms=1) as (consumer, _):
        peer.codes["offset_commit"] = [12]
        await until(consumer, lambda: consumer.commit_failure is not None)
        assert "OFFSET_METADATA_TOO_LARGE" in str(consumer.commit_failure)
        await until(consumer, lambda: peer.committed == {0: 2})


async def test_an_exit_by_an_error_commits_nothing():
    peer = GroupPeer([0])

    async def fail_after_reading():
        async with consumer_of(peer, auto_commit_ms=3_600_000) as (consumer, _):
            await until(consumer, lambda: consumer.positions() == {Place("t", 0): 2})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_after_reading()
    assert peer.committed == {}
    assert ("revoked", [0]) in peer.heard
    assert peer.asked("consumer_group_heartbeat")[-1]["member_epoch"] == -1


async def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="earliest, latest, error"):
        GroupSettings(group_id="g", auto_offset_reset="none")
    consumer = GroupConsumer("127.0.0.1:1", GroupSettings(group_id="g"))
    for wanted in ({}, {"topics": ["a"], "regex": "b"}):
        with pytest.raises(ValueError, match="not both"):
            consumer.subscribe(**wanted)
    with pytest.raises(RuntimeError, match="subscribe"):
        await consumer.poll()
