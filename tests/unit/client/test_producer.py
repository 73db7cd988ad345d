"""The producer against a scripted peer: acknowledged, retried in order, refused, bounded."""

from __future__ import annotations

import asyncio

import pytest

from client.outbox import DeliveryError, OutboxSettings
from client.producer import Producer
from client.transport import TransportError, UnknownPlace
from protocol.records import read_header, read_records
from tests.support.msgpack_peer import NO_ANSWER, MsgpackPeer, metadata, produced


class Script:
    """Metadata and ids as they should be; `produce` answers with what comes next in `fates`."""

    def __init__(self, *fates, partition_count=1):
        self.fates = list(fates)
        self.partition_count = partition_count
        self.batches = []
        self.ids = 0

    def __call__(self, api, body):
        if api == "metadata":
            return metadata(self.partition_count)
        if api == "init_producer_id":
            self.ids += 1
            return {"error_code": 0, "producer_id": 100 + self.ids, "producer_epoch": 0}
        self.batches += [one["records"] for t in body["topic_data"] for one in t["partition_data"]]
        if body["acks"] == 0:
            return NO_ANSWER
        fate = self.fates.pop(0) if self.fates else 0
        return None if fate is None else produced(body, fate, base_offset=40)


def settings(**more):
    return OutboxSettings(linger_ms=0, **more)


def values(batches):
    return [one.value for raw in batches for one in read_records(raw, size_max=1 << 20)]


async def test_a_record_arrives_as_it_was_sent_and_its_offset_comes_back():
    script = Script(partition_count=3)
    async with (
        MsgpackPeer(script) as peer,
        Producer(peer.address, wall_ns=lambda: 5_000_000) as one,
    ):
        sent = await one.send("t", b"v", key=b"k", headers=[("h", None)], partition=2)
        again = await one.send("t", None, partition=2, timestamp_ms=9)
        assert await sent.offset() == 40
        assert await again.offset() == 41
    first, second = read_records(script.batches[0], size_max=1_000)
    assert first[1:] == (5, b"k", b"v", (("h", None),))
    assert second[1:] == (9, None, None, ())
    assert one.acknowledged_count == 2


@pytest.mark.parametrize("fate", [None, 7, 56])  # hung up, timed out, storage error
async def test_a_retry_sends_the_same_bytes_before_what_is_behind(fate):
    script = Script(fate, fate)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=settings()) as one:
        first = await one.send("t", b"first")
        await asyncio.sleep(0)
        while not script.batches:
            await asyncio.sleep(0.001)
        await one.send("t", b"second")
        assert await first.offset() == 40
    assert values(script.batches) == [b"first"] * 3 + [b"second"]
    assert len(set(script.batches)) == 2
    assert [read_header(raw).base_sequence for raw in script.batches] == [0, 0, 0, 1]


async def test_a_duplicate_counts_as_acknowledged():
    async with MsgpackPeer(Script(46)) as peer, Producer(peer.address) as one:
        assert await (await one.send("t", b"v")).offset() == 40


async def test_a_refusal_reaches_the_sender_and_the_next_record_goes_on():
    script = Script(10)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=settings()) as one:
        with pytest.raises(DeliveryError, match=r"1 records for t-0: MESSAGE_TOO_LARGE \(10\)"):
            await (await one.send("t", b"v")).offset()
        assert await (await one.send("t", b"w")).offset() == 40
    assert [read_header(raw).base_sequence for raw in script.batches] == [0, 0]
    assert (one.acknowledged_count, one.failed_count) == (1, 1)


async def test_a_lost_identity_is_replaced():
    script = Script(45)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=settings()) as one:
        with pytest.raises(DeliveryError, match="OUT_OF_ORDER"):
            await (await one.send("t", b"v")).offset()
        await (await one.send("t", b"w")).offset()
    assert [read_header(raw).producer_id for raw in script.batches] == [101, 102]


async def test_without_acknowledgement_nothing_is_awaited():
    script = Script()
    async with MsgpackPeer(script) as peer, Producer(peer.address, acks=0) as one:
        assert await (await one.send("t", b"v")).offset() == -1
        while not script.batches:
            await asyncio.sleep(0.001)
    assert read_header(script.batches[0]).producer_id == -1


async def test_memory_is_waited_for():
    script = Script()
    small = settings(buffer_bytes=4_000, batch_bytes=1_000)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=small) as one:
        for number in range(200):
            await one.send("t", b"%0200d" % number)
            assert one._outbox.buffered_bytes <= 4_000
    assert values(script.batches) == [b"%0200d" % number for number in range(200)]


async def test_no_success_in_time_is_told_with_what_may_be():
    brief = settings(delivery_ms=50)
    async with (
        MsgpackPeer(Script(*[7] * 99)) as peer,
        Producer(peer.address, settings=brief) as one,
    ):
        with pytest.raises(DeliveryError, match="may have been appended"):
            await (await one.send("t", b"v")).offset()


async def test_what_cannot_be_sent_is_refused_at_once():
    async with MsgpackPeer(Script()) as peer, Producer(peer.address) as one:
        with pytest.raises(UnknownPlace, match="partitions 0 to 0, not 4"):
            await one.send("t", b"v", partition=4)
    with pytest.raises(TransportError):
        await Producer("127.0.0.1:1").__aenter__()
    with pytest.raises(ValueError, match="idempotent needs acks"):
        Producer("127.0.0.1:1", acks=1, settings=OutboxSettings())
