"""Every kind of client against real handlers: without faults no client objects to anything.

The broker here is `MemoryBroker`, called at once: no network, no waits. The records of a run pass
the checker, and a broker that lies is caught.
"""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from broker.handlers import HANDLERS
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.msgpack.dialect import MsgpackDialect
from tests.simulation.clients import consumers, producers
from tests.simulation.clients.read_back import read_back
from tests.simulation.clients.topics import KINDS_OF_TOPIC, Topics
from tests.simulation.context import MSGPACK_PORT, Context
from tests.simulation.plan import ClientPlan, Plan
from tests.simulation.record import Record
from tests.simulation.world import MS, World
from tests.support.history_checker import OK, FinalLog, check
from tests.support.memory_broker import MemoryBroker
from tests.support.memory_filesystem import MemoryFileSystem

SERVED = {int(row.api_key): row for row in HANDLERS}
KINDS = producers.KINDS | consumers.KINDS
Lie = Callable[[Any], None]


class DirectPeer:
    """The client's end of a connection that answers from a broker in memory."""

    def __init__(self, network: DirectNetwork, port: int) -> None:
        self.network = network
        now_ms = network.broker.clock.now_ms
        is_msgpack = port == MSGPACK_PORT
        self.dialect: Any = MsgpackDialect(SERVED, now_ms) if is_msgpack else KafkaDialect(SERVED)
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_end: Callable[[Exception | None], None] = lambda error: None
        self.is_open = True
        self.closed_ns = 0
        self.arrives_ns = 0

    def send(self, data: bytes) -> None:
        world, broker = self.network.world, self.network.broker
        (size,) = struct.unpack_from(">i", data)
        assert size == len(data) - 4
        request = self.dialect.decode_request(memoryview(bytearray(data[4:])))
        header, body = request.header, request.body
        if isinstance(body, FetchRequest):
            body.max_wait_ms = 0
        is_silent = isinstance(body, ProduceRequest) and body.acks == 0
        if is_silent:
            body.acks = 1
        broker.loop.now = max(broker.loop.now, world.now_ns / 1e9)
        answer = broker.run(broker.call(body, header.api_version))
        self.network.lie(answer)
        if is_silent:
            if any(
                one.error_code for topic in answer.responses for one in topic.partition_responses
            ):
                self.network._drop(self)
            return
        frame = b"".join(self.dialect.encode_response(header, answer))
        self.arrives_ns = max(self.arrives_ns, world.now_ns) + world.chance("x").randrange(MS)
        world.at(self.arrives_ns, lambda: self.is_open and self.on_data(frame))

    def close(self) -> None:
        self.is_open = False

    reset = close

    def half_close(self) -> None:
        pass

    stop_reading = read_on = half_close


class DirectNetwork:
    def __init__(self, world: World, broker: MemoryBroker, lie: Lie) -> None:
        self.world, self.broker, self.lie = world, broker, lie
        self.drops = world.chance("drops")
        self.drop_chance = 0.0

    def connect(self, port: int, host: str = "127.0.0.1", name: str = "") -> DirectPeer:
        if self.drops.random() < self.drop_chance:
            raise ConnectionRefusedError
        peer = DirectPeer(self, port)
        if self.drops.random() < self.drop_chance:
            after_ns = self.drops.randrange(300 * MS)
            self.world.after(after_ns, lambda: self._drop(peer))
        return peer

    def _drop(self, peer: DirectPeer) -> None:
        if peer.is_open:
            peer.is_open = False
            peer.on_end(ConnectionResetError())


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    one = MemoryBroker(MemoryFileSystem())
    one.start()
    yield one
    one.end()


def told(_: Any) -> None:
    """Change nothing."""


def history(
    broker: MemoryBroker,
    seed: str,
    kinds: list[str],
    *,
    steps: int = 40,
    drop_chance: float = 0.0,
    lie: Lie = told,
    topics: tuple[str, ...] = (),
) -> Record:
    """Run clients of these kinds to their ends."""
    world = World(seed)
    network: Any = DirectNetwork(world, broker, lie)
    network.drop_chance = drop_chance
    record = Record()
    loaded: Any = None
    disk: Any = None
    clock: Any = broker.clock
    clock.jumped_ms = 0  # nobody sets it
    context = Context(Plan(seed), world, disk, network, clock, record, loaded)
    context.topics = Topics(context)
    for name in list(context.topics):
        if topics and name not in topics:
            del context.topics[name]
    actors = [
        world.spawn(name, KINDS[kind](context, ClientPlan(name, kind, steps)))
        for number, kind in enumerate(kinds)
        for name in [f"{kind} {number}"]
    ]
    world.run_until(lambda: all(actor.ended.is_set for actor in actors))
    reader = world.spawn("reader", read_back(context))
    world.run_until(lambda: reader.ended.is_set)
    assert not world.defects, world.defects
    assert not broker.surprises
    for key, log in reader.ended._value.items():
        records = [one for batch in log.batches for one in batch.records]
        record.history.final[key] = FinalLog(log.start_offset, records)
    return record


@pytest.mark.parametrize("seed", range(4))
def test_no_client_objects_to_a_sound_broker(broker: MemoryBroker, seed: int) -> None:
    record = history(broker, f"sound {seed}", list(KINDS))
    assert record.failures == []
    assert record.history.final
    assert record.breaches == []
    assert record.ledger.found == []
    assert record.corrupt == []
    assert record.unserved == []
    assert not record.unanswered
    assert check(record.sealed()).anomalies == []
    outcomes = Counter(op.outcome for op in record.ops if op.sends)
    assert outcomes[OK] > 20
    assert any(poll.records for op in record.ops for poll in op.polls)


@pytest.mark.parametrize("seed", range(4))
def test_no_client_objects_to_a_network_that_loses_connections(
    broker: MemoryBroker, seed: int
) -> None:
    record = history(broker, f"drops {seed}", list(KINDS), drop_chance=0.5)
    assert record.failures == []
    assert record.breaches == []
    assert record.ledger.found == []
    assert check(record.sealed()).anomalies == []
    assert record.ended


def _shifts(answer: Any) -> None:
    """Lie: tell a producer a later offset than the one that its batch has."""
    if isinstance(answer, ProduceResponse):
        for part in answer.responses[0].partition_responses:
            part.base_offset += 1 if part.base_offset > 3 else 0


def _drops_marks(answer: Any) -> None:
    """Lie: say that a log has no records any more."""
    if isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for part in topic.partitions:
                if part.high_watermark % 2:  # now and then
                    part.high_watermark = part.last_stable_offset = 2


def _serves_less(answer: Any) -> None:
    """Lie: leave out the last byte of the records."""
    if isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for part in topic.partitions:
                part.records = bytes(part.records or b"")[:-1]


def _flips(answer: Any) -> None:
    """Lie: change the last byte of the records."""
    if isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for part in topic.partitions:
                if part.records:
                    part.records = bytes(part.records[:-1]) + bytes([part.records[-1] ^ 1])


def _refuses(answer: Any) -> None:
    """Lie: fail for no reason that a client has given."""
    if isinstance(answer, ProduceResponse):
        answer.responses[0].partition_responses[0].error_code = -1


def _hides(answer: Any) -> None:
    """Lie: serve nothing."""
    if isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for part in topic.partitions:
                part.records = b""


def _has_no_place(answer: Any) -> None:
    """Lie: say that a log does not have an offset."""
    if isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for part in topic.partitions:
                if not part.records and part.high_watermark > 0:
                    part.error_code = 1


def _forgets(answer: Any) -> None:
    """Lie: no longer know a topic."""
    if isinstance(answer, FetchResponse) and answer.responses:
        answer.responses[0].partitions[0].error_code = 3


def _accepts(answer: Any) -> None:
    """Lie: claim that a refused batch was written."""
    if isinstance(answer, ProduceResponse):
        for part in answer.responses[0].partition_responses:
            if part.error_code:
                part.error_code, part.base_offset = 0, 0


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (_shifts, "inconsistent-offsets"),
        (_drops_marks, "went from"),
        (_serves_less, "corrupt"),
        (_flips, "corrupt"),
        (_refuses, "code -1 for a good batch"),
        (_forgets, "is unknown now"),
        (_hides, "got nothing"),
        (_has_no_place, "got out of range"),
        (_accepts, "a bad batch to"),
    ],
)
def test_a_broker_that_lies_is_caught(broker: MemoryBroker, lie: Lie, said: str) -> None:
    kinds = ["producer", "bad producer", "idempotent", "fetcher"]
    record = history(broker, "lies", kinds, steps=20, lie=lie, topics=("plain", "rolls"))
    found = [*record.failures]
    found += [anomaly.detail for _, _, anomaly in record.breaches]
    found += [anomaly.name for anomaly in check(record.sealed()).anomalies]
    found += ["corrupt" for _ in record.corrupt]
    found += [f"got {one.what}" for one in record.unserved]
    assert any(said in one for one in found), found


def test_every_kind_of_topic_can_be_made(broker: MemoryBroker) -> None:
    for name, (configs, _) in KINDS_OF_TOPIC.items():
        wanted = CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=configs[key]) for key in configs],
        )
        answer = broker.run(broker.call(CreateTopicsRequest(topics=[wanted]), 7))
        assert answer.topics[0].error_code == 0, answer


def test_two_runs_are_the_same() -> None:
    def told_once() -> tuple[int, list[Any]]:
        one = MemoryBroker(MemoryFileSystem())
        chance = random.Random(1)
        with mock.patch("os.urandom", chance.randbytes):
            one.start()
            record = history(one, "twice", list(KINDS), steps=15, drop_chance=0.3)
        one.end()
        return record.request_count, record.ops

    assert told_once() == told_once()
