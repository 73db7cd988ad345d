"""Reads a topic's records in pages, newest or oldest first, within a budget for each request.

A page merges the partitions by timestamp. Where each stands is its cursor: the next page goes on
there, and so does a search that has used up its budget without a match.

    forward    fetch from the position, and take what comes
    backward   fetch a window that ends at the position; its first batch is the next position

The budget is bytes that were read and time that was worked, `SLICE_NS` at a turn of the loop, with
rests while clients ask (`Console.rest`). Threads read, check and open all but small batches, at
most `barnabas.decompressed.bytes.max` of each, and look for the bytes that are sought: a batch
without them is passed over. A batch that is damaged is named, and the reading goes on behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.console.aborted_batches import AbortedBatches
from broker.console.answers import ConsoleError
from broker.console.inquiry import check
from broker.console.visitor import Visitor
from broker.runtime.byte_search import has_bytes
from broker.runtime.clock import MS_NS
from broker.runtime.owners import Owner
from protocol.api_keys import ApiKey
from protocol.compression import decompress
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from protocol.record_batch import HEADER_SIZE, BatchHeader, read_header, verify
from protocol.record_errors import RecordError, TooManyRecords
from protocol.records import START, Record, iterate, skipped

if TYPE_CHECKING:
    from broker.console.console import Console

BYTES_MAX: Final = 8 * 1024 * 1024
WORK_NS: Final = 250 * MS_NS
SLICE_NS: Final = MS_NS // 4
FETCHED_BYTES: Final = 512 * 1024
INLINE_BYTES: Final = 16 * 1024  # larger batches are checked and opened in a thread
WIDTH_MAX: Final = 1 << 20  # offsets of one window, where there are holes
DENSE_WIDTH_MAX: Final = 4_096
PROBES_MAX: Final = 60
RECORDS_MAX: Final = 1_048_576  # of a batch that is opened, as everywhere in the broker
SKIPPED: Final = 200  # records that are passed over before a look at the clock
KEPT: Final = 5_000  # records of a batch that are held at a time
HEADERS_MAX: Final = 1_000  # of a record; one with more is damage to whoever shows it
FETCH_VERSION: Final = 12
UNREADABLE: Final = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR}
)


class Found(NamedTuple):
    """One record, and the batch it is in."""

    partition: int
    header: BatchHeader
    record: Record


class Packed(NamedTuple):
    """A batch as it was fetched."""

    buffer: bytes
    begin: int
    size: int


Wanted = Callable[[Found], bool]
Unpacked = tuple[int, bytes | None]  # the bytes of a batch's records; None if none is wanted


class Budget:
    """What one request may use."""

    def __init__(self, console: Console, work_ns: int = WORK_NS, bytes_max: int = BYTES_MAX):
        self._now_ns = console.services.clock.monotonic_ns
        self._rest = console.rest
        self._work_left_ns = work_ns
        self.bytes_left = bytes_max
        self._began_ns = self._now_ns()

    @property
    def is_spent(self) -> bool:
        """Whether the request must end now, with a cursor."""
        return self.bytes_left <= 0 or self._work_left_ns <= 0

    def begin(self) -> None:
        """Note that work begins again, after waiting."""
        self._began_ns = self._now_ns()

    async def turn(self) -> None:
        """Let others have the loop, if this turn's slice is used up."""
        spent_ns = self._now_ns() - self._began_ns
        if spent_ns >= SLICE_NS:
            self._work_left_ns -= spent_ns
            await self._rest()
            self._began_ns = self._now_ns()


class RecordSource:
    """One topic's records, for one visitor."""

    def __init__(
        self,
        console: Console,
        visitor: Visitor,
        topic: str,
        budget: Budget,
        *,
        isolation: int = 0,
        needle: bytes = b"",
    ) -> None:
        """`needle` is in every record that is wanted, or empty."""
        self._console = console
        self._visitor = visitor
        self.topic = topic
        self.budget = budget
        self._isolation = isolation
        self._needle = needle
        self.looked_at = 0  # records
        self.problems: list[dict[str, Any]] = []

    async def fetch(self, partition: int, offset: int, bytes_max: int) -> PartitionData:
        """Return what the broker answers a client."""
        body = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=bytes_max,
            isolation_level=self._isolation,
            topics=[
                FetchTopic(
                    topic=self.topic,
                    partitions=[
                        FetchPartition(
                            partition=partition,
                            fetch_offset=offset,
                            partition_max_bytes=bytes_max,
                        )
                    ],
                )
            ],
        )
        await self._console.rest()
        answer = await self._console.inquiry.ask(self._visitor, ApiKey.FETCH, FETCH_VERSION, body)
        check(answer.error_code)
        self.budget.begin()
        data: PartitionData = answer.responses[0].partitions[0]
        self.budget.bytes_left -= len(data.records or b"")
        return data

    async def forward(
        self, partition: int, position: int, end: int, *, from_batch: bool = False
    ) -> AsyncIterator[tuple[int, list[Found]]]:
        """Yield (the next position, records), from `position` to `end`, batch by batch.

        With `from_batch`, the first batch comes from at most `KEPT` records before the position on.
        A batch comes in parts of `KEPT` records. The caller looks at the budget between two steps.
        """
        while position < end:
            data = await self.fetch(partition, position, FETCHED_BYTES)
            if data.error_code in UNREADABLE:
                position = await self._behind(partition, position, end, data.error_code)
                yield position, []
                continue
            check(data.error_code, what=f"{self.topic}-{partition}")
            buffer = bytes(data.records or b"")  # a thread has read all but small ones as bytes
            place, began, aborted = 0, position, AbortedBatches(data.aborted_transactions)
            while place + HEADER_SIZE <= len(buffer) and position < end:
                header = read_header(buffer, place)
                if header.size <= 0 or place + header.size > len(buffer):
                    break
                batch = Packed(buffer, place, header.size)
                place += header.size
                least = position
                if from_batch:
                    least = max(header.base_offset, position - KEPT)
                    from_batch = False
                if not aborted.has(header):
                    async for records in self._opened(partition, header, batch, least):
                        position = max(position, records[-1].record.offset + 1)
                        yield position, records
                position = max(position, header.next_offset)
                yield position, []
            if position == began:  # nothing more is visible
                return

    async def _opened(
        self, partition: int, header: BatchHeader, batch: Packed, least: int
    ) -> AsyncIterator[list[Found]]:
        """Yield the records of a batch from an offset on; a damaged batch is a problem."""
        size_max = self._console.services.config.barnabas_decompressed_bytes_max
        found: list[Found] = []
        try:
            if header.record_count > RECORDS_MAX:
                raise TooManyRecords("records", header.record_count, RECORDS_MAX)
            unpack = partial(_unpacked, batch, size_max, self._needle)
            if header.codec or batch.size > INLINE_BYTES:
                size, body = await self._in_thread(unpack)
                self.budget.bytes_left -= size
            else:
                size, body = unpack()
            if body is None:
                self.looked_at += max(0, header.next_offset - max(least, header.base_offset))
                await self.budget.turn()
                return
            place, is_more = START, least > header.base_offset
            while is_more:  # a million records may be before the one that is wanted
                place, is_more = skipped(header, body, place, least, SKIPPED)
                await self.budget.turn()
            for record in iterate(header, body, headers_max=HEADERS_MAX, place=place):
                found.append(Found(partition, header, record))
                self.looked_at += 1
                if len(found) >= KEPT:
                    yield found
                    found = []
                await self.budget.turn()
        except RecordError as error:
            self._tell(partition, header.base_offset, header.next_offset, str(error))
        if found:
            yield found

    async def _in_thread(self, call: Callable[[], Unpacked]) -> Unpacked:
        done: asyncio.Future[Unpacked] = asyncio.get_running_loop().create_future()
        opened: list[Unpacked] = []

        def ended(error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(opened[0])
            else:
                done.set_exception(error)

        work = self._console.services.record_work
        walk = work.submit(Owner.HTTP, self._visitor.host, lambda: opened.append(call()), ended)
        try:
            return await done
        finally:
            walk.withdraw()  # if the visitor has gone, and its turn has not come
            self.budget.begin()

    async def _behind(self, partition: int, position: int, end: int, code: int) -> int:
        """Return the first offset behind a place that cannot be read: by doubling, then halving."""
        bad, good, step = position, end, 1
        for _ in range(PROBES_MAX):
            probe = bad + step if good == end else (bad + good) // 2
            if probe >= end and good == end:
                probe = (bad + good) // 2
            if good - bad <= 1:
                break
            data = await self.fetch(partition, min(max(probe, bad + 1), end - 1), 1)
            at = min(max(probe, bad + 1), end - 1)
            if data.error_code in UNREADABLE:
                bad, step = at, step * 2
            else:
                good = at
        reason = f"The broker cannot read it: {ErrorCode(code).name}"  # type: ignore[call-arg]
        self._tell(partition, position, good, reason)
        return good

    def _tell(self, partition: int, offset: int, until: int, reason: str) -> None:
        known = {"partition": partition, "offset": offset, "until": until, "reason": reason}
        if len(self.problems) < 100 and known not in self.problems:
            self.problems.append(known)


def _unpacked(batch: Packed, size_max: int, needle: bytes) -> Unpacked:
    """Check a batch; return the size of its records, and them if `needle` is in them."""
    buffer, begin, size = batch
    header = verify(buffer, begin)
    begin, size = begin + HEADER_SIZE, size - HEADER_SIZE
    if not header.codec and not has_bytes(buffer, needle, begin, begin + size):
        return size, None  # without a copy
    body = decompress(header.codec, memoryview(buffer)[begin : begin + size], size_max)
    return len(body), body if has_bytes(body, needle, 0, len(body)) else None


class _Stand:
    """Where one partition stands: the records that come next, the next one last."""

    __slots__ = ("end", "has_more", "next", "number", "start", "waiting", "width")

    def __init__(self, number: int, start: int, end: int, at: int, width: int) -> None:
        self.number = number
        self.start = start
        self.end = end
        self.next = at
        self.waiting: list[Found] = []
        self.has_more = True
        self.width = width


class RecordPage:
    """One page: at most `limit` records that are wanted."""

    def __init__(
        self, source: RecordSource, limit: int, wanted: Wanted, *, is_newest: bool
    ) -> None:
        self._source = source
        self._limit = limit
        self._wanted = wanted
        self._is_newest = is_newest
        self._stands: list[_Stand] = []
        self.records: list[Found] = []

    def add(self, number: int, start: int, end: int, at: int, width: int) -> None:
        """Read a partition too: its offsets `start` to `end`, from the position `at` on."""
        self._stands.append(_Stand(number, start, end, min(max(at, start), end), width))

    async def read(self) -> None:
        """Fill the page, as far as the budget goes."""
        budget = self._source.budget
        while len(self.records) < self._limit:
            for stand in self._stands:
                while not stand.waiting and stand.has_more and not budget.is_spent:
                    await self._load(stand)
            ready = [stand for stand in self._stands if stand.waiting]
            if not ready:
                return
            self.records.append(self._best(ready).waiting.pop())
            await budget.turn()

    def _best(self, ready: list[_Stand]) -> _Stand:
        def when(stand: _Stand) -> int:
            return stand.waiting[-1].record.timestamp

        return max(ready, key=when) if self._is_newest else min(ready, key=when)

    def cursor(self) -> dict[int, tuple[int, int]]:
        """Return where each partition that has more stands, and the width of its next window."""
        found = {}
        for stand in self._stands:
            if stand.waiting:
                offset = stand.waiting[-1].record.offset
                found[stand.number] = offset + 1 if self._is_newest else offset, stand.width
            elif stand.has_more:
                found[stand.number] = stand.next, stand.width
        return found

    async def _load(self, stand: _Stand) -> None:
        if self._is_newest:
            await self._load_before(stand)
        else:
            await self._load_after(stand)

    async def _load_after(self, stand: _Stand) -> None:
        before = stand.next
        async for position, records in self._source.forward(stand.number, stand.next, stand.end):
            stand.next = position
            stand.waiting = [found for found in reversed(records) if self._wanted(found)]
            if stand.waiting or self._source.budget.is_spent:
                break
        stand.has_more = before < stand.next < stand.end

    async def _load_before(self, stand: _Stand) -> None:
        """Read the window before the position, whole; a smaller one if it is too large."""
        upper = stand.next
        lower = max(stand.start, upper - stand.width)
        if lower >= upper:
            stand.has_more = False
            return
        taken: list[Found] = []
        first, count, batches, left = lower, 0, 0, self._source.budget.bytes_left
        looked_at = self._source.looked_at
        steps = self._source.forward(stand.number, lower, upper, from_batch=True)
        async for _, records in steps:
            batches += not records
            if records and not count:
                first = max(stand.start, min(lower, records[0].record.offset))
            count += len(records)
            taken += [
                found for found in records if found.record.offset < upper and self._wanted(found)
            ]
            is_much = left - self._source.budget.bytes_left > BYTES_MAX // 2
            is_much = is_much and batches > 1  # of one batch, a smaller window reads as much
            if stand.width > 1 and (is_much or len(taken) > 2 * KEPT):
                stand.width = max(1, stand.width // 16)
                return  # and the same again, from further up
        is_dense = self._source.looked_at > looked_at
        stand.width = min(stand.width * 2, DENSE_WIDTH_MAX if is_dense else WIDTH_MAX)
        stand.next = first
        stand.waiting = taken
        stand.has_more = first > stand.start


def no_such_record(offset: int) -> ConsoleError:
    """Return the refusal for an offset without a record."""
    return ConsoleError(404, "NO_RECORD", f"There is no record at offset {offset}")
