"""Records of a topic: in pages, one whole, all as lines, and as they arrive."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import ConsoleError, data, data_of_parts, packed
from broker.console.message_choice import (
    NEWEST,
    OFFLINE,
    OLDEST,
    READS,
    cursor_of,
    filter_of,
    needle_of,
    offsets_at,
    partitions_of,
    topic_of,
    whole_partitions_of,
    width_of,
    written_cursor,
)
from broker.console.parameters import bad, is_set, number_of, text_of
from broker.console.record_pages import (
    WORK_NS,
    Budget,
    Found,
    RecordPage,
    RecordSource,
    Wanted,
    no_such_record,
)
from broker.console.record_views import view
from broker.console.visitor import Visitor
from broker.http.http_messages import HttpAnswer, HttpRequest

if TYPE_CHECKING:
    from broker.console.console import Console
    from broker.partitions.partition import Partition

LIMIT_MAX: Final = 200
WHOLE_SHOWN_MAX: Final = 512 * 1024  # of a value that is shown and not downloaded
EXPORTS_MAX: Final = 2
EXPORTED_MAX: Final = 1_000_000
PIECE_BYTES: Final = 64 * 1024
TAIL_MAX: Final = 100  # records of one event
LINES: Final = "application/x-ndjson; charset=utf-8"
FOR_EVER: Final = 1 << 62
PARTS: Final = ("key", "value")


async def messages(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET messages: one page, and a cursor for the next."""
    topic = topic_of(request, visitor, console)
    visitor.must(READS, topic)
    limit = number_of(request, "limit", 50, 1, LIMIT_MAX)
    order = text_of(request, "order", NEWEST)
    if order not in (NEWEST, OLDEST):
        raise bad(f"order is {order[:40]!r}, expected {NEWEST} or {OLDEST}")
    isolation = _isolation(request)
    needle = needle_of(request)
    source = RecordSource(
        console, visitor, topic, Budget(console), isolation=isolation, needle=needle
    )
    page = RecordPage(source, limit, filter_of(request), is_newest=order == NEWEST)
    await _begin(page, request, visitor, console, topic, limit)
    async with console.readers:
        await page.read()
    cursor = page.cursor()
    shown = []
    for one in page.records:
        shown.append(packed(view(topic, one.partition, one.header, one.record)))
        await source.budget.turn()
    return data_of_parts(
        "messages",
        shown,
        {
            "topic": topic,
            "cursor": written_cursor(cursor),
            "is_complete": not cursor,
            "looked_at": source.looked_at,
            "stands": {str(number): at for number, (at, _) in cursor.items()},
            "problems": source.problems,
        },
    )


def _isolation(request: HttpRequest) -> int:
    return int(is_set(request, "committed"))


async def _begin(
    page: RecordPage,
    request: HttpRequest,
    visitor: Visitor,
    console: Console,
    topic: str,
    limit: int,
) -> None:
    """Place each partition where the request says: at a cursor, an offset, a time, or an end."""
    partitions = partitions_of(request, console, topic)
    cursor = cursor_of(request)
    is_newest = text_of(request, "order", NEWEST) == NEWEST
    searches = bool(text_of(request, "text", "") or text_of(request, "key", ""))
    offset = number_of(request, "offset", -1, -1)
    timestamp = number_of(request, "timestamp", -1, -1)
    at_time: dict[int, int] = {}
    if timestamp >= 0 and not cursor:
        numbers = [one.log.partition for one in partitions]
        at_time = await offsets_at(console, visitor, topic, numbers, timestamp)
    share = max(1, -(-limit // len(partitions)))
    for partition in partitions:
        log = partition.log
        number, start, end = log.partition, log.start_offset, log.high_watermark
        width = width_of(partition, share, searches=searches)
        at = end if is_newest else start
        if cursor:
            if number not in cursor:
                continue
            at, width = cursor[number]
        elif timestamp >= 0:
            found = at_time.get(number, -1)
            at = end if found < 0 else found
        elif offset >= 0:
            at = offset + 1 if is_newest else offset
        page.add(number, start, end, at, width)


async def message(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET message: one record whole, or one part of it as a file."""
    topic = topic_of(request, visitor, console)
    visitor.must(READS, topic)
    number = number_of(request, "partition", 0, 0, (1 << 31) - 1)
    offset = number_of(request, "offset", -1)
    source = RecordSource(console, visitor, topic, Budget(console, FOR_EVER, FOR_EVER))
    async with console.readers:
        async for position, records in source.forward(number, offset, offset + 1):
            for found in records:
                if found.record.offset == offset:
                    return _whole(request, topic, found)
            if position > offset:
                break
    raise no_such_record(offset)


def _whole(request: HttpRequest, topic: str, found: Found) -> HttpAnswer:
    part = text_of(request, "part", "")
    if part:
        if part not in PARTS:
            raise bad(f"part is {part[:40]!r}, expected key or value")
        content: bytes | None = getattr(found.record, part)
        if content is None:
            raise ConsoleError(404, "NULL", f"The {part} is null")
        name = f"{topic}-{found.partition}-{found.record.offset}-{part}"
        headers = (("Content-Disposition", f'attachment; filename="{name}"'),)
        return HttpAnswer(200, _pieces(content), "application/octet-stream", headers)
    size = len(found.record.key or b"") + len(found.record.value or b"")
    if size > WHOLE_SHOWN_MAX:
        raise ConsoleError(
            413, "TOO_LARGE", f"The record has {size} bytes: download its value instead"
        )
    return data(view(topic, found.partition, found.header, found.record, is_whole=True))


async def _pieces(content: bytes) -> AsyncGenerator[bytes, None]:
    for place in range(0, len(content), PIECE_BYTES):
        yield content[place : place + PIECE_BYTES]


async def export(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET export: records as lines of JSON, the oldest first, to the end of now.

    A line with `problem` stands where records cannot be read.
    """
    topic = topic_of(request, visitor, console)
    visitor.must(READS, topic)
    limit = number_of(request, "limit", 10_000, 1, EXPORTED_MAX)
    if console.exports_now >= EXPORTS_MAX:
        raise ConsoleError(503, "BUSY", f"{EXPORTS_MAX} exports run; try again when one has ended")
    wanted = filter_of(request)
    budget = Budget(console, FOR_EVER, FOR_EVER)
    source = RecordSource(
        console, visitor, topic, budget, isolation=_isolation(request), needle=needle_of(request)
    )
    partitions = whole_partitions_of(request, console, topic)
    begin = number_of(request, "offset", 0)

    def still_may() -> bool:
        return visitor.may(READS, topic) and console.keeper.still_lets_in(request, visitor)

    async def read() -> AsyncGenerator[list[Found], None]:
        for partition in partitions:
            log = partition.log
            position = max(log.start_offset, begin)
            async for _, records in source.forward(log.partition, position, log.high_watermark):
                yield records
                if not still_may():
                    raise ConsoleError(403, "ENDED", "The right to read the topic has ended")

    async def lines() -> AsyncGenerator[bytes, None]:
        if console.exports_now >= EXPORTS_MAX:  # others have begun meanwhile
            raise ConnectionAbortedError("too many exports run")
        console.exports_now += 1
        try:
            async with aclosing(read()) as batches:
                async for piece in _lines(batches, wanted, source, limit):
                    yield piece
        except ConsoleError as error:  # without the last chunk: it is not whole
            raise ConnectionAbortedError(str(error)) from error
        finally:
            console.exports_now -= 1

    headers = (("Content-Disposition", f'attachment; filename="{topic}.ndjson"'),)
    return HttpAnswer(200, lines(), LINES, headers)


async def _lines(
    batches: AsyncGenerator[list[Found], None], wanted: Wanted, source: RecordSource, limit: int
) -> AsyncGenerator[bytes, None]:
    """Yield the first `limit` records as lines, in pieces; empty ones ask for the visitor."""
    left, piece, told = limit, bytearray(), 0
    async for records in batches:
        for one in source.problems[told:]:
            piece += packed({"problem": one}) + b"\n"
        told = len(source.problems)
        for found in records:
            await source.budget.turn()
            if not wanted(found):
                continue
            piece += packed(exported(found)) + b"\n"
            left -= 1
            if not left:
                yield bytes(piece)
                return
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
        yield b""  # is the visitor still there?
    yield bytes(piece)


def exported(found: Found) -> dict[str, Any]:
    """Return a record as a line of an export: texts, or bytes in base64."""
    record = found.record
    line: dict[str, Any] = {
        "partition": found.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_part("key", record.key),
        **_part("value", record.value),
    }
    if record.headers:
        line["headers"] = [{"name": name, **_part("value", one)} for name, one in record.headers]
    return line


def _part(name: str, content: bytes | None) -> dict[str, Any]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


async def tail(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET tail: events of the records that arrive from now on, at most `TAIL_MAX` a second."""
    from broker.console.console import event

    topic = topic_of(request, visitor, console)
    visitor.must(READS, topic)
    wanted, isolation = filter_of(request), _isolation(request)

    def end_of(partition: Partition) -> int:
        log = partition.log
        return log.last_stable_offset if isolation else log.high_watermark

    shape: tuple[bytes, int, int] | None = _shape(console, topic)
    partitions = partitions_of(request, console, topic)
    at = {one.log: end_of(one) for one in partitions}
    known = _all_open(console, topic)

    def begin_of(partition: Partition) -> int:
        """Return where to begin: what another partition had before it was followed is not new."""
        log = partition.log
        return at.get(log, end_of(partition) if partition in known else log.opened_at)

    async def arrivals() -> AsyncGenerator[bytes, None]:
        nonlocal shape, partitions, at, known
        yield event("begun", {"partitions": len(partitions)})
        while True:
            await console.next_sample()
            if (now := _shape(console, topic)) != shape:  # it has grown, or is created again
                partitions = _open_partitions(request, console, topic)
                shape = now if partitions else None
                at = {one.log: begin_of(one) for one in partitions}
                known = _all_open(console, topic) if partitions else known
            budget = Budget(console, WORK_NS // 16)
            source = RecordSource(console, visitor, topic, budget, isolation=isolation)
            page = RecordPage(source, TAIL_MAX, wanted, is_newest=False)
            skipped = 0
            for partition in partitions:
                log = partition.log
                begin, end = max(at[log], log.start_offset), end_of(partition)
                arrived = end - begin
                if arrived > TAIL_MAX:
                    skipped += arrived - TAIL_MAX
                    begin = end - TAIL_MAX
                if arrived > 0:
                    page.add(log.partition, log.start_offset, end, begin, 1)
                at[log] = end
            async with console.readers:
                await page.read()
            found = []
            for one in page.records:
                found.append(view(topic, one.partition, one.header, one.record))
                await source.budget.turn()
            yield event("messages", {"messages": found, "skipped": skipped})

    return console.stream(request, visitor, arrivals, lambda: visitor.may(READS, topic))


def _shape(console: Console, topic: str) -> tuple[bytes, int, int]:
    """Return what changes when a topic gets partitions. Raises ConsoleError if it is gone.

    Partitions are opened after they are known, so the number of all that are open is part of it.
    """
    info = console.services.controller.image.topics.get(topic)
    if info is None:
        raise ConsoleError(404, "UNKNOWN_TOPIC_OR_PARTITION", f"There is no topic {topic} any more")
    return info.topic_id, len(info.partitions), len(console.services.partitions)


def _all_open(console: Console, topic: str) -> set[Partition]:
    """Return the partitions of a topic that are open, also those that are not read."""
    partitions, info = console.services.partitions, console.services.controller.image.topics[topic]
    numbers = [one.partition for one in info.partitions if partitions.has(topic, one.partition)]
    return {partitions.get(topic, number) for number in numbers}


def _open_partitions(request: HttpRequest, console: Console, topic: str) -> list[Partition]:
    """Return the partitions to read, none while a new topic's are being opened."""
    try:
        return partitions_of(request, console, topic)
    except ConsoleError as error:
        if error.code != OFFLINE:
            raise
        return []
