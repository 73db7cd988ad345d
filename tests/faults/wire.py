"""The raw client, pipelined: each answer is a future, and nothing is retried.

Requests and their versions are those of `tests.support.raw_client`. When the broker closes the
connection, every future ends with `Closed`.

The raw client blocks for each answer; a workload of many clients in one loop needs this one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from tests.support.patience import stretch
from tests.support.raw_client import (
    CREATE_TOPICS,
    FETCH,
    FETCH_VERSION,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    PRODUCE_VERSION,
    Closed,
    Fetched,
    Reader,
    array,
    create_topics_body,
    created,
    fetch_body,
    fetched,
    frame,
    header,
    int32,
    int64,
    list_offsets_body,
    listed_offset,
    produce_body,
    string,
    topic_to_create,
)

DELETE_RECORDS = 21
ANSWER_S_MAX = 30.0  # a broker that is silent for longer counts as gone, on an idle machine


class Connection:
    """One connection; requests may be sent before earlier ones are answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: deque[asyncio.Future[Reader]] = deque()
        self._sent = 0
        self._closed = ""
        self._task = asyncio.create_task(self._receive())

    @staticmethod
    async def open(host: str, port: int) -> Connection:
        """Connect. Raises OSError."""
        return Connection(*await asyncio.open_connection(host, port))

    def send(
        self, api_key: int, version: int, body: bytes, *, answered: bool = True
    ) -> asyncio.Future[Reader]:
        """Send a request; the future is its answer after the correlation id, or Closed."""
        future: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()
        if self._closed:
            future.set_exception(Closed(self._closed))
            future.exception()  # retrieved, so that asyncio does not warn about it
            return future
        self._sent += 1
        self._writer.write(frame(header(api_key, version, self._sent) + body))
        if answered:
            self._waiting.append(future)
        else:
            future.set_result(Reader(b""))
        return future

    async def call(self, api_key: int, version: int, body: bytes) -> Reader:
        """Send a request and wait for its answer. Raises Closed."""
        async with asyncio.timeout(ANSWER_S_MAX * stretch()):
            return await self.send(api_key, version, body)

    def close(self) -> None:
        """Close, and fail all requests without an answer."""
        self._end("closed by this side")
        self._task.cancel()

    async def _receive(self) -> None:
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4), "big")
                answer = Reader(await self._reader.readexactly(size))
                answer.number(4)
                self._waiting.popleft().set_result(answer)
        except (OSError, EOFError) as error:
            self._end(repr(error))

    def _end(self, why: str) -> None:
        self._closed = self._closed or why
        self._writer.close()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(Closed(why))
                future.exception()

    # -- requests -----------------------------------------------------------------------------

    def produce(
        self, topic: str, partition: int, batch: bytes, acks: int
    ) -> asyncio.Future[Reader]:
        """Send one batch; `raw_client.produced` reads the answer."""
        body = produce_body(topic, batch, partition, acks)
        return self.send(PRODUCE, PRODUCE_VERSION, body, answered=acks != 0)

    async def fetch(
        self, topic: str, partition: int, offset: int, *, wait_ms: int = 0, size_max: int = 1 << 20
    ) -> Fetched:
        """Fetch from one partition."""
        body = fetch_body(topic, offset, partition, size_max, wait_ms)
        return fetched(await self.call(FETCH, FETCH_VERSION, body), partition)

    async def offset_at(self, topic: str, partition: int, timestamp: int) -> tuple[int, int]:
        """(error, offset) of a timestamp, LATEST or EARLIEST."""
        body = list_offsets_body(topic, partition, timestamp)
        return listed_offset(await self.call(LIST_OFFSETS, 1, body), partition)

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> int:
        """Create a topic and return the error code."""
        body = create_topics_body(topic_to_create(name, partitions, configs=configs))
        (code,) = created(await self.call(CREATE_TOPICS, 4, body))
        return code

    async def topics(self) -> set[str]:
        """The names of all topics."""
        answer = await self.call(METADATA, 1, int32(-1))
        for _ in range(answer.number(4)):
            answer.number(4)
            answer.string()
            answer.number(4)
            answer.string()
        answer.number(4)
        names = set()
        for _ in range(answer.number(4)):
            answer.number(2)
            names.add(answer.string() or "")
            answer.number(1)
            for _ in range(answer.number(4)):
                answer.take(10)
                answer.take(4 * answer.number(4))
                answer.take(4 * answer.number(4))
        return names

    async def producer_id(self) -> int:
        """A new producer id, or -1."""
        answer = await self.call(INIT_PRODUCER_ID, 0, string(None) + int32(60_000))
        answer.number(4)
        error = answer.number(2)
        return -1 if error else answer.number(8)

    async def delete_records(self, topic: str, partition: int, offset: int) -> tuple[int, int]:
        """Delete the records below an offset; (error, first offset that is left)."""
        asked = array(string(topic) + array(int32(partition) + int64(offset)))
        answer = await self.call(DELETE_RECORDS, 1, asked + int32(10_000))
        answer.number(8)
        answer.string()
        answer.number(8)
        low_watermark = answer.number(8)
        return answer.number(2), low_watermark
