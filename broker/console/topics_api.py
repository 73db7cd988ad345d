"""Topics and their partitions: lists, creation and deletion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import ConsoleError, data
from broker.console.inquiry import check
from broker.console.message_choice import topic_of
from broker.console.parameters import bad, body_of, field, is_set, page_of, text_of
from broker.console.visitor import SEES_TOPIC, SEES_TOPIC_CONFIGS, Visitor
from broker.console.walks import Turns, page_of_rows
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.metadata.image import TopicInfo
from protocol.api_keys import ApiKey
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

if TYPE_CHECKING:
    from broker.console.console import Console

PAGE_MAX: Final = 500
INTERNAL: Final = "__"
SORTS: Final = ("name", "bytes", "records", "partitions", "rate")
CREATE_VERSION: Final = 7
DELETE_VERSION: Final = 6
TIMEOUT_MS: Final = 30_000
UNSET: Final = -1  # a count that the broker's defaults give


async def topics(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET topics: those that the visitor may describe, a page of them."""
    wanted = text_of(request, "filter", "").lower()
    shows_internal = is_set(request, "internal")
    sort = text_of(request, "sort", "name")
    if sort not in SORTS:
        raise bad(f"sort is {sort[:40]!r}, expected one of {', '.join(SORTS)}")
    turns = Turns(console.services.clock)
    found: list[dict[str, Any]] = []
    hidden = 0
    for row in await console.rows("topics", rows_of_topics):
        await turns.turn()
        name = row["name"]
        if wanted not in name.lower() or not visitor.may(SEES_TOPIC, name):
            continue
        if name.startswith(INTERNAL) and not shows_internal:
            hidden += 1
            continue
        found.append(row)
    offset, limit = page_of(request, 100, PAGE_MAX)
    page = await page_of_rows(found, _order(sort), offset, limit, turns)
    page = [_seen(one, visitor) for one in page]
    return data({"total": len(found), "hidden": hidden, "offset": offset, "topics": page})


def _order(sort: str) -> Callable[[dict[str, Any]], Any]:
    if sort == "name":
        return lambda one: one["name"]
    return lambda one: (-(one[sort] or 0), one["name"])


def _seen(row: dict[str, Any], visitor: Visitor) -> dict[str, Any]:
    """Return a row without configs, if the visitor may not describe them."""
    if visitor.may(SEES_TOPIC_CONFIGS, row["name"]):
        return row
    return {**row, "cleanup": "", "retention_ms": None, "retention_bytes": None}


async def rows_of_topics(console: Console, turns: Turns) -> list[dict[str, Any]]:
    """Return the row of each topic."""
    topics = tuple(console.services.controller.image.topics.values())
    return [await _summed(console, topic, turns) for topic in topics]


async def _summed(console: Console, topic: TopicInfo, turns: Turns) -> dict[str, Any]:
    services = console.services
    size = records = appended = offline = 0
    config = None
    for info in topic.partitions:
        await turns.turn()
        if not services.partitions.has(topic.name, info.partition):
            offline += 1
            continue
        log = services.partitions.get(topic.name, info.partition).log
        config = log.config
        size += log.size_bytes
        records += log.high_watermark - log.start_offset
        appended += log.end_offset
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "bytes": size,
        "records": records,
        "rate": console.rates.of(topic.name, appended),
        "offline": offline,
        "cleanup": ",".join(sorted(config.cleanup_policy)) if config else "",
        "retention_ms": config.retention_ms if config else None,
        "retention_bytes": config.retention_bytes if config else None,
        "is_internal": topic.name.startswith(INTERNAL),
        "changed_configs": len(topic.configs),
    }


async def topic(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET topic: one topic with a page of its partitions."""
    name = topic_of(request, visitor, console)
    services = console.services
    info = services.controller.image.topics[name]
    offset, limit = page_of(request, 100, PAGE_MAX)
    turns = Turns(services.clock)
    found = {**_seen(await _summed(console, info, turns), visitor)}
    found["topic_id"] = info.topic_id.hex()
    found["offset"] = offset
    found["list"] = [
        _partition(console, name, one.partition) for one in info.partitions[offset : offset + limit]
    ]
    return data(found)


def _partition(console: Console, topic: str, number: int) -> dict[str, Any]:
    services = console.services
    if not services.partitions.has(topic, number):
        return {"partition": number, "is_offline": True}
    partition = services.partitions.get(topic, number)
    log = partition.log
    return {
        "partition": number,
        "is_offline": False,
        "start_offset": log.start_offset,
        "end_offset": log.end_offset,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.last_stable_offset,
        "leader_epoch": log.leader_epoch,
        "bytes": log.size_bytes,
        "segments": len(log.segments),
        "has_failed": log.failed is not None,
    }


async def create(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """POST topics/create: with `dry_run`, only check."""
    body = body_of(request)
    configs = field(body, "configs", dict, {})
    if not all(isinstance(value, str) for value in configs.values()):
        raise bad("configs are texts by name")
    dry_run = field(body, "dry_run", bool, default=False)
    asked = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=field(body, "name", str),
                num_partitions=_count(field(body, "partitions", int, UNSET)),
                replication_factor=UNSET,
                configs=[CreatableTopicConfig(name=name, value=value)
                         for name, value in configs.items()],
            )
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=dry_run,
    )  # fmt: skip
    answer = await console.inquiry.ask(visitor, ApiKey.CREATE_TOPICS, CREATE_VERSION, asked)
    made = answer.topics[0]
    check(made.error_code, made.error_message)
    return data({"name": made.name, "partitions": made.num_partitions, "dry_run": dry_run})


def _count(number: int) -> int:
    if not -1 <= number < 1 << 31:
        raise bad(f"partitions is {number}, expected at least 1")
    return number


async def delete(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """POST topics/delete; `confirm` repeats the name."""
    body = body_of(request)
    name = field(body, "name", str)
    if field(body, "confirm", str) != name:
        raise ConsoleError(400, "CONFIRM", "confirm does not repeat the topic's name")
    asked = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)
    answer = await console.inquiry.ask(visitor, ApiKey.DELETE_TOPICS, DELETE_VERSION, asked)
    gone = answer.responses[0]
    check(gone.error_code, gone.error_message)
    return data({"name": name})
