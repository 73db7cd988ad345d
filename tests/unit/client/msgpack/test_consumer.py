"""The consumer: the records from raw batches, and its positions."""

from __future__ import annotations

import pytest

from client.msgpack.consumer import Consumed, Consumer
from client.msgpack.fetching import FetchError
from client.msgpack.transport import UnknownPlace
from protocol.record_errors import RecordError
from protocol.records import Record, build
from tests.support.msgpack_peer import MsgpackPeer, metadata


def batch(base_offset, *texts):
    return bytes(build([Record(0, 5, None, text) for text in texts], base_offset=base_offset))


class Script:
    """Two partitions, each with one batch of two records at offsets 0 and 1."""

    def __init__(self, code=0, damaged=None):
        self.code = code
        self.damaged = damaged

    def __call__(self, api, body):
        if api == "metadata":
            return metadata(2)
        if api == "list_offsets":
            asked = body["topics"][0]["partitions"]
            offsets = {-1: 2, -2: 0, 5: 1}
            parts = [
                {
                    "partition_index": one["partition_index"],
                    "error_code": 0,
                    "offset": offsets.get(one["timestamp"], -1),
                }
                for one in asked
            ]
            return {"topics": [{"partitions": parts}]}
        parts = []
        for one in body["topics"][0]["partitions"]:
            raw = batch(0, b"a", b"b") if one["fetch_offset"] < 2 else None
            if self.damaged == one["partition"]:
                raw = batch(0, b"a") + batch(1, b"b")[:-1] + b"x"
            parts.append(
                {"partition_index": one["partition"], "error_code": self.code, "records": raw}
            )
        return {"responses": [{"partitions": parts}]}


async def test_several_partitions_are_read_each_from_its_position():
    async with MsgpackPeer(Script()) as peer, Consumer(peer.address, "t") as consumer:
        consumer.seek(1, 1)
        found = await consumer.poll()
        assert sorted((one.partition, one.record.offset) for one in found) == [
            (0, 0), (0, 1), (1, 1),
        ]  # fmt: skip
        assert consumer.positions == {0: 2, 1: 2}
        assert await consumer.poll() == []
        assert await consumer.end_offsets() == {0: 2, 1: 2}
        first = [body["topics"][0]["partitions"][0] for api, body in peer.asked if api == "fetch"]
        assert [one["partition"] for one in first] == [0, 1]  # each partition comes first in turn


@pytest.mark.parametrize(("asked", "position"), [(-2, 0), (-1, 2), (5, 1), (999, 2)])
async def test_a_time_or_place_becomes_a_position(asked, position):
    async with (
        MsgpackPeer(Script()) as peer,
        Consumer(peer.address, "t", partitions=[1]) as consumer,
    ):
        await consumer.seek_to(asked)
        assert consumer.positions == {1: position}
        assert all(isinstance(one, Consumed) for one in await consumer.poll())


async def test_an_unreadable_partition_is_reported():
    async with MsgpackPeer(Script(code=1)) as peer:
        async with Consumer(peer.address, "t") as consumer:
            with pytest.raises(FetchError, match="t-0 at offset 0: OFFSET_OUT_OF_RANGE"):
                await consumer.poll()
            with pytest.raises(UnknownPlace):
                consumer.seek(5, 0)
        with pytest.raises(UnknownPlace, match="not 2"):
            await Consumer(peer.address, "t", partitions=[2]).__aenter__()


@pytest.mark.parametrize(
    ("code", "retriable", "said"),
    [(100, True, "UNKNOWN_TOPIC_ID"), (29, False, "TOPIC_AUTH"), (31_999, False, "error 31999")],
)
async def test_an_error_says_whether_it_is_retriable(code, retriable, said):
    async with MsgpackPeer(Script(code=code)) as peer, Consumer(peer.address, "t") as consumer:
        with pytest.raises(FetchError, match=said) as error:
            await consumer.poll()
        assert error.value.retriable is retriable
        assert consumer.positions == {0: 0, 1: 0}
        assert [api for api, _ in peer.asked].count("metadata") == 1
        with pytest.raises(FetchError):
            await consumer.poll()
        assert [api for api, _ in peer.asked].count("metadata") == 1 + retriable


async def test_a_damaged_batch_hides_only_its_own_records():
    async with MsgpackPeer(Script(damaged=1)) as peer, Consumer(peer.address, "t") as consumer:
        found = await consumer.poll()
        assert sorted((one.partition, one.record.value) for one in found) == [
            (0, b"a"), (0, b"b"), (1, b"a"),
        ]  # fmt: skip
        with pytest.raises(RecordError):
            await consumer.poll()
        assert consumer.positions == {0: 2, 1: 1}
        with pytest.raises(RecordError):  # the position stays, and the error comes again
            await consumer.poll(partitions=[1])


async def test_a_committed_only_consumer_asks_for_that_and_leaves_out_what_was_aborted():
    asked = []

    class Transactional(Script):
        def __call__(self, api, body):
            if api != "metadata":
                asked.append((api, body["isolation_level"]))
            answer = super().__call__(api, body)
            if api == "fetch":
                raw = build([Record(0, 5, None, b"a")], producer_id=7, transactional=True)
                for part in answer["responses"][0]["partitions"]:
                    part["records"] = bytes(raw) + batch(1, b"b")
                    part["aborted_transactions"] = [{"producer_id": 7, "first_offset": 0}]
            return answer

    async with (
        MsgpackPeer(Transactional()) as peer,
        Consumer(peer.address, "t", partitions=[0], committed_only=True) as consumer,
    ):
        assert [one.record.value for one in await consumer.poll()] == [b"b"]
    assert asked == [("list_offsets", 1), ("fetch", 1)]


class Long(Script):
    """Partitions of ten records, each in a batch; an answer has at most two of a partition."""

    def __init__(self, *lost):
        super().__init__()
        self.lost = list(lost)
        self.count = 0

    def __call__(self, api, body):
        if api == "list_offsets":
            asked = body["topics"][0]["partitions"]
            offset = 10 if asked[0]["timestamp"] == -1 else 0
            parts = [{"partition_index": one["partition_index"]} for one in asked]
            return {
                "topics": [
                    {"partitions": [one | {"error_code": 0, "offset": offset} for one in parts]}
                ]
            }
        if api != "fetch":
            return super().__call__(api, body)
        self.count += 1
        if self.count in self.lost:
            return None
        parts = []
        for one in body["topics"][0]["partitions"]:
            at = one["fetch_offset"]
            raw = b"".join(batch(n, b"%d" % n) for n in range(at, min(at + 2, 10)))
            parts.append({"partition_index": one["partition"], "error_code": 0, "records": raw})
        return {"responses": [{"partitions": parts}]}


async def read_to_ends(consumer, ends):
    found = []
    while unread := [one for one, at in consumer.positions.items() if at < ends[one]]:
        found += await consumer.poll(partitions=unread, ends=ends)
    return sorted((one.partition, one.record.offset) for one in found)


@pytest.mark.parametrize("ends", [{0: 10, 1: 10}, {0: 10, 1: 3}, {0: 1, 1: 0}])
async def test_with_ends_each_place_is_asked_for_once_and_none_behind_them(ends):
    async with MsgpackPeer(Long()) as peer, Consumer(peer.address, "t") as consumer:
        wanted = [(partition, at) for partition, end in ends.items() for at in range(end)]
        assert await read_to_ends(consumer, ends) == wanted
        asked = [
            (one["partition"], one["fetch_offset"])
            for api, body in peer.asked
            if api == "fetch"
            for one in body["topics"][0]["partitions"]
        ]
        assert len(set(asked)) == len(asked)
        assert all(at < ends[partition] for partition, at in asked)


async def test_the_next_fetch_is_sent_before_its_batches_are_taken():
    async with MsgpackPeer(Long()) as peer, Consumer(peer.address, "t") as consumer:
        await consumer.poll(ends={0: 10, 1: 10})
        await consumer.end_offsets()  # the peer has read all that was sent before it
        assert [api for api, _ in peer.asked].count("fetch") == 2


@pytest.mark.parametrize("lost", [(2,), (1 + 2, 3 + 2)])
async def test_what_was_asked_ahead_is_asked_again_if_it_is_lost(lost):
    async with MsgpackPeer(Long(*lost)) as peer, Consumer(peer.address, "t") as consumer:
        ends = {0: 10, 1: 10}
        wanted = [(partition, at) for partition in (0, 1) for at in range(10)]
        assert await read_to_ends(consumer, ends) == wanted
        assert peer.connection_count == 1 + len(lost)


async def test_a_seek_leaves_what_was_asked_ahead():
    async with MsgpackPeer(Long()) as peer, Consumer(peer.address, "t", partitions=[0]) as consumer:
        await consumer.poll(ends={0: 10})
        consumer.seek(0, 7)
        found = await consumer.poll(ends={0: 10})
        assert [one.record.offset for one in found] == [7, 8]
        assert await consumer.end_offsets() == {0: 10}


async def test_a_topic_that_was_created_again_is_not_read_from_the_old_position():
    """Its first records would be skipped; 100 is UNKNOWN_TOPIC_ID."""
    script = Script()
    topic_id = b"i" * 16

    def answer(api, body):
        found = script(api, body)
        if api == "metadata":
            found["topics"][0]["topic_id"] = topic_id
        return found

    async with MsgpackPeer(answer) as peer, Consumer(peer.address, "t") as consumer:
        await consumer.poll()
        script.code, topic_id = 100, b"j" * 16
        with pytest.raises(FetchError):
            await consumer.poll()
        script.code = 0
        for _ in range(2):
            with pytest.raises(UnknownPlace, match="'t' was deleted and created again"):
                await consumer.poll()
