"""A minimal Kafka client: bytes on a socket, no hidden requests, no retries.

It can send requests that no client library would. It imports nothing of the product. It writes
each request in one version, mostly the last before the flexible ones, by Kafka's message
definitions (…Request.json); `call` frames them with header version 1.
"""

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 18, 19, 20, 22
OFFSET_FOR_LEADER_EPOCH = 23

LATEST, EARLIEST = -1, -2
PRODUCE_VERSION = 8
FETCH_VERSION = 4
TIMEOUT_S = 60.0


class Closed(Exception):
    """The broker ended the connection."""


def int8(number: int) -> bytes:
    """Return a signed byte."""
    return struct.pack(">b", number)


def int16(number: int) -> bytes:
    """Return two bytes, big-endian."""
    return struct.pack(">h", number)


def int32(number: int) -> bytes:
    """Return four bytes, big-endian."""
    return struct.pack(">i", number)


def int64(number: int) -> bytes:
    """Return eight bytes, big-endian."""
    return struct.pack(">q", number)


def string(text: str | bytes | None) -> bytes:
    """Return a string with a size of two bytes before it; None is the null string."""
    if text is None:
        return int16(-1)
    raw = text.encode() if isinstance(text, str) else text
    return int16(len(raw)) + raw


def sized(data: bytes | None) -> bytes:
    """Return bytes with a size of four bytes before them; None is null."""
    return int32(-1) if data is None else int32(len(data)) + data


def array(*items: bytes) -> bytes:
    """Return an array of encoded items."""
    return int32(len(items)) + b"".join(items)


def header(api_key: int, version: int, correlation_id: int = 1, client_id: str = "raw") -> bytes:
    """Return a request header of version 1."""
    return struct.pack(">hhi", api_key, version, correlation_id) + string(client_id)


def frame(payload: bytes) -> bytes:
    """Return `payload` with its size before it."""
    return int32(len(payload)) + payload


class Reader:
    """Reads the fields of an answer from its front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        end = self.position + size
        assert 0 <= size <= len(self.data) - self.position, f"answer too short: {self.data!r}"
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def number(self, size: int) -> int:
        """Return the next `size` bytes as a signed number."""
        return int.from_bytes(self.take(size), "big", signed=True)

    def string(self) -> str | None:
        """Return a string or null."""
        size = self.number(2)
        return None if size < 0 else self.take(size).decode()

    def sized(self) -> bytes:
        """Return bytes; null as empty."""
        return self.take(max(self.number(4), 0))


@dataclass
class Produced:
    """The broker's answer to Produce for one partition."""

    error: int
    base_offset: int
    message: str | None


@dataclass
class Fetched:
    """The broker's answer to Fetch for one partition."""

    error: int
    high_watermark: int
    records: bytes


class RawClient:
    """One connection."""

    def __init__(self, host: str, port: int, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    # -- bytes --

    def send(self, data: bytes) -> None:
        """Send bytes as they are. Raises Closed if the broker has closed the connection."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed(str(error)) from None

    def receive_frame(self) -> bytes:
        """Return the next answer without its size. Raises Closed at the end, and TimeoutError."""
        size = int.from_bytes(self._receive(4), "big", signed=True)
        assert size >= 0, f"answer of size {size}"
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                piece = self.socket.recv(65536)
            except ConnectionResetError as error:
                raise Closed(str(error)) from None
            if not piece:
                raise Closed(f"end of stream after {len(self._received)} of {size} bytes")
            self._received += piece
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def is_closed(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the broker closes the connection within `timeout_s`; skips answers."""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True
        return True

    # -- requests --

    def send_request(self, api_key: int, version: int, body: bytes) -> None:
        """Send a request with the next correlation id."""
        self._correlation_id += 1
        self.send(frame(header(api_key, version, self._correlation_id) + body))

    def call(self, api_key: int, version: int, body: bytes) -> Reader:
        """Send a request, check the correlation id, and return the rest of the answer."""
        self.send_request(api_key, version, body)
        answer = Reader(self.receive_frame())
        found = answer.number(4)
        assert found == self._correlation_id, f"answer to {found}, expected {self._correlation_id}"
        return answer

    def api_versions(self) -> dict[int, tuple[int, int]]:
        """Return the served versions by API key."""
        answer = self.call(API_VERSIONS, 0, b"")
        assert answer.number(2) == 0
        count = answer.number(4)
        rows = [(answer.number(2), answer.number(2), answer.number(2)) for _ in range(count)]
        return {key: (low, high) for key, low, high in rows}

    def create_topic(self, name: str | bytes, partitions: int = 1, replicas: int = 1) -> int:
        """Create one topic and return its error code."""
        return self.create_topics(topic_to_create(name, partitions, replicas))[0]

    def create_topics(self, *topics: bytes) -> list[int]:
        """Create topics encoded by `topic_to_create` and return their error codes."""
        return created(self.call(CREATE_TOPICS, 4, create_topics_body(*topics)))

    def produce(
        self, topic: str, batch: bytes | None, partition: int = 0, acks: int = -1
    ) -> Produced:
        """Produce one record set and return its part of the answer."""
        body = produce_body(topic, batch, partition, acks)
        return produced(self.call(PRODUCE, PRODUCE_VERSION, body), partition)

    def fetch(
        self, topic: str, offset: int, partition: int = 0, size_max: int = 1 << 20
    ) -> Fetched:
        """Fetch from one partition without waiting."""
        body = fetch_body(topic, offset, partition, size_max)
        return fetched(self.call(FETCH, FETCH_VERSION, body), partition)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset after the last record."""
        body = list_offsets_body(topic, partition, LATEST)
        error, offset = listed_offset(self.call(LIST_OFFSETS, 1, body), partition)
        assert error == 0, f"error code {error}"
        return offset


def topic_to_create(
    name: str | bytes,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Return one topic of a CreateTopics request, versions 2 to 4."""
    pairs = array(*(string(key) + string(value) for key, value in configs.items()))
    return string(name) + int32(partitions) + int16(replicas) + array() + pairs


def create_topics_body(*topics: bytes) -> bytes:
    """Return a CreateTopics request, versions 2 to 4, of topics from `topic_to_create`."""
    return array(*topics) + int32(10_000) + int8(0)


def produce_body(
    topic: str | bytes, batch: bytes | None, partition: int = 0, acks: int = -1
) -> bytes:
    """Return a Produce request, versions 3 to 8."""
    partitions = array(int32(partition) + sized(batch))
    return string(None) + int16(acks) + int32(10_000) + array(string(topic) + partitions)


def fetch_body(
    topic: str, offset: int, partition: int = 0, size_max: int = 1 << 20, wait_ms: int = 0
) -> bytes:
    """Return a Fetch request, version 4."""
    partitions = array(int32(partition) + int64(offset) + int32(size_max))
    head = int32(-1) + int32(wait_ms) + int32(1) + int32(size_max) + int8(0)
    return head + array(string(topic) + partitions)


def list_offsets_body(topic: str, partition: int, timestamp: int) -> bytes:
    """Return a ListOffsets request, version 1, for a timestamp, LATEST or EARLIEST."""
    return int32(-1) + array(string(topic) + array(int32(partition) + int64(timestamp)))


def created(answer: Reader) -> list[int]:
    """Read the answer to `create_topics_body`: the error code of each topic."""
    answer.number(4)
    codes = []
    for _ in range(answer.number(4)):
        answer.string()
        codes.append(answer.number(2))
        answer.string()
    return codes


def _skip_to_partition(answer: Reader, partition: int | None) -> None:
    """Skip to the data of the answer's only partition; check its index unless it is None."""
    assert answer.number(4) == 1
    answer.string()
    found = answer.number(4), answer.number(4)
    assert found == (1, found[1] if partition is None else partition), found


def produced(answer: Reader, partition: int | None = None) -> Produced:
    """Read the answer to `produce_body`."""
    _skip_to_partition(answer, partition)
    error, base_offset = answer.number(2), answer.number(8)
    answer.take(16)
    for _ in range(answer.number(4)):
        answer.number(4)
        answer.string()
    return Produced(error, base_offset, answer.string())


def fetched(answer: Reader, partition: int | None = None) -> Fetched:
    """Read the answer to `fetch_body`."""
    answer.number(4)
    _skip_to_partition(answer, partition)
    error, high_watermark = answer.number(2), answer.number(8)
    answer.number(8)
    for _ in range(max(answer.number(4), 0)):
        answer.take(16)
    return Fetched(error, high_watermark, answer.sized())


def listed_offset(answer: Reader, partition: int | None = None) -> tuple[int, int]:
    """Read the answer to `list_offsets_body`: (error, offset)."""
    _skip_to_partition(answer, partition)
    error, _ = answer.number(2), answer.number(8)
    return error, answer.number(8)
