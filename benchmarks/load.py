"""The load: one process, one thread, prebuilt frames, several requests in flight a connection.

Owns the sockets and the counting. A run has a warm-up and a measured window; both ends of the
window are taken while the load goes on, and the requests still in flight are drained afterwards.
Every answer is checked (size and error code for Produce; error codes, first offset and whole
batches for Fetch), so a broker that fails fast does not win.

Not a client library: one topic a run, one partition a connection, nothing is retried.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks import frames
from benchmarks.frames import LoadError

RECEIVE_SIZE = 256 << 10
BURST_BYTES_MAX = 256 << 10  # small frames are sent together up to here, as a client library does
ANSWER_SECONDS_MAX = 60.0


@dataclass
class Window:
    """What one run measured: `count` requests carrying `size` bytes of batches in `seconds`."""

    seconds: float = 0.0
    count: int = 0
    size: int = 0
    server_cpu_seconds: float = 0.0
    client_cpu_seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)


def connect(port: int) -> socket.socket:
    """A blocking connection to a broker on loopback."""
    sock = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def receive_frame(sock: socket.socket) -> bytes:
    """One whole answer with its size prefix."""
    out = bytearray()
    wanted = 4
    while len(out) < wanted:
        piece = sock.recv(wanted - len(out))
        if not piece:
            raise LoadError("the broker closed the connection")
        out += piece
        if len(out) == 4 == wanted:
            wanted += struct.unpack(">i", out)[0]
    return bytes(out)


def exchange(sock: socket.socket, request: bytes | bytearray) -> bytes:
    """Send one request and return its answer."""
    sock.sendall(request)
    return receive_frame(sock)


class ProduceLine:
    """One connection that keeps `in_flight` copies of one Produce request on their way."""

    def __init__(self, port: int, frame: bytes, topic: str | bytes, in_flight: int) -> None:
        self.sock = connect(port)
        self.sock.settimeout(0)
        self.acked = 0
        self.sent = 0
        self.limit = 1 << 62  # requests to send in total
        burst = max(1, min(in_flight, BURST_BYTES_MAX // len(frame)))
        self._bursts = [frame * count for count in range(burst + 1)]
        self._burst_max = burst
        self._in_flight_max = in_flight
        self._pending = memoryview(b"")
        self._answer_size, self._error_at = frames.produced_layout(topic)
        self._prefix = struct.pack(">i", self._answer_size - 4)
        self._received = bytearray()

    def next_burst(self, count: int) -> bytes:
        """The bytes of the next `count` requests."""
        return self._bursts[count]

    def send(self) -> bool:
        """Send what fits; return True if the socket is full and must be waited for."""
        while True:
            if not self._pending:
                room = self._in_flight_max - (self.sent - self.acked)
                count = min(room, self._burst_max, self.limit - self.sent)
                if count <= 0:
                    return False
                self._pending = memoryview(self.next_burst(count))
                self.sent += count
            try:
                done = self.sock.send(self._pending)
            except BlockingIOError:
                return True
            self._pending = self._pending[done:]

    def receive(self) -> None:
        """Read the available answers; raises LoadError for any that is not a success."""
        data = self.sock.recv(RECEIVE_SIZE)
        if not data:
            raise LoadError("the broker closed the connection")
        if self._received:
            self._received += data
            data = bytes(self._received)
        size, error_at = self._answer_size, self._error_at
        position = 0
        while position + size <= len(data):
            good = data.startswith(self._prefix, position)
            if not good or data[position + error_at : position + error_at + 2] != b"\0\0":
                break
            position += size
            self.acked += 1
        rest = data[position:]
        at = error_at + 2
        if (len(rest) >= 4 and rest[:4] != self._prefix) or (
            len(rest) >= at and rest[error_at:at] != b"\0\0"
        ):
            raise LoadError(f"a Produce request failed: {rest[:96].hex()}")
        self._received = bytearray(rest)


class FetchLine:
    """One connection that reads a filled partition over and over, one request in flight."""

    def __init__(
        self,
        port: int,
        topic: str,
        partition: int,
        *,
        size_max: int,
        stored: Stored,
        wait_ms: int = 500,
    ) -> None:
        self.sock = connect(port)
        self.sock.settimeout(0)
        self.acked = 0
        self.size = 0
        self._topic = topic
        self._stored = stored
        self._frame, self._offset_at = frames.fetch(topic, partition, 0, size_max, wait_ms)
        self._buffer = bytearray(size_max + stored.batch_size + 4096)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._offset = 0
        self._asked = False

    def send(self) -> bool:
        """Ask for the next bytes unless an answer is due; a request is small and always fits."""
        if not self._asked:
            struct.pack_into(">q", self._frame, self._offset_at, self._offset)
            self.sock.sendall(self._frame)
            self._asked = True
        return False

    def receive(self) -> None:
        """Receive bytes; after a whole answer check it and choose the next offset."""
        count = self.sock.recv_into(self._view[self._filled :])
        if not count:
            raise LoadError("the broker closed the connection")
        self._filled += count
        if self._filled < 4 or self._filled < 4 + struct.unpack_from(">i", self._buffer)[0]:
            return
        position, size = frames.fetched(self._view[: self._filled], self._topic)
        batches = size // self._stored.batch_size
        base = struct.unpack_from(">q", self._buffer, position)[0] if batches else -1
        if base != self._offset:
            raise LoadError(f"asked {self._topic} for offset {self._offset}, got {base}, {size} B")
        self._offset += batches * self._stored.records
        if self._offset >= self._stored.end_offset:
            self._offset = 0
        self.acked += 1
        self.size += size
        self._filled = 0
        self._asked = False


@dataclass(frozen=True)
class Stored:
    """The content of a partition: equal batches."""

    batch_size: int
    records: int
    end_offset: int


class Run:
    """Drives lines with one selector."""

    def __init__(self, lines: Sequence[ProduceLine | FetchLine]) -> None:
        self.lines: list[ProduceLine | FetchLine] = list(lines)
        self._selector = selectors.DefaultSelector()
        for line in self.lines:
            self._selector.register(line.sock, selectors.EVENT_READ, line)
        self._full: set[ProduceLine | FetchLine] = set()
        self.each_turn: Callable[[], None] | None = None

    def nudge(self, line: ProduceLine | FetchLine) -> None:
        """Let a line send after its limit was raised."""
        self._send(line)

    def until(self, done: Callable[[], bool]) -> None:
        """Send and receive until `done`, asked after every wake-up."""
        for line in self.lines:
            self._send(line)
        last = time.perf_counter()
        while not done():
            ready = self._selector.select(1.0)
            for key, events in ready:
                line = key.data
                if events & selectors.EVENT_READ:
                    line.receive()
                self._send(line)
            if self.each_turn is not None:
                self.each_turn()
            now = time.perf_counter()
            if ready:
                last = now
            elif now - last > ANSWER_SECONDS_MAX:
                raise LoadError(f"no answer in {ANSWER_SECONDS_MAX} s")

    def close(self) -> None:
        """Close the connections."""
        self._selector.close()
        for line in self.lines:
            line.sock.close()

    def _send(self, line: ProduceLine | FetchLine) -> None:
        full = line.send()
        if full != (line in self._full):
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if full else 0)
            self._selector.modify(line.sock, events, line)
            (self._full.add if full else self._full.discard)(line)

    def acked(self) -> int:
        """Requests answered so far."""
        return sum(line.acked for line in self.lines)


def measure(
    run: Run,
    carried: Callable[[], int],
    *,
    warm_seconds: float,
    seconds: float,
    server_cpu: Callable[[], float],
) -> Window:
    start = time.perf_counter()
    run.until(lambda: time.perf_counter() - start >= warm_seconds)
    window = Window()
    count, size, cpu, own = run.acked(), carried(), server_cpu(), time.process_time()
    begun = time.perf_counter()
    run.until(lambda: time.perf_counter() - begun >= seconds)
    window.seconds = time.perf_counter() - begun
    window.count, window.size = run.acked() - count, carried() - size
    window.server_cpu_seconds = server_cpu() - cpu
    window.client_cpu_seconds = time.process_time() - own
    return window


def produce_load(
    port: int,
    topic: str,
    batch: bytes,
    *,
    acks: int,
    connections: int,
    partitions: int,
    in_flight: int,
    warm_seconds: float,
    seconds: float,
    server_cpu: Callable[[], float],
) -> Window:
    """Produce one batch over and over, connection i to partition i modulo `partitions`."""
    lines = [
        ProduceLine(port, frames.produce(topic, number % partitions, batch, acks), topic, in_flight)
        for number in range(connections)
    ]
    window = run_produce(lines, warm_seconds=warm_seconds, seconds=seconds, server_cpu=server_cpu)
    window.size = window.count * len(batch)
    return window


def run_produce(
    lines: list[ProduceLine],
    *,
    warm_seconds: float,
    seconds: float,
    server_cpu: Callable[[], float],
) -> Window:
    """Let the lines send what they have, and drain them; `size` is not counted."""
    run = Run(lines)
    try:
        window = measure(
            run,
            lambda: 0,
            warm_seconds=warm_seconds,
            seconds=seconds,
            server_cpu=server_cpu,
        )
        for line in lines:
            line.limit = line.sent
        run.until(lambda: all(line.acked == line.sent for line in lines))
    finally:
        run.close()
    return window


def fill(port: int, topic: str, batch: bytes, records: int, *, count: int) -> Stored:
    """Write `count` batches to partition 0 with acks all; return the partition's content."""
    line = ProduceLine(port, frames.produce(topic, 0, batch, frames.ACKS_ALL), topic, 5)
    line.limit = count
    run = Run([line])
    try:
        run.until(lambda: line.acked == count)
    finally:
        run.close()
    return Stored(len(batch), records, count * records)


def fetch_load(
    port: int,
    topic: str,
    stored: Stored,
    *,
    size_max: int,
    connections: int,
    warm_seconds: float,
    seconds: float,
    server_cpu: Callable[[], float],
) -> Window:
    """Read partition 0 over and over on each connection."""
    lines = [
        FetchLine(port, topic, 0, size_max=size_max, stored=stored) for _ in range(connections)
    ]
    run = Run(lines)
    try:
        return measure(
            run,
            lambda: sum(line.size for line in lines),
            warm_seconds=warm_seconds,
            seconds=seconds,
            server_cpu=server_cpu,
        )
    finally:
        run.close()


def one_in_flight(
    port: int, topic: str, batch: bytes, *, acks: int, count: int, server_cpu: Callable[[], float]
) -> Window:
    """Produce one batch at a time; `latencies` in seconds, the first tenth left out."""
    request = frames.produce(topic, 0, batch, acks)
    size, error_at = frames.produced_layout(topic)
    window = Window()
    with connect(port) as sock:
        begun, cpu = time.perf_counter(), server_cpu()
        for _ in range(count):
            start = time.perf_counter()
            answer = exchange(sock, request)
            window.latencies.append(time.perf_counter() - start)
            if len(answer) != size or answer[error_at : error_at + 2] != b"\0\0":
                raise LoadError(f"a Produce request failed: {answer[:96].hex()}")
        window.seconds = time.perf_counter() - begun
        window.server_cpu_seconds = server_cpu() - cpu
    window.count = count
    del window.latencies[: count // 10]
    return window


def produce_to_waiting_fetch(
    port: int, topic: str, batch: bytes, *, pause_seconds: float, count: int
) -> Window:
    """Time from sending a Produce (acks 1) to the whole answer of a Fetch that waits for it.

    The fetch is sent `pause_seconds` before the record, so that it is parked by then.
    """
    request = frames.produce(topic, 0, batch, 1)
    _, error_at = frames.produced_layout(topic)
    window = Window(count=count)
    ask, offset_at = frames.fetch(topic, 0, 0, 1 << 20, 30_000)
    with connect(port) as producer, connect(port) as consumer:
        answer = exchange(producer, request)
        offset = struct.unpack_from(">q", answer, error_at + 2)[0] + 1
        for _ in range(count):
            struct.pack_into(">q", ask, offset_at, offset)
            consumer.sendall(ask)
            time.sleep(pause_seconds)
            start = time.perf_counter()
            producer.sendall(request)
            got = receive_frame(consumer)
            window.latencies.append(time.perf_counter() - start)
            answer = receive_frame(producer)
            position, size = frames.fetched(memoryview(got), topic)
            base = struct.unpack_from(">q", got, position)[0] if size else -1
            if base != offset or answer[error_at : error_at + 2] != b"\0\0":
                raise LoadError(f"waited for offset {offset}, got {base}: {answer[:96].hex()}")
            offset += 1
    del window.latencies[: count // 10]
    return window
