"""Every kind of client against real handlers: without faults no client objects to anything.

The broker here is `MemoryBroker`, called at once: no network, no waits. The records of a run pass
the checker, and a broker that lies is caught.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.handlers import HANDLERS
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from protocol.msgpack.dialect import MsgpackDialect
from tests.simulation.clients import consumers, producers
from tests.simulation.clients.read_back import read_back
from tests.simulation.clients.topics import Topics
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


@pytest.mark.parametrize("seed", range(12))
def test_no_client_objects_to_a_sound_broker(broker: MemoryBroker, seed: int) -> None:
    record = history(broker, f"sound {seed}", list(KINDS))
    assert record.failures == []
    assert record.history.final
    assert record.breaches == []
    assert record.ledger.found == []
    assert record.corrupt == []
    assert not record.unanswered
    assert check(record.sealed()).anomalies == []
    outcomes = Counter(op.outcome for op in record.ops if op.sends)
    assert outcomes[OK] > 20
    assert any(poll.records for op in record.ops for poll in op.polls)


@pytest.mark.parametrize("seed", range(12))
def test_no_client_objects_to_a_network_that_loses_connections(
    broker: MemoryBroker, seed: int
) -> None:
    record = history(broker, f"drops {seed}", list(KINDS), drop_chance=0.5)
    assert record.failures == []
    assert record.breaches == []
    assert record.ledger.found == []
    assert check(record.sealed()).anomalies == []
    assert record.ended
