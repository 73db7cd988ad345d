"""Groups: their state, members and lag; offsets are reset, and groups deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import ConsoleError, data, data_of_parts, packed
from broker.console.group_lag import described, lag_of
from broker.console.inquiry import check
from broker.console.message_choice import offsets_at
from broker.console.parameters import bad, body_of, field, int64, page_of, text_of
from broker.console.visitor import SEES_GROUP, SEES_TOPIC, Visitor
from broker.console.walks import Turns, page_of_rows
from broker.exposition.lag_history import STEP_S
from broker.http.http_messages import HttpAnswer, HttpRequest
from protocol.api_keys import ApiKey
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from broker.console.console import Console

PAGE_MAX: Final = 500
COMMIT_VERSION: Final = 9
DELETE_VERSION: Final = 2
EARLIEST, LATEST = -2, -1
GroupRow = tuple[dict[str, Any], dict[str, int]]
TARGETS: Final = ("earliest", "latest", "offset", "timestamp", "shift")


async def groups(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET groups: those that the visitor may describe, those with the largest lag first."""
    wanted = text_of(request, "filter", "").lower()
    turns = Turns(console.services.clock)
    sees_all = console.services.authorizer is None
    found: list[dict[str, Any]] = []
    for row, lags in await console.rows("groups", rows_of_groups):
        await turns.turn()
        group_id = row["group_id"]
        if wanted not in group_id.lower() or not visitor.may(SEES_GROUP, group_id):
            continue
        if not sees_all:
            seen = [lag for topic, lag in lags.items() if visitor.may(SEES_TOPIC, topic)]
            found.append({**row, "topics": len(seen), "lag": sum(seen)})
        else:
            found.append(row)
    offset, limit = page_of(request, 100, PAGE_MAX)
    page = await page_of_rows(found, _by_lag, offset, limit, turns)
    return data({"total": len(found), "offset": offset, "groups": page})


def _by_lag(row: dict[str, Any]) -> tuple[int, str]:
    return -row["lag"], row["group_id"]


async def rows_of_groups(console: Console, turns: Turns) -> list[GroupRow]:
    """Return the row of each group, and its lag in each topic."""
    services = console.services
    found: list[GroupRow] = []
    for registry in tuple(services.groups.registries()) if services.has_groups else ():
        for group_id in dict.fromkeys((*registry.groups, *registry.offsets.group_ids())):
            await turns.turn()
            group = registry.groups.get(group_id)
            offsets = registry.offsets.topics(group_id)
            lags = await lag_of(console, offsets, turns)
            row = {
                "group_id": group_id,
                "state": group.state_name if group is not None else "Empty",
                "kind": group.kind.name.lower() if group is not None else "offsets",
                "members": group.member_count if group is not None else 0,
                "topics": len(lags),
                "lag": sum(lags.values()),
            }
            found.append((row, lags))
    return found


async def group(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """GET group: its members, what they have, and the lag of each partition."""
    found = await described(console, visitor, text_of(request, "id"))
    offset, limit = page_of(request, 200, PAGE_MAX)
    found["offset_count"] = len(found["offsets"])
    found["topics"] = list(dict.fromkeys(one["topic"] for one in found["offsets"]))
    lags = console.history.lags
    sees_all = all(visitor.may(SEES_TOPIC, topic) for topic in found["topics"])
    found["lag_history"] = {
        "step_s": STEP_S,
        "last_ms": lags.last_ms,
        "lags": lags.of(found["group_id"]) if sees_all else [],
    }
    found["offsets"] = found["offsets"][offset : offset + limit]
    turns, members = Turns(console.services.clock), []
    for member in found.pop("members"):
        members.append(packed(member))
        await turns.look()
    return data_of_parts("members", members, found)


async def reset(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """POST groups/reset: commit other offsets of a topic; with `dry_run`, only say which."""
    body = body_of(request)
    group_id, topic = field(body, "group", str), field(body, "topic", str)
    known = await described(console, visitor, group_id)
    if known["members"]:
        raise ConsoleError(409, "NON_EMPTY_GROUP", "The group has members: stop them first")
    before = {one["partition"]: one for one in known["offsets"] if one["topic"] == topic}
    visitor.must(SEES_TOPIC, topic)
    numbers = _numbers(console, body, topic)
    after = await _targets(console, visitor, body, topic, numbers, before)
    dry_run = field(body, "dry_run", bool, default=False)
    if after and not dry_run:
        await _commit(console, visitor, group_id, topic, after)
    changes = [
        {
            "partition": number,
            "before": before[number]["offset"] if number in before else None,
            "after": offset,
        }
        for number, offset in sorted(after.items())
    ]
    return data({"group": group_id, "topic": topic, "dry_run": dry_run, "changes": changes})


def _numbers(console: Console, body: Any, topic: str) -> list[int]:
    info = console.services.controller.image.topics.get(topic)
    if info is None:
        raise ConsoleError(404, "UNKNOWN_TOPIC_OR_PARTITION", "There is no such topic")
    given = field(body, "partitions", list, [])
    known = {one.partition for one in info.partitions}
    if not all(type(one) is int and one in known for one in given):
        raise bad(f"partitions are numbers from 0 to {len(known) - 1}")
    return sorted(set(given) or known)


async def _targets(
    console: Console,
    visitor: Visitor,
    body: Any,
    topic: str,
    numbers: list[int],
    before: dict[int, Any],
) -> dict[int, int]:
    """Return the new offset of each partition, within what the partition has."""
    to = field(body, "to", str)
    if to not in TARGETS:
        raise bad(f"to is {to[:40]!r}, expected one of {', '.join(TARGETS)}")
    starts = await offsets_at(console, visitor, topic, numbers, EARLIEST)
    ends = await offsets_at(console, visitor, topic, numbers, LATEST)
    value = int64(body, "value", 0)
    if to == "earliest":
        return starts
    if to == "latest":
        return ends
    if to == "timestamp":
        found = await offsets_at(console, visitor, topic, numbers, max(0, value))
        return {one: ends[one] if at < 0 else at for one, at in found.items()}
    if to == "offset":
        wanted = dict.fromkeys(numbers, value)
    else:
        wanted = {one: before[one]["offset"] + value for one in numbers if one in before}
    return {one: min(max(at, starts[one]), ends[one]) for one, at in wanted.items()}


async def _commit(
    console: Console, visitor: Visitor, group_id: str, topic: str, offsets: dict[int, int]
) -> None:
    asked = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
                    for number, offset in offsets.items()
                ],
            )
        ],
    )
    answer = await console.inquiry.ask(visitor, ApiKey.OFFSET_COMMIT, COMMIT_VERSION, asked)
    for one in answer.topics[0].partitions:
        check(one.error_code, what=f"{topic}-{one.partition_index}")


async def delete(request: HttpRequest, visitor: Visitor, console: Console) -> HttpAnswer:
    """POST groups/delete; `confirm` repeats the name."""
    body = body_of(request)
    group_id = field(body, "group", str)
    if field(body, "confirm", str) != group_id:
        raise ConsoleError(400, "CONFIRM", "confirm does not repeat the group's name")
    asked = DeleteGroupsRequest(groups_names=[group_id])
    answer = await console.inquiry.ask(visitor, ApiKey.DELETE_GROUPS, DELETE_VERSION, asked)
    check(answer.results[0].error_code)
    return data({"group": group_id})
