"""Which records a request asks for: a topic, its partitions, where to begin, and a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.console.answers import ConsoleError
from broker.console.inquiry import check
from broker.console.key_partition import partition_of
from broker.console.parameters import bad, is_set, number_of, text_of
from broker.console.record_pages import FETCHED_BYTES, Found, Wanted
from broker.console.visitor import SEES_TOPIC, Visitor
from broker.http.http_messages import HttpRequest
from broker.partitions.partition import Partition
from broker.rights.asking import Need
from broker.rights.clauses import TOPIC
from broker.security.acl.acl_codes import AclOperation
from protocol.api_keys import ApiKey
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from broker.console.console import Console

READS: Final = Need(TOPIC, AclOperation.READ)
PARTITIONS_MAX: Final = 64  # of one page; those with the newest records are read
LIST_OFFSETS_VERSION: Final = 10
NEWEST, OLDEST = "newest", "oldest"
OFFLINE: Final = "KAFKA_STORAGE_ERROR"
WINDOW_MAX: Final = 2_000


def topic_of(request: HttpRequest, visitor: Visitor, console: Console) -> str:
    """Return the topic that the query names; one that may not be described is as if not there."""
    topic = text_of(request, "topic")
    visitor.must(SEES_TOPIC, topic)
    if topic not in console.services.controller.image.topics:
        raise ConsoleError(404, "UNKNOWN_TOPIC_OR_PARTITION", f"There is no topic {topic[:250]}")
    return topic


def partitions_of(request: HttpRequest, console: Console, topic: str) -> list[Partition]:
    """Return the partitions to read: the one that is named, that of the key, or all.

    Without those that are offline, and of very many those with the most records.
    """
    partitions = console.services.partitions
    numbers = _numbers(request, console, topic)
    found = [partitions.get(topic, number) for number in numbers if partitions.has(topic, number)]
    if not found:
        raise ConsoleError(503, OFFLINE, "The partition is offline; see the log")
    if len(found) > PARTITIONS_MAX:
        found.sort(key=lambda one: one.log.end_offset - one.log.start_offset, reverse=True)
    return found[:PARTITIONS_MAX]


def whole_partitions_of(request: HttpRequest, console: Console, topic: str) -> list[Partition]:
    """Return the partitions as `partitions_of`, but all of them. Raises if one is offline."""
    partitions = console.services.partitions
    numbers = _numbers(request, console, topic)
    for number in numbers:
        if not partitions.has(topic, number):
            why = f"{topic}-{number} is offline; see the log, or name another partition"
            raise ConsoleError(503, OFFLINE, why)
    return [partitions.get(topic, number) for number in numbers]


def _numbers(request: HttpRequest, console: Console, topic: str) -> list[int]:
    count = len(console.services.controller.image.topics[topic].partitions)
    wanted = text_of(request, "partition", "all")
    key = text_of(request, "key", "")
    if wanted != "all":
        return [number_of(request, "partition", 0, 0, max(0, count - 1))]
    if key and is_set(request, "by_key"):
        return [partition_of(key.encode(), count)]
    return list(range(count))


def filter_of(request: HttpRequest) -> Wanted:
    """Return what a record must have: a key, or a text in its key, value or headers."""
    key, text = text_of(request, "key", "").encode(), text_of(request, "text", "").encode()
    hides_control = not is_set(request, "control")

    def wanted(found: Found) -> bool:
        record = found.record
        if found.header.is_control:
            return not hides_control and not key and not text
        if key and record.key != key:
            return False
        return not text or _has(text, record.key, record.value, record.headers)

    return wanted


def needle_of(request: HttpRequest) -> bytes:
    """Return bytes that every wanted record has in it; none if all records are wanted."""
    return max((text_of(request, name, "").encode() for name in ("key", "text")), key=len)


def _has(
    text: bytes,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
) -> bool:
    if text in (value or b"") or text in (key or b""):
        return True
    return any(text in name.encode("utf-8", "replace") or text in (one or b"")
               for name, one in headers)  # fmt: skip


def width_of(partition: Partition, limit: int, *, searches: bool) -> int:
    """Return how many offsets a first window has, so that it is about one fetch."""
    log = partition.log
    count = max(1, log.end_offset - log.start_offset)
    usual = max(1, log.size_bytes // count)
    fitting = max(1, FETCHED_BYTES // usual)
    return min(fitting, WINDOW_MAX) if searches else min(fitting, limit)


async def offsets_at(
    console: Console, visitor: Visitor, topic: str, numbers: list[int], timestamp: int
) -> dict[int, int]:
    """Return the first offset at or after a time in each partition; -1 if none is."""
    body = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                    for number in numbers
                ],
            )
        ],
        timeout_ms=10_000,
    )
    answer = await console.inquiry.ask(visitor, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, body)
    found = {}
    for one in answer.topics[0].partitions:
        check(one.error_code, what=f"{topic}-{one.partition_index}")
        found[one.partition_index] = one.offset
    return found


Cursor = dict[int, tuple[int, int]]


def cursor_of(request: HttpRequest) -> Cursor:
    """Return the cursor of an earlier page: partition:offset:width, with commas."""
    text = text_of(request, "cursor", "")
    found: Cursor = {}
    for part in filter(None, text.split(",")):
        numbers = part.split(":")
        if len(numbers) != 3 or not all(one.isdecimal() and len(one) < 20 for one in numbers):
            raise bad(f"cursor has {part[:40]!r}, expected what an answer gave")
        number, offset, width = map(int, numbers)
        found[number] = offset, max(1, min(width, WINDOW_MAX))
    return found


def written_cursor(cursor: Cursor) -> str:
    """Return a cursor as `cursor_of` reads it; nothing if there is no more."""
    return ",".join(f"{number}:{at}:{width}" for number, (at, width) in cursor.items())
