"""The producer against a scripted peer: acknowledgements, ordered retries, refusals, bounds."""

from __future__ import annotations

import asyncio

import pytest

from client.msgpack.producer import Producer
from client.msgpack.transport import TransportError, UnknownPlace
from client.msgpack.unacknowledged import DeliveryError, ProducerSettings
from protocol.records import read_header, read_records
from tests.support.msgpack_peer import NO_ANSWER, MsgpackPeer, metadata, produced


class Script:
    """A peer with valid metadata and ids; `produce` returns the next answer of `fates`."""

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
    return ProducerSettings(linger_ms=0, **more)


def values(batches):
    return [one.value for raw in batches for one in read_records(raw, size_max=1 << 20)]


async def test_a_batch_that_is_too_large_is_split_and_each_record_has_its_own_offset():
    """Three records, of which the last is too large by itself: 10 is MESSAGE_TOO_LARGE."""
    script = Script(10, 0, 10, 0, 10)
    async with (
        MsgpackPeer(script) as peer,
        Producer(peer.address, settings=ProducerSettings(linger_ms=60_000)) as one,
    ):
        sent = [await one.send("t", b"%d" % n) for n in range(3)]
        await one.flush()
        assert values(script.batches[1:]) == [b"0", b"1", b"2", b"1", b"2"]
        assert [await one.offset() for one in sent[:2]] == [40, 40]
        with pytest.raises(DeliveryError, match="1 record for t-0: MESSAGE_TOO_LARGE"):
            await sent[2].offset()
    sequences = [read_header(raw).base_sequence for raw in script.batches]
    assert sequences == [0, 0, 1, 1, 2]
    assert (one.tally.acknowledged_count, one.tally.failed_count) == (2, 1)


async def test_a_record_may_have_no_time():
    """As `barnabas consume --json` writes it."""
    script = Script()
    async with MsgpackPeer(script) as peer, Producer(peer.address) as one:
        await one.send("t", b"v", timestamp_ms=-1)
        for refused in (-2, 1 << 63):
            with pytest.raises(ValueError, match=f"timestamp {refused} is neither -1"):
                await one.send("t", b"v", timestamp_ms=refused)
    assert [found.timestamp for found in read_records(script.batches[0], size_max=99)] == [-1]


async def test_a_record_arrives_unchanged_and_its_offset_is_returned():
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
    assert one.tally.acknowledged_count == 2


@pytest.mark.parametrize("fate", [None, 7, 56])  # connection closed, timed out, storage error
async def test_a_retry_sends_the_same_bytes_before_later_batches(fate):
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


async def test_a_refusal_reaches_the_sender_and_the_next_record_is_sent():
    script = Script(10)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=settings()) as one:
        with pytest.raises(DeliveryError, match=r"1 record for t-0: MESSAGE_TOO_LARGE \(10\)"):
            await (await one.send("t", b"v")).offset()
        assert await (await one.send("t", b"w")).offset() == 40
    assert [read_header(raw).base_sequence for raw in script.batches] == [0, 0]
    assert (one.tally.acknowledged_count, one.tally.failed_count) == (1, 1)


async def test_a_broker_that_lost_its_producer_state_gets_the_records_in_the_next_epoch():
    script = Script(45)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=settings()) as one:
        assert await (await one.send("t", b"v")).offset() == 40
    headers = [read_header(raw) for raw in script.batches]
    assert [(one.producer_id, one.producer_epoch) for one in headers] == [(101, 0), (101, 1)]


@pytest.mark.parametrize("fate", [47, 49, 59])
async def test_a_producer_that_the_broker_rejects_gets_another_id(fate):
    script = Script(fate)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=settings()) as one:
        with pytest.raises(DeliveryError, match=rf"\({fate}\)"):
            await (await one.send("t", b"v")).offset()
        await (await one.send("t", b"w")).offset()
    assert [read_header(raw).producer_id for raw in script.batches] == [101, 102]


async def test_an_unknown_error_code_fails_the_batch_with_its_number():
    script = Script(31_999)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=settings()) as one:
        with pytest.raises(DeliveryError, match="error 31999: unknown to this client"):
            await (await one.send("t", b"v")).offset()
        await (await one.send("t", b"w")).offset()
    epochs = [read_header(raw).producer_epoch for raw in script.batches]
    assert epochs == [0, 1]  # the batch may have been appended


async def test_at_most_five_requests_are_in_flight():
    class Slow(Script):
        """Holds all answers after the first until the test releases them."""

        def __call__(self, api, body):
            answer = super().__call__(api, body)
            return NO_ANSWER if api == "produce" and len(self.batches) > 1 else answer

    script = Slow()
    brief = settings(batch_bytes=1, delivery_ms=60_000)
    async with MsgpackPeer(script) as peer:
        one = Producer(peer.address, settings=brief, timeout_s=0.2)
        await one.__aenter__()
        await (await one.send("t", b"first")).offset()
        for number in range(20):
            await one.send("t", b"%d" % number)
        while len(script.batches) < 7:
            await asyncio.sleep(0.001)
        # No answer came in time: the last request is the first of them again, alone.
        assert values(script.batches) == [b"first", b"0", b"1", b"2", b"3", b"4", b"0"]
        await one.__aexit__(ZeroDivisionError)  # an exit by an error flushes nothing


async def test_a_broker_that_gives_no_id_fails_all_waiting_sends():
    def answer(api, body):
        return metadata(1) if api == "metadata" else {"error_code": 31}

    async with MsgpackPeer(answer) as peer:
        one = await Producer(peer.address, settings=settings()).__aenter__()
        sent = await one.send("t", b"v")
        with pytest.raises(
            DeliveryError, match=r"refused a producer id: CLUSTER_AUTHORIZATION_FAILED"
        ):
            await sent.offset()
        with pytest.raises(DeliveryError, match="refused a producer id"):
            await one.send("t", b"w")
        with pytest.raises(DeliveryError, match="refused a producer id"):
            await one.__aexit__(None)


async def test_an_answer_without_a_required_field_is_invalid():
    script = Script()
    answers = [{}, {"responses": []}, {"responses": None}]

    def answer(api, body):
        made = script(api, body)
        return answers.pop(0) if api == "produce" and answers else made

    async with MsgpackPeer(answer) as peer, Producer(peer.address, settings=settings()) as one:
        assert await (await one.send("t", b"v")).offset() == 40
    assert len(script.batches) == 4


async def test_nothing_is_awaited_without_acknowledgements():
    script = Script()
    async with MsgpackPeer(script) as peer, Producer(peer.address, acks=0) as one:
        assert await (await one.send("t", b"v")).offset() == -1
        while not script.batches:
            await asyncio.sleep(0.001)
    assert read_header(script.batches[0]).producer_id == -1


async def test_a_send_waits_for_memory():
    script = Script()
    small = settings(buffer_bytes=4_000, batch_bytes=1_000)
    async with MsgpackPeer(script) as peer, Producer(peer.address, settings=small) as one:
        for number in range(200):
            await one.send("t", b"%0200d" % number)
            assert one._held.buffered_bytes <= 4_000
    assert values(script.batches) == [b"%0200d" % number for number in range(200)]


async def test_a_delivery_timeout_says_whether_the_record_may_be_appended():
    brief = settings(delivery_ms=50)
    async with (
        MsgpackPeer(Script(*[7] * 99)) as peer,
        Producer(peer.address, settings=brief) as one,
    ):
        with pytest.raises(DeliveryError, match="may have been appended") as caught:
            await (await one.send("t", b"v")).offset()
        assert "The last answer: t-0: REQUEST_TIMED_OUT (7)" in str(caught.value)
        assert one.tally.gave_up


async def test_the_reason_of_a_retry_is_reported():
    told = []
    async with (
        MsgpackPeer(Script(56, 56)) as peer,
        Producer(peer.address, settings=settings(), on_retry=told.append) as one,
    ):
        assert await (await one.send("t", b"v")).offset() == 40
    assert [reason.partition(":")[0] for reason in told] == ["t-0", "t-0"]
    assert "KAFKA_STORAGE_ERROR (56)" in told[0]


async def test_an_invalid_record_is_refused_at_once():
    async with MsgpackPeer(Script()) as peer, Producer(peer.address) as one:
        with pytest.raises(UnknownPlace, match="partitions 0 to 0, not 4"):
            await one.send("t", b"v", partition=4)
    with pytest.raises(TransportError):
        await Producer("127.0.0.1:1").__aenter__()
    with pytest.raises(ValueError, match="idempotent needs acks"):
        Producer("127.0.0.1:1", acks=1, settings=ProducerSettings())
