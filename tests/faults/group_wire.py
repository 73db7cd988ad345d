"""The requests of group members, over `tests.faults.wire`: one function for each request.

Requests use old versions, except those of consumer group members (KIP-848), which are flexible
and begin with the tags of their header. The definitions are Kafka's (JoinGroupRequest.json and so
on); for the subscription and assignment of a classic group they are
ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json.

The interop tests' `group_requests` encode with the product's codecs; these functions write bytes by
hand, so a defect of a codec cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.faults.wire import Connection
from tests.support.history_checker import Key
from tests.support.raw_client import Reader, array, int8, int16, int32, int64, sized, string

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, SYNC_GROUP, CONSUMER_GROUP_HEARTBEAT = 11, 12, 14, 68
NULL = b"\0"  # as a compact string or array
NO_TAGS = b"\0"
NOBODY = ("", -1)  # member id and generation of a commit without a membership


class Joined(NamedTuple):
    """The answer to a JoinGroup."""

    error: int
    generation: int
    leader: str
    member_id: str
    members: Sequence[str]  # for the leader


class Beat(NamedTuple):
    """The answer to a ConsumerGroupHeartbeat; `assigned` is None if nothing has changed."""

    error: int
    epoch: int
    assigned: Mapping[bytes, Sequence[int]] | None


def _compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()  # shorter than 127 bytes


async def find_coordinator(connection: Connection, group: str) -> int:
    """Ask for the group's coordinator; return the error code."""
    return (await connection.call(FIND_COORDINATOR, 0, string(group))).number(2)


async def commit(
    connection: Connection, group: str, member: tuple[str, int], offsets: Mapping[Key, int]
) -> set[int]:
    """Commit offsets, each with itself as metadata; the errors of all of them."""
    topics = [
        _compact(topic)
        + b"\2"
        + int32(number)
        + int64(offset)
        + int32(-1)
        + _compact(str(offset))
        + NO_TAGS
        + NO_TAGS
        for (topic, number), offset in offsets.items()
    ]
    body = NO_TAGS + _compact(group) + int32(member[1]) + _compact(member[0]) + NULL
    body += bytes([len(topics) + 1]) + b"".join(topics) + NO_TAGS
    answer = await connection.call(OFFSET_COMMIT, 9, body)
    answer.take(1 + 4)
    errors = set()
    for _ in range(answer.number(1) - 1):
        answer.take(answer.number(1) - 1)
        for _ in range(answer.number(1) - 1):
            answer.number(4)
            errors.add(answer.number(2))
            answer.take(1)
        answer.take(1)
    return errors


async def committed(
    connection: Connection, group: str, keys: Sequence[Key]
) -> tuple[int, dict[Key, tuple[int, str]]]:
    """(error, offset and metadata of each key); the offset is -1 where there is none."""
    topics = [string(topic) + array(int32(number)) for topic, number in keys]
    answer = await connection.call(OFFSET_FETCH, 5, string(group) + array(*topics))
    answer.number(4)
    found = {}
    for _ in range(answer.number(4)):
        topic = answer.string() or ""
        for _ in range(answer.number(4)):
            number, offset, _ = answer.number(4), answer.number(8), answer.number(4)
            found[topic, number] = offset, answer.string() or ""
            answer.number(2)
    return answer.number(2), found


# -- classic members -------------------------------------------------------------------------------


async def join(
    connection: Connection, group: str, member_id: str, topic: str, timeout_ms: int
) -> Joined:
    """Join a classic group of consumers; the broker answers when all members have joined."""
    subscription = int16(0) + array(string(topic)) + sized(None)
    body = string(group) + int32(timeout_ms) + int32(timeout_ms) + string(member_id)
    body += string("consumer") + array(string("random") + sized(subscription))
    answer = await connection.call(JOIN_GROUP, 4, body)
    answer.number(4)
    error, generation = answer.number(2), answer.number(4)
    answer.string()
    leader, own_id = answer.string() or "", answer.string() or ""
    members = []
    for _ in range(answer.number(4)):
        members.append(answer.string() or "")
        answer.sized()
    return Joined(error, generation, leader, own_id, members)


async def sync(
    connection: Connection,
    group: str,
    member: tuple[str, int],
    topic: str,
    shares: Mapping[str, Sequence[int]],
) -> tuple[int, list[int]]:
    """Send the assignments as the leader, or none; (error, this member's partitions)."""
    given = [
        string(member_id)
        + sized(int16(0) + array(string(topic) + array(*map(int32, share))) + sized(None))
        for member_id, share in shares.items()
    ]
    body = string(group) + int32(member[1]) + string(member[0]) + array(*given)
    answer = await connection.call(SYNC_GROUP, 2, body)
    answer.number(4)
    error, assignment = answer.number(2), Reader(answer.sized())
    if error:
        return error, []
    assignment.number(2)
    assert (assignment.number(4), assignment.string()) == (1, topic)
    return 0, [assignment.number(4) for _ in range(assignment.number(4))]


async def heartbeat(connection: Connection, group: str, member: tuple[str, int]) -> int:
    """Send the heartbeat of a classic member; return the error code."""
    body = string(group) + int32(member[1]) + string(member[0])
    answer = await connection.call(HEARTBEAT, 2, body)
    answer.number(4)
    return answer.number(2)


# -- members of consumer groups (KIP-848) ----------------------------------------------------------


async def consumer_heartbeat(
    connection: Connection,
    group: str,
    member: tuple[str, int],
    topic: str,
    owned: Mapping[bytes, Sequence[int]],
) -> Beat:
    """Join (epoch 0), stay, or leave (epoch -1), with all fields in each request."""
    topics = b"".join(
        topic_id + bytes([len(numbers) + 1]) + b"".join(map(int32, numbers)) + NO_TAGS
        for topic_id, numbers in owned.items()
    )
    body = NO_TAGS + _compact(group) + _compact(member[0]) + int32(member[1])
    body += NULL + NULL + int32(300_000) + b"\2" + _compact(topic) + NULL + NULL
    body += bytes([len(owned) + 1]) + topics + NO_TAGS
    answer = await connection.call(CONSUMER_GROUP_HEARTBEAT, 1, body)
    answer.take(1 + 4)
    error = answer.number(2)
    for _ in ("message", "member id"):
        answer.take(max(answer.number(1) - 1, 0))
    epoch, _ = answer.number(4), answer.number(4)
    if answer.take(1) != int8(1):
        return Beat(error, epoch, None)
    assigned = {}
    for _ in range(answer.number(1) - 1):
        topic_id = answer.take(16)
        assigned[topic_id] = [answer.number(4) for _ in range(answer.number(1) - 1)]
        answer.take(1)
    return Beat(error, epoch, assigned)
