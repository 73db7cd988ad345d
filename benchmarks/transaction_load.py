"""The load of transactions: one process, one thread, many producers, prebuilt frames.

A producer runs one transaction after the other: the first Produce alone, since it begins the
transaction, then the others with five in flight, then EndTxn. It retries after a millisecond what
the broker refuses with CONCURRENT_TRANSACTIONS: Kafka answers that to the first request after a
commit whose markers are not written yet. Every answer is checked.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import selectors
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks import frames, load
from benchmarks import transaction_frames as raw
from benchmarks.frames import LoadError
from benchmarks.servers import Server
from benchmarks.transaction_frames import TV1, TV2, Fetched, TransactionFrames

IN_FLIGHT = 5
RETRY_SECONDS = 0.001  # a client of Kafka's waits 20 ms at least
COORDINATOR_SECONDS_MAX = 60.0
NOT_YET = (14, 15, 16, raw.CONCURRENT_TRANSACTIONS)
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
PARK_SECONDS = 0.0005
COUNT_MIN = 10  # transactions of a run, however slow they are
_numbers = itertools.count()


@dataclass
class Shape:
    """`partitions` of one topic that each producer writes to; `batch` goes to each of them."""

    batch: bytes
    producers: int = 1
    partitions: int = 1
    shared: int = 0  # partitions of the topic that the producers share; 0: each has its own
    version: int = TV2
    requests_each: int = 1
    aborted_each: int = 0  # one of so many transactions is aborted; 0: none

    @property
    def partitions_of_topic(self) -> int:
        """How many the topic needs."""
        return self.shared or self.producers * self.partitions

    def partitions_of(self, number: int) -> list[int]:
        """Return those of one producer."""
        first = number * self.partitions
        return [(first + each) % self.partitions_of_topic for each in range(self.partitions)]


@dataclass
class Ran:
    """What a run measured; `end_seconds` from EndTxn sent to its answer."""

    seconds: float = 0.0
    count: int = 0
    retries: int = 0
    cpu_seconds: float = 0.0
    end_seconds: list[float] = field(default_factory=list)


def init(server: Server, transactional_id: str) -> tuple[int, int]:
    """Return a producer id and epoch, once the coordinator is ready."""
    deadline = time.perf_counter() + COORDINATOR_SECONDS_MAX
    with load.connect(server.port) as sock:
        while True:
            code = raw.found_error(load.exchange(sock, raw.find_coordinator(transactional_id)))
            if not code:
                asked = raw.init_producer_id(transactional_id)
                code, producer_id, epoch = raw.inited(load.exchange(sock, asked))
                if not code:
                    return producer_id, epoch
            if code not in NOT_YET or time.perf_counter() > deadline:
                raise LoadError(f"{server.name} answers {code} to {transactional_id}")
            time.sleep(0.005)


def prepare(server: Server, topic: str, shape: Shape) -> list[TransactionFrames]:
    """Create the topic, and return the frames of the producers."""
    server.create_topic(topic, shape.partitions_of_topic)
    made = []
    for number in range(shape.producers):
        name = f"bench-{next(_numbers)}"
        one = TransactionFrames(
            name,
            topic,
            shape.partitions_of(number),
            shape.batch,
            version=shape.version,
            requests_each=shape.requests_each,
            aborted_each=shape.aborted_each,
        )
        one.use(*init(server, name))
        made.append(one)
    return made


class Producer:
    """One connection that runs transactions until `is_stopping`."""

    def __init__(self, port: int, asked: TransactionFrames, ran: Ran) -> None:
        self.sock = load.connect(port)
        self.frames = asked
        self.ran = ran
        self.is_stopping = False
        self.is_idle = False
        self.retry_at: float | None = None
        self._received = bytearray()
        self._step = self._added
        self._produces: list[bytearray] = []
        self._sent = self._answered = 0
        self._end_sent = 0.0

    def begin(self) -> None:
        """Send the first request of the next transaction."""
        self._produces = self.frames.begin()
        self._sent = self._answered = 0
        self.first()

    def first(self) -> None:
        """Send, or send again, the request that begins the transaction."""
        self.retry_at = None
        if self.frames.version == TV1:
            self._step = self._added
            self.sock.sendall(self.frames.add())
        else:
            self._produce(1)

    def receive(self) -> None:
        """Take what has come."""
        data = self.sock.recv(load.RECEIVE_SIZE)
        if not data:
            raise LoadError("the broker closed the connection")
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int(struct.unpack_from(">i", self._received)[0])
            if len(self._received) < end:
                return
            answer = bytes(self._received[:end])
            del self._received[:end]
            self._step(answer)

    def _refused(self, code: int, answer: bytes) -> None:
        if code != raw.CONCURRENT_TRANSACTIONS:
            raise LoadError(f"a step of a transaction failed with {code}: {answer[:96].hex()}")
        self.ran.retries += 1
        self.retry_at = time.perf_counter() + RETRY_SECONDS

    def _added(self, answer: bytes) -> None:
        if code := self.frames.added_error(answer):
            self._refused(code, answer)
        else:
            self._produce(1)

    def _produce(self, count_max: int) -> None:
        self._step = self._produced
        while self._sent < min(len(self._produces), self._answered + count_max):
            self.sock.sendall(self._produces[self._sent])
            self._sent += 1

    def _produced(self, answer: bytes) -> None:
        code = max(self.frames.produced_errors(answer))
        if code:
            if self._answered or self.frames.version == TV1:
                raise LoadError(f"a Produce failed with {code}: {answer[:96].hex()}")
            self._sent = 0
            self._refused(code, answer)
            return
        self._answered += 1
        if self._answered < len(self._produces):
            self._produce(IN_FLIGHT)
            return
        self._step = self._ended
        self._end_sent = time.perf_counter()
        self.sock.sendall(self.frames.end())

    def _ended(self, answer: bytes) -> None:
        code, producer_id, epoch = raw.ended(answer)
        if code:
            raise LoadError(f"EndTxn failed with {code}: {answer[:96].hex()}")
        self.ran.end_seconds.append(time.perf_counter() - self._end_sent)
        self.ran.count += 1
        if self.frames.version == TV2:
            self.frames.use(producer_id, epoch)
        if self.is_stopping:
            self.is_idle = True
        else:
            self.begin()


class Producers:
    """Drives producers with one selector."""

    def __init__(self, producers: Sequence[Producer]) -> None:
        self._producers = producers
        self._selector = selectors.DefaultSelector()
        for one in producers:
            self._selector.register(one.sock, selectors.EVENT_READ, one)
        self._retries: list[tuple[float, int]] = []

    def run(self, until: float) -> None:
        """Go on until a time, or until all producers are idle."""
        numbers = {id(one): number for number, one in enumerate(self._producers)}
        heard = time.perf_counter()
        while (now := time.perf_counter()) < until:
            while self._retries and self._retries[0][0] <= now:
                self._producers[heapq.heappop(self._retries)[1]].first()
            wait = self._retries[0][0] - now if self._retries else until - now
            ready = self._selector.select(max(0.0, min(wait, 1.0)))
            for key, _ in ready:
                heard = now
                one: Producer = key.data
                one.receive()
                if one.retry_at is not None:
                    heapq.heappush(self._retries, (one.retry_at, numbers[id(one)]))
                    one.retry_at = None
            if all(one.is_idle for one in self._producers) or now - heard > load.ANSWER_SECONDS_MAX:
                return

    def close(self) -> None:
        """End the transactions that are open, and close the connections."""
        for one in self._producers:
            one.is_stopping = True
        self.run(time.perf_counter() + load.ANSWER_SECONDS_MAX)
        self._selector.close()
        for one in self._producers:
            one.sock.close()


def back_to_back(
    server: Server, all_frames: Sequence[TransactionFrames], *, warm_seconds: float, seconds: float
) -> Ran:
    """Run transactions one after the other on each producer."""
    warming, ran = Ran(), Ran()
    producers = [Producer(server.port, one, warming) for one in all_frames]
    driven = Producers(producers)
    try:
        for one in producers:
            one.begin()
        driven.run(time.perf_counter() + warm_seconds)
        for one in producers:
            one.ran = ran
        cpu, begun = server.cpu_seconds(), time.perf_counter()
        driven.run(begun + seconds)
        while ran.count < COUNT_MIN and time.perf_counter() - begun < load.ANSWER_SECONDS_MAX:
            driven.run(time.perf_counter() + seconds)
        ran.seconds = time.perf_counter() - begun
        ran.cpu_seconds = server.cpu_seconds() - cpu
        for one in producers:
            one.ran = warming
    finally:
        with contextlib.suppress(OSError):
            driven.close()
    return ran


def run_count(server: Server, all_frames: Sequence[TransactionFrames], count: int) -> None:
    """Run at least so many transactions, shared among the producers."""
    ran = Ran()
    producers = [Producer(server.port, one, ran) for one in all_frames]
    driven = Producers(producers)
    try:
        for one in producers:
            one.begin()
        while ran.count < count:
            driven.run(time.perf_counter() + 0.05)
    finally:
        driven.close()


def readable(server: Server, topic: str, one: TransactionFrames, count: int) -> list[float]:
    """Return the seconds from EndTxn sent to the answer of a read_committed fetch that waits."""
    taken: list[float] = []
    partition = one.partitions[0]
    ask, offset_at = raw.fetch(topic, partition, 0, isolation=READ_COMMITTED, wait_ms=30_000)
    offset = 0
    with load.connect(server.port) as producer, load.connect(server.port) as consumer:
        for _ in range(count):
            struct.pack_into(">q", ask, offset_at, offset)
            (produce,) = one.begin()
            while True:
                answer = load.exchange(producer, produce)
                code = max(one.produced_errors(answer))
                if not code:
                    break
                if code != raw.CONCURRENT_TRANSACTIONS:
                    raise LoadError(f"a Produce failed with {code}: {answer[:96].hex()}")
                time.sleep(RETRY_SECONDS)
            consumer.sendall(ask)
            time.sleep(PARK_SECONDS)
            begun = time.perf_counter()
            producer.sendall(one.end())
            fetched = Fetched(memoryview(load.receive_frame(consumer)), topic)
            while not fetched.size:  # Kafka may answer between the marker and its effect
                fetched = Fetched(memoryview(load.exchange(consumer, ask)), topic)
            taken.append(time.perf_counter() - begun)
            code, producer_id, epoch = raw.ended(load.receive_frame(producer))
            if code or fetched.next_offset() <= offset:
                raise LoadError(f"EndTxn {code}, waited for {offset}, got {fetched.next_offset()}")
            one.use(producer_id, epoch)
            offset += 1 + one.record_count
    return taken


class Reading:
    """Reads a filled partition over and over at one isolation level.

    The answers of the first pass are taken apart; later ones are the same, and only looked up.
    """

    def __init__(self, topic: str, end_offset: int, isolation: int) -> None:
        self._topic = topic
        self._end_offset = end_offset
        self._ask, self._offset_at = raw.fetch(topic, 0, 0, isolation=isolation, wait_ms=500)
        self._known: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.aborted_count = 0

    def run(self, server: Server, seconds: float) -> tuple[int, float, float]:
        """Return the bytes of record batches, the seconds, and the broker's CPU seconds."""
        with load.connect(server.port) as sock:
            if not self._known:
                for _ in self._pass(sock):  # whole, before it counts
                    pass
            size, cpu, begun = 0, server.cpu_seconds(), time.perf_counter()
            while not size or time.perf_counter() - begun < seconds:
                size += sum(self._pass(sock))
            return size, time.perf_counter() - begun, server.cpu_seconds() - cpu

    def _pass(self, sock: socket.socket) -> Iterator[int]:
        offset, aborted_count = 0, 0
        buffer = bytearray(4 << 20)
        while offset < self._end_offset:
            struct.pack_into(">q", self._ask, self._offset_at, offset)
            sock.sendall(self._ask)
            length = _receive_into(sock, buffer)
            known = self._known.get((offset, length))
            if known is None:
                fetched = Fetched(memoryview(buffer)[:length], self._topic)
                known = fetched.next_offset(), fetched.size, fetched.aborted_count
                if known[0] <= offset:
                    raise LoadError(f"a fetch at {offset} of {self._topic} returns nothing new")
                self._known[offset, length] = known
            offset, size, aborted = known
            aborted_count += aborted
            yield size
        self.aborted_count = aborted_count


def _receive_into(sock: socket.socket, buffer: bytearray) -> int:
    """Receive one answer; return its length with the prefix."""
    view, filled, wanted = memoryview(buffer), 0, 4
    while filled < wanted:
        count = sock.recv_into(view[filled:])
        if not count:
            raise LoadError("the broker closed the connection")
        filled += count
        if wanted == 4 and filled >= 4:
            wanted = 4 + struct.unpack_from(">i", buffer)[0]
    return wanted


def offsets_end(server: Server, topic: str) -> int:
    """Return the last stable offset of partition 0."""
    ask, _ = raw.fetch(topic, 0, 0, isolation=READ_COMMITTED, wait_ms=0)
    with load.connect(server.port) as sock:
        return int(Fetched(memoryview(load.exchange(sock, ask)), topic).last_stable_offset)


def batch_of(count: int, size: int = 100) -> bytes:
    """A batch of so many records of `size` bytes."""
    return frames.record_batch([bytes(size)] * count, time.time_ns() // 1_000_000)
