"""Groups over the wire, of both kinds: list, describe, delete, read and set their offsets.

A consumer group (KIP-848) is described by ConsumerGroupDescribe, a classic one by DescribeGroups. A
broker answers the wrong one with GROUP_ID_NOT_FOUND, so the newer is asked first. Offsets are asked
for by topic name, which OffsetFetch and OffsetCommit support up to version 9: people use names, and
the offsets of a deleted topic can still be seen.

While the coordinator is loading, requests are repeated. If there is none, FindCoordinator is sent,
which creates `__consumer_offsets` if it is missing. If another node is the coordinator, the error
says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from client.kafka.connection import VERSION_MAX, BrokerError, Connection
from client.kafka.coordinators import ask_patiently
from client.places import Place
from client.suggest import did_you_mean
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import GROUP
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.wire import ZERO_UUID

CONSUMER: Final = "consumer"
CLASSIC: Final = "classic"
NAMES_VERSION_MAX: Final = 9
_UNSTABLE: Final = ErrorCode.UNSTABLE_OFFSET_COMMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member and its partitions; None if the format of its assignment is unknown."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None = None
    partitions: list[Place] | None = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group; `protocol` is the assignor, or what a classic group's members agreed on."""

    group_id: str
    state: str
    kind: str
    protocol_type: str
    protocol: str
    epoch: int | None
    members: list[GroupMember]


def list_groups(connection: Connection) -> list[ListedGroup]:
    """Return all groups, ordered by id. Raises BrokerError."""

    def ask() -> tuple[Any, int]:
        answer = connection.call(ListGroupsRequest(), ListGroupsResponse)
        return answer, answer.error_code

    answer = _patiently(connection, "", ask, "groups cannot be listed")
    return sorted(answer.groups, key=lambda group: group.group_id)


def describe(connection: Connection, group_id: str) -> Group:
    """Return a group. Raises BrokerError, with a suggestion, if it does not exist."""
    found = _describe_consumer(connection, group_id) or _describe_classic(connection, group_id)
    if found is None:
        known = [group.group_id for group in list_groups(connection)]
        hint = did_you_mean(group_id, known)
        if not hint:
            hint = "`barnabas groups list` lists the groups." if known else "There are none."
        raise BrokerError(f"no group {group_id!r} at {connection.address}. {hint}")
    return found


def _describe_consumer(connection: Connection, group_id: str) -> Group | None:
    from protocol.messages.consumer_group_describe import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )

    if not connection.serves(ConsumerGroupDescribeRequest):
        return None
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    found = _described(connection, group_id, request, ConsumerGroupDescribeResponse)
    if found.error_code:
        return None
    members = [
        GroupMember(
            member_id=one.member_id,
            instance_id=one.instance_id,
            client_id=one.client_id,
            host=one.client_host,
            epoch=one.member_epoch,
            partitions=[
                Place(topic.topic_name, number)
                for topic in one.assignment.topic_partitions
                for number in topic.partitions
            ],
        )
        for one in found.members
    ]
    return Group(
        group_id=group_id,
        state=found.group_state,
        kind=CONSUMER,
        protocol_type=CONSUMER,
        protocol=found.assignor_name,
        epoch=found.group_epoch,
        members=members,
    )


def _describe_classic(connection: Connection, group_id: str) -> Group | None:
    from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

    request = DescribeGroupsRequest(groups=[group_id])
    found = _described(connection, group_id, request, DescribeGroupsResponse)
    if found.error_code or found.group_state == "Dead":
        return None
    members = [
        GroupMember(
            member_id=one.member_id,
            instance_id=one.group_instance_id,
            client_id=one.client_id,
            host=one.client_host,
            partitions=_assigned(found.protocol_type, one.member_assignment),
        )
        for one in found.members
    ]
    return Group(
        group_id=group_id,
        state=found.group_state,
        kind=CLASSIC,
        protocol_type=found.protocol_type,
        protocol=found.protocol_data,
        epoch=None,
        members=members,
    )


def _described(connection: Connection, group_id: str, request: Any, response_class: type) -> Any:
    """Return the group's description, whose error may be GROUP_ID_NOT_FOUND."""

    def ask() -> tuple[Any, int]:
        (found,) = connection.call(request, response_class).groups
        is_none = found.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        return found, 0 if is_none else found.error_code

    return _patiently(connection, group_id, ask, f"group {group_id!r} cannot be described")


def _assigned(protocol_type: str, data: bytes) -> list[Place] | None:
    """Decode the assignment of a consumer; None for other protocols and undecodable bytes."""
    from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment
    from protocol.errors import DecodeError

    if protocol_type != PROTOCOL_TYPE:
        return None
    try:
        topics = decode_assignment(data).assigned_partitions if data else []
    except DecodeError:
        return None
    return [Place(topic.topic, number) for topic in topics for number in topic.partitions]


def committed(
    connection: Connection, group_id: str, *, is_stable: bool = False
) -> dict[Place, int]:
    """Return all committed offsets of a group. Raises BrokerError.

    `is_stable`: wait while a transaction that is ending may replace one.
    """
    from protocol.messages.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchResponse,
    )

    asked = OffsetFetchRequest(
        group_id=group_id,
        topics=None,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)],
        require_stable=is_stable,
    )

    def ask() -> tuple[Any, int]:
        answer = connection.call(asked, OffsetFetchResponse, version_max=_version_max(connection))
        found = answer.groups[0] if answer.groups else answer
        codes = {one.error_code for topic in found.topics for one in topic.partitions}
        return found, found.error_code or (_UNSTABLE if _UNSTABLE in codes else 0)

    found = _patiently(connection, group_id, ask, f"offsets of group {group_id!r} cannot be read")
    names = {topic_id: name for name, topic_id in _topic_ids(connection).items()}
    return {
        Place(topic.name or names[topic.topic_id], one.partition_index): one.committed_offset
        for topic in found.topics
        if topic.name or topic.topic_id in names
        for one in topic.partitions
        if one.committed_offset >= 0
    }


def _version_max(connection: Connection) -> int:
    """Return the last version with names of topics; msgpack has the newest version only."""
    return VERSION_MAX if connection.is_msgpack else NAMES_VERSION_MAX


def _topic_ids(connection: Connection) -> dict[str, bytes]:
    """Return the ids of all topics by name, where topics go by their ids."""
    from client.kafka import admin

    if not connection.is_msgpack:
        return {}
    return {one.name or "": one.topic_id for one in admin.cluster(connection).topics}


def commit(connection: Connection, group_id: str, offsets: Mapping[Place, int]) -> None:
    """Set offsets of a group that has no members. Raises BrokerError."""
    from protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
        OffsetCommitResponse,
    )

    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for place, offset in offsets.items():
        one = OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset)
        topics.setdefault(place.topic, []).append(one)
    ids = _topic_ids(connection)
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=ids.get(name, ZERO_UUID), partitions=found)
            for name, found in topics.items()
        ],
    )

    def ask() -> tuple[Any, int]:
        answer = connection.call(
            request, OffsetCommitResponse, version_max=_version_max(connection)
        )
        codes = [one.error_code for topic in answer.topics for one in topic.partitions]
        return answer, next((code for code in codes if code), 0)

    _patiently(connection, group_id, ask, f"offsets of group {group_id!r} were not set")


def delete(connection: Connection, group_ids: Sequence[str]) -> list[str]:
    """Delete groups with their offsets; return a reason for each refusal."""
    found = (_delete_one(connection, group_id) for group_id in group_ids)
    return [why for why in found if why is not None]


def _delete_one(connection: Connection, group_id: str) -> str | None:
    from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

    def ask() -> tuple[Any, int]:
        request = DeleteGroupsRequest(groups_names=[group_id])
        (found,) = connection.call(request, DeleteGroupsResponse).results
        return found, found.error_code

    try:
        _patiently(connection, group_id, ask, f"group {group_id!r} was not deleted")
    except BrokerError as error:
        return str(error)
    return None


def _patiently(
    connection: Connection, group_id: str, ask: Callable[[], tuple[Any, int]], failure: str
) -> Any:
    """Repeat a request until the groups are loaded, and their offsets stable. Raises BrokerError.

    Other errors raise it at once.
    """
    return ask_patiently(connection, (GROUP, group_id), ask, failure, _is_loading)


def _is_loading(code: ErrorCode) -> bool:
    return code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _UNSTABLE)


def offsets_at(
    connection: Connection,
    places: Iterable[Place],
    timestamp: int,
    *,
    committed_only: bool = False,
) -> dict[Place, int]:
    """Return the offset of a time, EARLIEST or LATEST; deleted partitions are left out.

    `committed_only`: LATEST is the last stable offset. -1 if no record is that late. Raises
    BrokerError.
    """
    from client.kafka import admin

    counts = {topic.name: len(topic.partitions) for topic in admin.cluster(connection).topics}
    asked: dict[str, list[int]] = {}
    for place in places:
        if place.partition < counts.get(place.topic, 0):
            asked.setdefault(place.topic, []).append(place.partition)
    if not asked:
        return {}
    found = admin.offsets(connection, asked, timestamp, committed_only=committed_only)
    return {Place(*place): offset for place, (offset, _) in found.items()}
