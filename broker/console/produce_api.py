"""POST messages/produce and messages/import: records, acknowledged once they are durable."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import ConsoleError, data
from broker.console.inquiry import check
from broker.console.key_partition import partition_of
from broker.console.parameters import bad, body_of, field, int64
from broker.console.visitor import SEES_TOPIC, Visitor
from broker.console.walks import Turns
from broker.http.http_messages import HttpAnswer, HttpRequest
from protocol.api_keys import ApiKey
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records import Record, build

if TYPE_CHECKING:
    from broker.console.console import Console

PRODUCE_VERSION: Final = 12
TIMEOUT_MS: Final = 30_000
ALL: Final = -1
ANY: Final = -1  # a partition: by the key, else in turn
HEADERS_MAX: Final = 100
IMPORTED_MAX: Final = 500
RECORDS_BYTES_MAX: Final = 1024 * 1024  # of a body with records: what the listener takes
HASHED_BYTES_MAX: Final = 64 * 1024  # of a key: some 7 ms


async def produce(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """POST messages/produce."""
    body = body_of(request, RECORDS_BYTES_MAX)
    topic, count = _topic_of(body, visitor, console)
    partition, record = _record(body, count, console)
    (made,) = await _append(console, visitor, topic, {partition: [record]})
    return data({"topic": topic, "partition": partition, "offset": made.base_offset})


async def import_records(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """POST messages/import: up to `IMPORTED_MAX` records, each as a line of an export.

    Those of a partition are one batch: appended as a whole, or not at all.
    """
    body = body_of(request, RECORDS_BYTES_MAX)
    topic, count = _topic_of(body, visitor, console)
    given = field(body, "records", list)
    if not 1 <= len(given) <= IMPORTED_MAX:
        raise bad(f"{len(given)} records, expected 1 to {IMPORTED_MAX}")
    turns = Turns(console.services.clock)
    batches: dict[int, list[Record]] = {}
    for place, line in enumerate(given):
        await turns.turn()
        if not isinstance(line, dict):
            raise bad(f"records[{place}] is no object")
        if "problem" in line:
            raise bad(f"records[{place}] tells of records that the export could not read")
        try:
            partition, record = _record(line, count, console)
        except ConsoleError as error:
            raise bad(f"records[{place}]: {error}") from None
        found = batches.setdefault(partition, [])
        found.append(record._replace(offset=len(found)))
    await _append(console, visitor, topic, batches)
    return data({"topic": topic, "produced": len(given)})


def _topic_of(body: Mapping[str, Any], visitor: Visitor, console: Console) -> tuple[str, int]:
    """Return the topic that is meant, and how many partitions it has."""
    topic = field(body, "topic", str)
    info = console.services.controller.image.topics.get(topic)
    if info is None or not visitor.may(SEES_TOPIC, topic):
        raise ConsoleError(404, "UNKNOWN_TOPIC_OR_PARTITION", f"There is no topic {topic[:250]}")
    return topic, len(info.partitions)


def _record(body: Mapping[str, Any], count: int, console: Console) -> tuple[int, Record]:
    """Return the record that is meant, and its partition."""
    key, value = _content(body, "key"), _content(body, "value")
    partition = int64(body, "partition", ANY)
    if partition == ANY:
        partition = console.next_turn() % count if key is None else _of_key(key, count)
    if not 0 <= partition < count:
        raise bad(f"partition is {partition}, expected 0 to {count - 1}")
    timestamp = int64(body, "timestamp", console.services.clock.now_ms())
    return partition, Record(0, timestamp, key, value, _headers(body))


def _of_key(key: bytes, count: int) -> int:
    if len(key) > HASHED_BYTES_MAX:
        raise bad(
            f"key has {len(key)} bytes, and a partition is found for one of at most"
            f" {HASHED_BYTES_MAX}: give a partition"
        )
    return partition_of(key, count)


async def _append(
    console: Console, visitor: Visitor, topic: str, batches: Mapping[int, list[Record]]
) -> list[Any]:
    """Append a batch to each partition; return the partitions' answers."""
    asked = ProduceRequest(
        acks=ALL,
        timeout_ms=TIMEOUT_MS,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=partition, records=memoryview(build(records)))
                    for partition, records in batches.items()
                ],
            )
        ],
    )
    answer = await console.inquiry.ask(visitor, ApiKey.PRODUCE, PRODUCE_VERSION, asked)
    made: list[Any] = answer.responses[0].partition_responses
    for one in made:
        check(one.error_code, one.error_message, f"{topic}-{one.index}")
    return made


def _content(body: Mapping[str, Any], name: str) -> bytes | None:
    """Return a key or value: a text, or bytes as `<name>_base64`; null or neither is null."""
    if body.get(f"{name}_base64") is not None:
        try:
            return base64.b64decode(field(body, f"{name}_base64", str), validate=True)
        except (binascii.Error, ValueError):
            raise bad(f"{name}_base64 is not base64") from None
    if body.get(name) is None:
        return None
    return _encoded(field(body, name, str), name)


def _headers(body: Mapping[str, Any]) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers: pairs, or objects with `name` and `value`, as an export writes them."""
    given = field(body, "headers", list, [])
    if len(given) > HEADERS_MAX:
        raise bad(f"{len(given)} headers, at most {HEADERS_MAX} may be given")
    found: list[tuple[str, bytes | None]] = []
    for one in given:
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            _encoded(one["name"], "a header's name")
            found.append((one["name"], _content(one, "value")))
            continue
        is_pair = isinstance(one, list) and len(one) == 2 and isinstance(one[0], str)
        if not is_pair or not (one[1] is None or isinstance(one[1], str)):
            raise bad('headers are pairs of texts, such as [["name", "value"]]')
        _encoded(one[0], "a header's name")
        found.append((one[0], None if one[1] is None else _encoded(one[1], "a header's value")))
    return tuple(found)


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise bad(f"{what} has half a character (a lone surrogate)") from None
