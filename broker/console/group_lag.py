"""One group as the console shows it, and how far it is behind: in records, and in seconds.

The seconds are how long ago the first record arrived that the group has not committed. Its
timestamp is read from the log, for at most `TIMED_MAX` partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.console.answers import ConsoleError
from broker.console.inquiry import check
from broker.console.record_pages import Budget, RecordSource
from broker.console.visitor import SEES_TOPIC, Visitor
from broker.console.walks import Turns
from broker.groups.committed import Committed
from broker.groups.errors import GroupError
from broker.groups.group import GroupKind
from protocol.api_keys import ApiKey
from protocol.consumer_protocol import decode_assignment
from protocol.errors import DecodeError
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.record_batch import HEADER_SIZE, read_header

if TYPE_CHECKING:
    from broker.console.console import Console

TIMED_MAX: Final = 32
ARRIVALS_MAX: Final = 10_000
DESCRIBE_VERSION: Final = 5
CONSUMER_VERSION: Final = 1
OFFSETS_VERSION: Final = 8
ASSIGNMENT_BYTES_MAX: Final = 64 * 1024  # that is shown: 16,000 partitions, some milliseconds


async def lag_of(
    console: Console, offsets: Mapping[str, Mapping[int, Committed]], turns: Turns
) -> dict[str, int]:
    """Return the records between committed offsets and high watermarks, by topic."""
    partitions, found = console.services.partitions, {}
    for topic, committed in tuple(offsets.items()):
        lag = 0
        for number, one in dict(committed).items():
            await turns.turn()
            if partitions.has(topic, number):
                lag += max(0, partitions.get(topic, number).log.high_watermark - one.offset)
        found[topic] = lag
    return found


async def described(console: Console, visitor: Visitor, group_id: str) -> dict[str, Any]:
    """Return one group, by the answers that a client gets."""
    services = console.services
    try:
        group = services.groups.group(group_id)
    except GroupError:  # no group has been made yet
        group = None
    offsets = await _offsets(console, visitor, group_id)
    if group is None and not offsets:
        raise ConsoleError(404, "GROUP_ID_NOT_FOUND", "There is no such group")
    if group is not None and group.kind is GroupKind.CONSUMER:
        found = await _consumer(console, visitor, group_id)
    else:
        found = await _classic(console, visitor, group_id)
    found["group_id"] = group_id
    found["offsets"] = offsets
    found["lag"] = sum(one["lag"] or 0 for one in offsets)
    return found


async def _classic(console: Console, visitor: Visitor, group_id: str) -> dict[str, Any]:
    asked = DescribeGroupsRequest(groups=[group_id])
    answer = await console.inquiry.ask(visitor, ApiKey.DESCRIBE_GROUPS, DESCRIBE_VERSION, asked)
    one = answer.groups[0]
    check(one.error_code, one.error_message)
    turns, members = Turns(console.services.clock), []
    for member in one.members:
        members.append(
            {
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "assignment": _assigned(bytes(member.member_assignment)),
            }
        )
        await turns.look()
    return {
        "kind": "classic",
        "state": one.group_state,
        "protocol": one.protocol_data,
        "members": members,
    }


def _assigned(assignment: bytes) -> dict[str, list[int]] | None:
    """Return a member's partitions by topic; None if it is not a consumer's assignment."""
    if not assignment:
        return {}
    if len(assignment) > ASSIGNMENT_BYTES_MAX:  # a leader of a group writes what it likes
        return None
    try:
        found = decode_assignment(assignment)
    except DecodeError:
        return None
    return {one.topic: list(one.partitions) for one in found.assigned_partitions}


async def _consumer(console: Console, visitor: Visitor, group_id: str) -> dict[str, Any]:
    asked = ConsumerGroupDescribeRequest(group_ids=[group_id])
    key = ApiKey.CONSUMER_GROUP_DESCRIBE
    answer = await console.inquiry.ask(visitor, key, CONSUMER_VERSION, asked)
    one = answer.groups[0]
    check(one.error_code, one.error_message)
    return {
        "kind": "consumer",
        "state": one.group_state,
        "protocol": one.assignor_name,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.client_host,
                "assignment": {
                    part.topic_name: list(part.partitions)
                    for part in member.assignment.topic_partitions
                },
            }
            for member in one.members
        ],
    }


async def _offsets(console: Console, visitor: Visitor, group_id: str) -> list[dict[str, Any]]:
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    answer = await console.inquiry.ask(visitor, ApiKey.OFFSET_FETCH, OFFSETS_VERSION, asked)
    one = answer.groups[0]
    check(one.error_code)
    partitions, found = console.services.partitions, []
    turns = Turns(console.services.clock)
    timed = 0
    for topic in one.topics:
        for part in topic.partitions:
            await turns.turn()
            number, offset = part.partition_index, part.committed_offset
            end, lag, seconds = None, None, None
            if partitions.has(topic.name, number) and visitor.may(SEES_TOPIC, topic.name):
                log = partitions.get(topic.name, number).log
                end = log.high_watermark
                lag = max(0, end - offset)
                if lag and timed < TIMED_MAX:
                    timed += 1
                    seconds = await _seconds(console, visitor, topic.name, number, offset)
            found.append(
                {
                    "topic": topic.name,
                    "partition": number,
                    "offset": offset,
                    "end": end,
                    "lag": lag,
                    "lag_seconds": 0 if lag == 0 else seconds,
                    "metadata": part.metadata or "",
                }
            )
    return found


async def _seconds(
    console: Console, visitor: Visitor, topic: str, number: int, offset: int
) -> float | None:
    """Return how long ago the record at an offset arrived; None if that cannot be said."""
    log = console.services.partitions.get(topic, number).log
    wanted = max(offset, log.start_offset)
    known = console.arrivals.get((topic, number))
    if known is not None and known[:2] == (log.topic_id, wanted):
        arrived_ms = known[2]
    else:
        source = RecordSource(console, visitor, topic, Budget(console))
        try:
            data = await source.fetch(number, wanted, 1)
        except ConsoleError:
            return None
        if data.error_code or not data.records or len(data.records) < HEADER_SIZE:
            return None
        arrived_ms = read_header(data.records).base_timestamp
        if len(console.arrivals) >= ARRIVALS_MAX:
            console.arrivals.clear()
        console.arrivals[topic, number] = (log.topic_id, wanted, arrived_ms)
    now_ms: int = console.services.clock.now_ms()
    return round(max(0, now_ms - arrived_ms) / 1000, 1)
