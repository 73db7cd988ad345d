"""A member's reader: where it starts, and which errors it keeps."""

from __future__ import annotations

import pytest

from client.msgpack.fetching import FetchError
from client.msgpack.group_offsets import GroupOffsets
from client.msgpack.group_reader import GroupReader
from client.msgpack.membership import MemberSettings, Membership, Partition, State, Subscription
from client.msgpack.positions import Positions
from client.msgpack.topic_names import TopicNames
from client.msgpack.transport import TransportError
from client.places import Place
from tests.support.group_peer import TOPIC_ID, GroupPeer


class Called:
    """A transport that calls its peer directly."""

    def __init__(self, peer):
        self._peer = peer

    async def call(self, api, body, *, wait_ms=0):
        return self._peer(api, body)


async def reader_of(peer, *numbers, reset="earliest", isolation=0):
    membership = Membership(MemberSettings(group_id="g", member_id="m"), Subscription(), 0)
    membership.state = State.MEMBER
    transport, positions = Called(peer), Positions()
    positions.hold(Partition(TOPIC_ID, number) for number in numbers)
    names = TopicNames(transport)
    await names.learn({TOPIC_ID})
    offsets = GroupOffsets(transport, membership, positions, 5)
    reader = GroupReader(transport, membership, positions, offsets, names, reset, isolation)
    return reader, positions


def at(positions):
    return {one.number: offset for one, offset in positions.offsets().items()}


async def test_reading_starts_at_the_committed_offset_or_else_by_the_reset():
    peer = GroupPeer()
    peer.committed = {1: 1}
    reader, positions = await reader_of(peer, 0, 1)
    assert await reader.read(10) is None, "no partition has a position yet"
    await reader.find_positions()
    assert at(positions) == {0: 0, 1: 1}
    found = await reader.read(10)
    assert sorted((one.place, one.record.offset) for one in found) == [
        (Place("t", 0), 0), (Place("t", 0), 1), (Place("t", 1), 1),
    ]  # fmt: skip
    assert at(positions) == {0: 2, 1: 2}
    assert await reader.end_offsets() == {Place("t", 0): 2, Place("t", 1): 2}


async def test_without_a_reset_a_partition_without_a_committed_offset_is_an_error():
    reader, _ = await reader_of(GroupPeer(), 0, reset="error")
    with pytest.raises(FetchError, match="auto_offset_reset is error") as error:
        await reader.find_positions()
    assert not error.value.retriable


@pytest.mark.parametrize(("code", "trouble"), [(29, "t-0: TOPIC_AUTH"), (100, None)])
async def test_a_retriable_error_waits_for_the_group_and_any_other_is_kept(code, trouble):
    peer = GroupPeer()
    reader, _ = await reader_of(peer, 0)
    await reader.find_positions()
    peer.codes["fetch"] = [code]
    found = await reader.read(10)
    if trouble is None:
        assert (found, reader.trouble) == (None, None)
    else:
        assert found == []
        assert trouble in str(reader.trouble)


@pytest.mark.parametrize("isolation", [0, 1])
async def test_every_request_has_the_isolation(isolation):
    peer = GroupPeer()
    reader, _ = await reader_of(peer, 0, isolation=isolation)
    await reader.find_positions()
    await reader.read(10)
    await reader.end_offsets()
    asked = [*peer.asked("list_offsets"), *peer.asked("fetch")]
    assert [body["isolation_level"] for body in asked] == [isolation] * 3


class CutLog(GroupPeer):
    """A peer whose partitions do not have offset 99; with `is_gone`, nobody knows their starts."""

    is_gone = False

    def _fetch(self, body, code):
        answer = super()._fetch(body, code)
        asked = {one["partition"]: one["fetch_offset"] for one in body["topics"][0]["partitions"]}
        for one in answer["responses"][0]["partitions"]:
            if asked[one["partition_index"]] == 99:
                one["error_code"] = 1
        return answer

    def _list_offsets(self, body, code):
        if self.is_gone:
            raise TransportError("gone")
        return super()._list_offsets(body, code)


@pytest.mark.parametrize("reset", ["earliest", "error"])
async def test_a_position_outside_the_log_takes_no_records_of_others_along(reset):
    peer = CutLog()
    reader, positions = await reader_of(peer, 0, 1, reset=reset)
    for number, offset in ((0, 0), (1, 99)):
        positions.place(Partition(TOPIC_ID, number), offset)
    if reset != "error":
        peer.is_gone = True
        with pytest.raises(TransportError):
            await reader.read(10)
        assert at(positions) == {0: 0, 1: 99}, "what was not returned is read again"
        peer.is_gone = False
    found = await reader.read(10)
    assert [(one.place.partition, one.record.offset) for one in found] == [(0, 0), (0, 1)]
    if reset == "error":
        assert "its position is outside the log" in str(reader.trouble)
    else:
        assert (at(positions), reader.trouble) == ({0: 2, 1: 0}, None)
