"""Produce requests for very many partitions, or of very many bytes: appended piece by piece.

A producer that has records for 5,000 partitions may send all of them in one request, and whoever
wants to may name 200,000 partitions in one of a MiB. To append all that at once would keep the loop
from the other clients for seconds, as would encoding the answer. So a large request is appended in
pieces, and the loop turns in between; its answer is encoded in steps (`broker.runtime.steps`).

The requests of a connection are appended in their order all the same: while a large one is at it,
those behind it wait in a line (`broker.runtime.lines`). Connections take turns, one piece in each
turn of the loop: a hundred of them keep it no longer than one does. At most `BEGUN_MAX` are begun
at a time, since an answer that is half made takes 200 bytes for each partition; the others wait
with nothing but their request. One whose transaction before still ends has not begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Final, NamedTuple

from broker.runtime.lines import Lines, Turn
from broker.runtime.record_work import WalkAbandoned
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turnstile import Turnstile
from protocol.messages.produce import PartitionProduceData, ProduceResponse, TopicProduceData

LARGE: Final = 200  # topics and partitions
PARTITION_BYTES_MIN: Final = 6  # in a Kafka request, without records: a smaller one is not large
LARGE_BYTES: Final = 8 * 1024 * 1024
PIECE_COUNT: Final = 50  # each takes some 20 us
PIECE_BYTES: Final = 4 * 1024 * 1024  # to check and write a MiB takes half a millisecond
ANSWER_BYTES: Final = 50  # of a partition, about
BEGUN_MAX: Final = 8  # requests; one may name 200,000 partitions


class Piece(NamedTuple):
    """Partitions of one topic of the request; a topic may have several pieces."""

    topic: TopicProduceData
    partitions: Sequence[PartitionProduceData]

    def topic_data(self) -> TopicProduceData:
        """Return it as a request would name it."""
        topic = self.topic
        return TopicProduceData(
            name=topic.name, topic_id=topic.topic_id, partition_data=list(self.partitions)
        )


def is_large(request: Request) -> bool:
    """Whether a request is appended piece by piece."""
    topics: list[TopicProduceData] = request.body.topic_data
    count = len(topics)
    for topic in topics:
        count += len(topic.partition_data)
    return count > LARGE or request.frame_bytes > LARGE_BYTES


def pieces(topics: Sequence[TopicProduceData]) -> Iterator[list[Piece]]:
    """Yield the partitions of a request, as many at a time as are appended in one turn."""
    some: list[Piece] = []
    count = size = 0
    for topic in topics:
        start = 0
        for number, data in enumerate(topic.partition_data):
            if count >= PIECE_COUNT or size >= PIECE_BYTES:
                some.append(Piece(topic, topic.partition_data[start:number]))
                yield some
                some, start, count, size = [], number, 0, 0
            count += 1
            size += len(data.records or b"")
        some.append(Piece(topic, topic.partition_data[start:]))
        count += 1  # a topic without partitions is answered, too
        if count >= PIECE_COUNT:
            yield some
            some, count, size = [], 0, 0
    if some:
        yield some


class LargeProduces:
    """The large requests that are being appended, and those that wait for one of them."""

    __slots__ = ("_begun", "_is_stopped", "_pieces", "lines")

    def __init__(self) -> None:
        self._begun = asyncio.Semaphore(BEGUN_MAX)  # who waits for it, waits in order
        self._is_stopped = False
        self.lines = Lines()  # by connection
        self._pieces = Turnstile()  # who passes appends a piece in this turn of the loop

    def begin(
        self,
        connection: object,
        topics: Sequence[TopicProduceData],
        line_up: Callable[[], Coroutine[None, None, None] | None],
        append: Callable[[Sequence[Piece]], None],
    ) -> Coroutine[None, None, None]:
        """Take the next place of a connection; return what appends piece by piece in its turn.

        Each piece also waits for what `line_up` returns: the end of the transaction before.
        """
        return self._append(self.lines.turn(connection), topics, line_up, append)

    def stop(self) -> None:
        """Append nothing more: the logs are about to be closed. What is left ends as abandoned."""
        self._is_stopped = True

    async def _append(
        self,
        turn: Turn,
        topics: Sequence[TopicProduceData],
        line_up: Callable[[], Coroutine[None, None, None] | None],
        append: Callable[[Sequence[Piece]], None],
    ) -> None:
        async with turn:
            if (free := line_up()) is not None:
                await free
            await self._append_pieces(topics, line_up, append)

    async def _append_pieces(
        self,
        topics: Sequence[TopicProduceData],
        line_up: Callable[[], Coroutine[None, None, None] | None],
        append: Callable[[Sequence[Piece]], None],
    ) -> None:
        async with self._begun:
            for some in pieces(topics):
                await self._pieces.passed()
                if (free := line_up()) is not None:
                    await free
                if self._is_stopped:
                    raise WalkAbandoned
                append(some)


def in_steps(response: ProduceResponse) -> Steps:
    """Return an answer as one that was made in steps, so that it is encoded in steps, too."""
    for topic in response.responses:
        yield ANSWER_BYTES * len(topic.partition_responses)
    return response
