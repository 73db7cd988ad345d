"""What a request costs, in counts that no machine changes: functions, turns, writes, file calls.

Figures in time belong to benchmarks, where a slower request is seen once somebody measures it. Here
one that takes a further function of the house, a further turn of a task, a further write to the
socket or a further file call fails at once. The bounds are what a request costs today. Whoever
makes one cheaper lowers them; whoever raises them says why.

The functions are those of the house that the loop enters, and those of C that these call.
"""

from __future__ import annotations

import asyncio
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from broker.handlers import HANDLERS
from broker.lifecycle.environment import system_environment
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.network.wide_sockets import Receiving, WideSockets
from broker.server import Broker
from protocol.framing import SIZE_BYTES, FrameReader
from protocol.kafka.codec import encode_message
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support import raw_batches
from tests.support.raw_client import FETCH, PRODUCE, RawClient
from tests.unit.broker.test_server import loaded, port_of, served
from tests.unit.broker.test_ways import HOUSE, is_unasked, path_of

FILES = "storage/files/os_filesystem.py:OsFile"
FLUSHES = ("broker/partitions/lingering.py", "broker/runtime/blocking_pool.py")
COUNT = 20
VERSION = 12  # of Produce and Fetch
BATCH = raw_batches.batch([b"v" * 100])
ROUNDS = 2  # of which the cheapest counts


class Client(RawClient):
    """Sends at once, or gathers."""

    gathers = False

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self.gathered = bytearray()

    def send(self, data: bytes) -> None:
        if self.gathers:
            self.gathered += data
        else:
            super().send(data)


Ask = Callable[[Client, bool], None]


class Costs(NamedTuple):
    """Counts of all requests together, or of one."""

    functions: float
    c_functions: float
    turns: float  # of processors and workers
    writes: float
    file_calls: float


def is_flush(frame: FrameType | None) -> bool:
    """Return whether a call belongs to a flush, of which there are as many as time allows."""
    while frame is not None:
        if path_of(frame) in FLUSHES:
            return True
        frame = frame.f_back
    return False


class Meter:
    """Counts what the loop enters while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.entered: Counter[str] = Counter()
        self.c_functions = 0

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.is_on or event not in ("call", "c_call"):
            return
        path = path_of(frame)
        if not path.startswith(HOUSE) or is_unasked(frame) or is_flush(frame):
            return
        if event == "call":
            self.entered[f"{path}:{frame.f_code.co_qualname}"] += 1
        else:
            self.c_functions += 1

    def taken(self) -> Costs:
        """Return what was counted, and count anew."""
        entered, c_functions = self.entered, self.c_functions
        self.entered, self.c_functions = Counter(), 0
        files = [
            name for name in entered if name.startswith("storage/files/os_filesystem.py:OsFile")
        ]
        return Costs(
            functions=sum(entered.values()),
            c_functions=c_functions,
            turns=entered["broker/io_worker.py:IoWorker.run"]
            + entered["broker/network/processor.py:Processor.run"],
            writes=entered["broker/network/connection.py:Connection.flush"],
            file_calls=sum(entered[name] for name in files),
        )


def ask_produce(connection: Client, is_pipelined: bool) -> None:
    data = PartitionProduceData(index=0, records=BATCH)
    topic = TopicProduceData(name="t", partition_data=[data])
    body = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic])
    ask(connection, PRODUCE, body, is_pipelined)


def ask_fetch(connection: Client, is_pipelined: bool) -> None:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=200)
    topic = FetchTopic(topic="t", partitions=[asked])
    body = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=200, topics=[topic])
    ask(connection, FETCH, body, is_pipelined)


def ask(connection: Client, key: int, body: object, is_pipelined: bool) -> None:
    """Send requests as today's clients do: in a flexible version, with a client id."""
    request = struct.pack(">hhih", key, VERSION, 7, 2) + b"me\0"
    request += encode_message(body, VERSION)
    connection.gathers = is_pipelined
    for _ in range(COUNT):
        connection.send(struct.pack(">i", len(request)) + request)
        if not is_pipelined:
            connection.receive_frame()
    if is_pipelined:
        connection.gathers = False
        connection.send(bytes(connection.gathered))  # all in one packet
        connection.gathered.clear()
        for _ in range(COUNT):
            connection.receive_frame()


async def costs(
    directory: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, *, is_pipelined: bool
) -> Costs:
    """Return what a broker spends on COUNT requests that it has served once before.

    The profile makes all slower: a worker gets the time for all requests that have come, and
    requests are timed as if they came fast.
    """
    monkeypatch.setattr("broker.io_worker.SLICE_NS", 1 << 60)
    monkeypatch.setattr("broker.runtime.request_times.EACH_NS", 1 << 60)
    meter = Meter()
    rounds: list[Costs] = []
    broker = Broker(loaded(directory), system_environment())
    running = await served(broker)

    def client() -> None:
        with Client(port_of(broker)) as connection:
            assert connection.create_topic("t") == 0
            connection.produce("t", BATCH)
            ask(connection, is_pipelined)
            for _ in range(ROUNDS):
                time.sleep(0.05)  # until the broker is at rest
                meter.is_on = True
                ask(connection, is_pipelined)
                meter.is_on = False
                rounds.append(meter.taken())

    for handler in HANDLERS:  # else a thread imports them meanwhile
        handler.load()
    sys.setprofile(meter.note)
    try:
        await asyncio.to_thread(client)
    finally:
        sys.setprofile(None)
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    return min(rounds)


# Functions of the house and of C, turns, writes and file calls, each of COUNT requests.
BOUNDS: dict[tuple[Ask, bool], tuple[float, ...]] = {
    (ask_produce, False): (61, 61, 0.2, 1, 1),
    (ask_produce, True): (38, 49, 0.2, 0.1, 1),
    (ask_fetch, False): (61, 70, 0.2, 1, 1),
    (ask_fetch, True): (39, 59, 0.2, 0.1, 1),
}


LARGE_BATCH = raw_batches.batch([b"v" * 900_000])
LARGE_COUNT = 3  # the second one learns that its connection sends large ones


async def test_a_large_batch_is_received_where_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large frame behind another, only its size goes through the buffer that all share."""
    shared: list[int] = []
    wide: list[int] = []
    receive, widen = FrameReader.receive, WideSockets.widen

    def counted(reader: FrameReader, data: memoryview) -> list[bytearray]:
        shared.append(len(data))
        return receive(reader, data)

    def widened(sockets: WideSockets, connection: Receiving) -> None:
        widen(sockets, connection)
        wide.append(len(sockets))

    monkeypatch.setattr(FrameReader, "receive", counted)
    monkeypatch.setattr(WideSockets, "widen", widened)
    broker = Broker(loaded(tmp_path / "data"), system_environment())
    running = await served(broker)

    def client() -> None:
        with Client(port_of(broker)) as connection:
            assert connection.create_topic("t") == 0
            for number in range(LARGE_COUNT):
                if number == LARGE_COUNT - 1:
                    shared.clear()
                connection.produce("t", LARGE_BATCH)

    await asyncio.to_thread(client)
    broker._signals.received(signal.SIGTERM)
    assert await running == EXIT_CLEAN
    assert shared == [SIZE_BYTES]
    assert set(wide) == {1}


@pytest.mark.parametrize(("ask", "is_pipelined"), BOUNDS)
async def test_a_request_costs_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask, is_pipelined: bool
) -> None:
    found = await costs(tmp_path / "data", ask, monkeypatch, is_pipelined=is_pipelined)
    spent = Costs(*(one / COUNT for one in found))
    print(spent)
    dear = {
        name: (cost, bound)
        for name, cost, bound in zip(Costs._fields, spent, BOUNDS[ask, is_pipelined], strict=True)
        if cost > bound
    }
    assert dear == {}, "a cost of one request, and its bound"
