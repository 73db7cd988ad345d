"""A consumer for asyncio: partitions of one topic, each with its own position.

    async with Consumer("127.0.0.1:9094", "words") as consumer:
        await consumer.seek_to(START)                 # or END, a time in ms, or seek(partition, 5)
        while records := await consumer.poll():
            ...

The caller decides when to fetch: `poll` sends one Fetch for raw batches at all positions, opens
them, and advances the positions past what it returns. Nothing is read ahead, unless the caller says
where reading will end, and the broker keeps no state. Positions also advance past control batches
and gaps, by the batches' offsets. After a lost connection the next `poll` reconnects; the positions
are kept.

An error of one partition does not discard the records of others: they are returned, and the next
`poll` raises the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from client.codes import code_of, code_text
from client.msgpack.batch_openers import OFFSET_END, BatchOpener
from client.msgpack.fetching import (
    END,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    RECORDS,
    START,
    FetchError,
    end_of,
    fetch_body,
    opened,
)
from client.msgpack.transport import Topics, Transport, TransportError, UnknownPlace
from protocol.errors import ErrorCode
from protocol.record_errors import RecordError
from protocol.records import Record

TIMEOUT_S: Final = 30.0


class Consumed(NamedTuple):
    """A record and its partition."""

    partition: int
    record: Record


class _Ahead(NamedTuple):
    """A Fetch that was sent before it was asked for: partitions with offsets, and its answer."""

    wanted: list[tuple[int, int]]
    answer: asyncio.Future[dict[str, Any]]


class Consumer:
    """Reads the given `partitions` of `topic`, by default all.

    With `committed_only` it reads what Kafka's read_committed does: up to the last stable offset,
    which is then the end of a partition, and without the records of aborted transactions.
    """

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        partitions: Iterable[int] | None = None,
        timeout_s: float = TIMEOUT_S,
        committed_only: bool = False,
        opener: BatchOpener = RECORDS,
    ) -> None:
        """`opener` picks the records that `poll` returns; positions pass the others."""
        self.topic = topic
        self._opener = opener
        self.positions: dict[int, int] = {}
        self._wanted = None if partitions is None else sorted(set(partitions))
        self._isolation = READ_COMMITTED if committed_only else READ_UNCOMMITTED
        self._transport = Transport(address, timeout_s)
        self._topics = Topics(self._transport)
        self._topic_id = b""
        self._trouble: FetchError | RecordError | None = None
        self._ahead: _Ahead | None = None

    async def __aenter__(self) -> Self:
        """Connect and look up the topic; positions are the starts of its partitions.

        Raises TransportError, and UnknownPlace for an unknown topic or partition.
        """
        try:
            self._topic_id, count = await self._topics.find(self.topic, create=False)
            wanted = list(range(count)) if self._wanted is None else self._wanted
            self._take(wanted, count)
            await self.seek_to(START)
        except BaseException:
            self._transport.close()
            raise
        return self

    def _take(self, partitions: list[int], count: int) -> None:
        for partition in partitions:
            if not 0 <= partition < count:
                raise UnknownPlace(
                    f"topic {self.topic!r} has partitions 0 to {count - 1}, not {partition}"
                )
        self.positions = dict.fromkeys(partitions, 0)

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        self._transport.close()

    def seek(self, partition: int, offset: int) -> None:
        """Continue reading a partition at `offset`."""
        if partition not in self.positions:
            raise UnknownPlace(f"partition {partition} is not read by this consumer")
        self.positions[partition] = offset

    async def seek_to(self, timestamp: int) -> None:
        """Continue at the first record at or after a time (ms since 1970), or at START or END.

        If no record is that late, continue at the end.
        """
        found = await self.offsets(timestamp)
        ends = await self.offsets(END) if -1 in found.values() else {}
        for partition, offset in found.items():
            self.positions[partition] = ends[partition] if offset == -1 else offset

    async def end_offsets(self) -> dict[int, int]:
        """Return the end offset of each partition that is read."""
        return await self.offsets(END)

    async def offsets(self, timestamp: int) -> dict[int, int]:
        """Return each partition's offset for a time, START or END, -1 if there is none."""
        asked = [{"partition_index": one, "timestamp": timestamp} for one in self.positions]
        answer = await self._transport.call(
            "list_offsets",
            {
                "replica_id": -1,
                "isolation_level": self._isolation,
                "topics": [{"name": self.topic, "partitions": asked}],
            },
        )
        found = {}
        for one in answer["topics"][0]["partitions"]:
            self._check(one["partition_index"], one["error_code"])
            found[one["partition_index"]] = one["offset"]
        return found

    async def poll(
        self,
        *,
        wait_ms: int = 500,
        partitions: Iterable[int] = (),
        ends: Mapping[int, int] | None = None,
    ) -> list[Consumed]:
        """Return records from the positions on, in order within each partition.

        Waits up to `wait_ms` for the first record, then returns an empty list. `partitions` limits
        the fetch, and `ends` the records. Raises TransportError, FetchError, UnknownPlace if the
        topic is gone or another one, and RecordError for a damaged batch.
        """
        batches = await self.poll_batches(wait_ms=wait_ms, partitions=partitions, ends=ends)
        return [Consumed(partition, record) for partition, found in batches for record in found]

    async def poll_batches(
        self,
        *,
        wait_ms: int = 500,
        partitions: Iterable[int] = (),
        ends: Mapping[int, int] | None = None,
    ) -> list[tuple[int, list[Any]]]:
        """As `poll`, but return what the opener made of each batch, with its partition.

        With `ends`, the next Fetch is sent before the batches of this one are opened, so that the
        broker sends meanwhile. It asks for what is below the ends, so no answer waits for records.
        """
        if self._trouble is not None:
            trouble, self._trouble = self._trouble, None
            raise trouble
        asked = list(partitions) or list(self.positions)
        # The first partition of a request is served first: take turns.
        self.positions[asked[0]] = self.positions.pop(asked[0])
        answer = await self._fetch(asked, wait_ms)
        answered = [one for topic in answer["responses"] for one in topic["partitions"]]
        if ends is not None:
            await self._fetch_ahead(answered, ends, wait_ms)
        consumed: list[tuple[int, list[Any]]] = []
        for one in answered:
            try:
                consumed.extend(self._opened(one, ends))
            except (FetchError, RecordError) as error:
                self._trouble = self._trouble or error
        if self._trouble is not None and not consumed:
            trouble, self._trouble = self._trouble, None
            raise trouble
        return consumed

    async def _fetch(self, asked: list[int], wait_ms: int) -> dict[str, Any]:
        wanted = [(partition, self.positions[partition]) for partition in asked]
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.wanted == wanted:
            # A caller that was long away finds the connection closed: it is asked again.
            with suppress(TransportError):
                return await ahead.answer
        elif ahead is not None:
            ahead.answer.cancel()
        topic_id, _ = await self._topics.find(self.topic, create=False)
        if topic_id != self._topic_id:  # a position of the old one would skip records of the new
            raise UnknownPlace(
                f"topic {self.topic!r} was deleted and created again; read it from its beginning"
            )
        body = fetch_body({topic_id: wanted}, wait_ms, self._isolation)
        return await self._transport.call("fetch", body, wait_ms=wait_ms)

    async def _fetch_ahead(
        self, answered: list[dict[str, Any]], ends: Mapping[int, int], wait_ms: int
    ) -> None:
        """Ask for what comes after an answer, unless something in it is wrong."""
        topic_id = self._topics.known(self.topic)
        if topic_id is None or any(one["error_code"] for one in answered):
            return
        positions = dict(self.positions)
        try:
            for one in answered:
                end = end_of(one["records"] or b"")
                if end is not None:
                    positions[one["partition_index"]] = end
        except RecordError:
            return
        wanted = [place for place in positions.items() if place[1] < ends.get(place[0], 0)]
        if wanted:
            body = fetch_body({topic_id: wanted}, wait_ms, self._isolation)
            with suppress(TransportError):
                answer = await self._transport.ask("fetch", body, wait_ms=wait_ms)
                self._ahead = _Ahead(wanted, answer)

    def _opened(
        self, one: dict[str, Any], ends: Mapping[int, int] | None
    ) -> Iterator[tuple[int, list[Any]]]:
        """Yield what a partition's batches hold, advancing its position after each."""
        partition = one["partition_index"]
        self._check(partition, one["error_code"])
        aborted = one.get("aborted_transactions") or ()
        end = OFFSET_END if ends is None else ends[partition]
        raw, position = one["records"] or b"", self.positions[partition]
        for found, batch in opened(raw, position, aborted, self._opener, end):
            self.positions[partition] = batch.next_offset
            if found:
                yield partition, found

    def _check(self, partition: int, number: int) -> None:
        if not number:
            return
        code = code_of(number)
        if code.retriable:
            self._topics.forget()
        advice = ""
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            advice = (
                " The records there are deleted, or not written yet: `barnabas topics describe` "
                "shows the first and the end offset."
            )
        at = self.positions.get(partition)
        raise FetchError(
            f"{self.topic}-{partition} at offset {at}: {code_text(number)}{advice}",
            retriable=code.retriable,
        )
