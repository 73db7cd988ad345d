"""The wire against a peer in memory that answers with the product's own dialects."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from broker.handlers import HANDLERS
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.msgpack.dialect import MsgpackDialect
from tests.simulation.clients.wire import Disconnected, MsgpackWire, Wire
from tests.simulation.world import TimedOut, World

SERVED = {int(row.api_key): row for row in HANDLERS}


class FakePeer:
    """The client's end: whole frames go to `serve`, which returns the bytes of the answer."""

    def __init__(self, world: World, serve: Callable[[bytes], bytes]) -> None:
        self.world = world
        self.serve = serve
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_end: Callable[[Exception | None], None] = lambda error: None
        self.is_open = True
        self.closed_ns = 0
        self.arrives_ns = 0
        self.said: list[str] = []

    def send(self, data: bytes) -> None:
        assert struct.unpack_from(">i", data)[0] == len(data) - 4
        answer = self.serve(data[4:])
        for at in range(0, len(answer), 3):  # in pieces
            piece = answer[at : at + 3]
            self.arrives_ns = max(self.arrives_ns, self.world.now_ns) + 1_000
            self.world.at(self.arrives_ns, lambda piece=piece: self.on_data(piece))

    def close(self) -> None:
        self.is_open = False
        self.said.append("close")

    reset = half_close = stop_reading = read_on = close


class FakeNetwork:
    def __init__(self, world: World, serve: Callable[[bytes], bytes]) -> None:
        self.world, self.serve = world, serve
        self.peers: list[FakePeer] = []

    def connect(self, port: int, host: str = "127.0.0.1", name: str = "") -> FakePeer:
        if port != 9092:
            raise ConnectionRefusedError
        self.peers.append(FakePeer(self.world, self.serve))
        return self.peers[-1]


def served(dialect: Any, answer: Callable[[Any], Any]) -> Callable[[bytes], bytes]:
    """Return a server that decodes a frame and encodes what `answer` makes of its body."""

    def serve(frame: bytes) -> bytes:
        request = dialect.decode_request(memoryview(bytearray(frame)))
        made = answer(request.body)
        return b"" if made is None else b"".join(dialect.encode_response(request.header, made))

    return serve


def run(serve: Callable[[bytes], bytes], do: Callable[..., Any], kind: type[Wire] = Wire) -> Any:
    """Run `do(wire, network)` as an actor; return what it returns, and the wire."""
    world = World("w")
    network: Any = FakeNetwork(world, serve)
    wire = kind(world, network, 9092, "c1")
    actor = world.spawn("c1", do(wire, network))
    world.run_until(lambda: actor.ended.is_set)
    assert not world.defects, world.defects
    return wire


def metadata(body: Any) -> Any:
    return MetadataResponse(cluster_id=f"{len(body.topics or [])}", controller_id=1)


@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_answers_arrive_in_order_in_every_version(version: int) -> None:
    async def do(wire: Wire, _: Any) -> None:
        await wire.open()
        first = wire.send(MetadataRequest(topics=None if version else []), version)
        assert wire.waiting_count == 1
        second = wire.send(MetadataRequest(topics=[]), version)
        assert (await second).controller_id == (1 if version else -1)
        assert first.is_set
        assert not wire.record.unanswered

    wire = run(served(KafkaDialect(SERVED), metadata), do)
    assert wire.record.answer_count == wire.record.request_count == 2
    assert not wire.record.failures


@pytest.mark.parametrize(("version", "code"), [(0, 0), (3, 0), (4, 0), (9, 35)])
def test_api_versions_has_its_own_header_and_its_own_fall_back(version: int, code: int) -> None:
    async def do(wire: Wire, _: Any) -> None:
        await wire.open()
        answer = await wire.call(ApiVersionsRequest(), version)
        assert answer.error_code == code

    wire = run(served(KafkaDialect(SERVED), lambda _: ApiVersionsResponse(error_code=code)), do)
    assert not wire.record.failures


def test_acks_0_has_no_answer() -> None:
    async def do(wire: Wire, _: Any) -> None:
        await wire.open()
        topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0)])
        body = ProduceRequest(acks=0, timeout_ms=1, topic_data=[topic])
        assert await wire.call(body, 9) is None
        assert not wire.waiting_count

    run(served(KafkaDialect(SERVED), lambda _: None), do)


def test_nothing_is_answered_behind_a_refusal_that_ends_the_connection() -> None:
    async def do(wire: Wire, _: Any) -> None:
        await wire.open()
        await wire.call(MetadataRequest(topics=[]), 9)
        wire.must_end()
        await wire.call(MetadataRequest(topics=[]), 9)
        wire.close()
        await wire.open()
        await wire.call(MetadataRequest(topics=[]), 9)

    wire = run(served(KafkaDialect(SERVED), metadata), do)
    assert wire.record.failures == ["c1: is served behind a refused request that has no answer"]


def test_an_end_fails_all_that_wait_and_a_new_connection_can_be_made() -> None:
    async def do(wire: Wire, network: Any) -> None:
        await wire.open()
        waiters = [wire.send(MetadataRequest(), 9) for _ in range(2)]
        network.peers[0].on_end(ConnectionResetError())
        for waiter in waiters:
            with pytest.raises(Disconnected):
                await waiter
        with pytest.raises(Disconnected):
            await wire.call(MetadataRequest(), 9)
        assert [why for _, _, why in wire.record.ended] == ["ConnectionResetError"]
        await wire.open()
        network.peers[0].on_data(b"\0\0\0\0")  # of the old connection: ignored
        network.serve = served(KafkaDialect(SERVED), metadata)
        network.peers[1].serve = network.serve
        assert (await wire.call(MetadataRequest(topics=[]), 9)).cluster_id == "0"

    assert not run(lambda _: b"", do).record.failures


def test_a_client_that_leaves_is_noted_with_what_it_waited_for() -> None:
    async def do(wire: Wire, network: Any) -> None:
        await wire.open()
        with pytest.raises(TimedOut):
            await wire.call(MetadataRequest(), 9, timeout_ms=5)
        assert [asked.api_key for asked in wire.record.unanswered.values()] == [3]
        wire.close()
        assert network.peers[0].said == ["close"]

    record = run(lambda _: b"", do).record
    assert not record.unanswered
    ((asked, left_ns),) = record.gave_up
    assert left_ns - asked.sent_ns == 5_000_000
    assert record.owed == record.gave_up


def test_an_answer_is_owed_for_the_oldest_request_of_a_connection_that_is_read() -> None:
    async def do(wire: Wire, _network: Any) -> None:
        for reads in (True, False):
            await wire.open()
            waiters = [wire.send(MetadataRequest(), 9) for _ in range(2)]
            if not reads:
                wire.stop_reading()
            wire.close()
            for waiter in waiters:
                with pytest.raises(Disconnected):
                    await waiter

    record = run(lambda _: b"", do).record
    assert [asked.number for asked, _ in record.gave_up] == [1, 2, 3, 4]
    assert [asked.number for asked, _ in record.owed] == [1]


def test_nothing_is_asked_while_the_record_takes_no_requests() -> None:
    async def do(wire: Wire, network: Any) -> None:
        await wire.open()
        wire.record.takes_requests = False
        with pytest.raises(Disconnected):
            await wire.call(MetadataRequest(), 9)
        assert wire.is_open
        assert network.peers[0].said == []
        wire.record.takes_requests = True
        await wire.call(MetadataRequest(topics=[]), 9)

    assert run(served(KafkaDialect(SERVED), metadata), do).record.request_count == 1


def _wrong_number(frame: bytes) -> bytes:
    return struct.pack(">ii", 4, 77)


def _too_long(frame: bytes) -> bytes:
    answer = served(KafkaDialect(SERVED), metadata)(frame) + b"x"
    return struct.pack(">i", len(answer) - 4) + answer[4:]


def _twice(frame: bytes) -> bytes:
    return 2 * served(KafkaDialect(SERVED), metadata)(frame)


def _empty(frame: bytes) -> bytes:
    return bytes(4)


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (_wrong_number, "correlation id 77"),
        (_too_long, "1 bytes behind"),
        (_twice, "to nothing"),
        (_empty, "the answer to 1 metadata 9"),
        (lambda _: b"\xff\xff\xff\xff", "size -1"),
    ],
)
def test_an_answer_that_no_broker_may_give_is_a_failure(serve: Any, said: str) -> None:
    async def do(wire: Wire, network: Any) -> None:
        await wire.open()
        with contextlib.suppress(Disconnected):
            await wire.call(MetadataRequest(), 9)
        await wire.world.sleep_ms(1)
        assert network.peers[0].said == ["close"]

    (failure,) = run(serve, do).record.failures
    assert said in failure


def test_nobody_listens() -> None:
    async def do(wire: Wire, _: Any) -> None:
        wire._port = 1
        with pytest.raises(Disconnected):
            await wire.open()

    run(lambda _: b"", do)


def test_a_hostile_client_takes_what_it_gets() -> None:
    async def do(wire: Wire, network: Any) -> None:
        await wire.open()
        wire.send_bytes(b"\0\0\0\4abcd")
        await wire.world.sleep_ms(1)
        assert wire.strays == [b"ok"]

    assert not run(lambda _: struct.pack(">i", 2) + b"ok", do).record.failures


def test_msgpack_answers_have_attributes() -> None:
    async def do(wire: Any, _: Any) -> None:
        await wire.open()
        answer = await wire.call(MetadataRequest(topics=[]), 0)
        assert (answer.cluster_id, answer.topics) == ("0", [])
        answer = await wire.send_map("metadata", {"topics": []})
        assert answer.cluster_id == "0"
        answer = await wire.send_map(3, {"topics": []})
        assert answer.cluster_id == "0"

    dialect = MsgpackDialect(SERVED, lambda: 0)
    assert not run(served(dialect, metadata), do, MsgpackWire).record.failures


def test_msgpack_carries_maps_of_records_and_fields_that_kafka_lacks() -> None:
    asked = []

    def serve(frame: bytes) -> bytes:
        _, number, _, body = msgpack.unpackb(frame)
        asked.append(body)
        packed = msgpack.packb([number, {"records": [{"offset": 3, "headers": [["a", b"b"]]}]}])
        return struct.pack(">i", len(packed)) + packed

    async def do(wire: Any, _: Any) -> None:
        await wire.open()
        answer = await wire.call(FetchRequest(max_wait_ms=0, min_bytes=1), 0, raw=True)
        assert answer.records[0].offset == 3
        data = PartitionProduceData(index=0, records=[{"value": b"v"}])  # type: ignore[arg-type]
        topic = TopicProduceData(topic_id=b"i" * 16, partition_data=[data])
        await wire.call(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), 0)

    assert not run(serve, do, MsgpackWire).record.failures
    assert asked[0]["raw"] is True
    assert asked[1]["topic_data"][0]["partition_data"][0]["records"] == [{"value": b"v"}]


def test_the_trace_is_the_same_in_two_runs() -> None:
    def digest() -> str:
        async def do(wire: Wire, _: Any) -> None:
            await wire.open()
            for version in (1, 9):
                await wire.call(MetadataRequest(topics=[]), version)

        return run(served(KafkaDialect(SERVED), metadata), do).world.digest

    assert digest() == digest()


def test_a_request_costs_little() -> None:
    started = time.process_time()

    async def do(wire: Wire, _: Any) -> None:
        await wire.open()
        for _ in range(300):
            await wire.call(MetadataRequest(topics=[]), 9)

    run(served(KafkaDialect(SERVED), metadata), do)
    assert (time.process_time() - started) / 300 < 0.002  # 0.1 ms with the fake server
