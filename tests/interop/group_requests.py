"""Requests of members and operators to groups; each function sends one to a broker with groups.

A broker is held as a `State`; `settle` makes the groups on it that the questions speak of: a
classic group, one with a static member, one of Connect's kind, a consumer group, and one of
nothing but offsets. A question goes to the broker in the version that it names, else in the newest
that both sides know, and returns the code of the answer and what words came with it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from client.kafka.connection import Connection
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from protocol.wire import message_spec

EXISTING = "existing.topic"  # three partitions, no records
SESSION_MS = 300_000  # no member is lost while the table runs
TIMEOUT_MS = 10_000
MODERN_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=[EXISTING]))


@dataclass
class State:
    """A broker with its groups: the ids of their members, which the broker has chosen."""

    connection: Connection
    members: dict[str, str]

    def call(self, request: Any, response: type[Any], version: int | None = None) -> Any:
        known = self.connection.versions
        if version is not None:
            key = message_spec(type(request)).api_key
            self.connection.versions = {**known, key: (version, version)}
        try:
            return self.connection.call(request, response)
        finally:
            self.connection.versions = known


Ask = Callable[[State], tuple[int, str]]


# --- requests ------------------------------------------------------------------------------


def member_of(state: State, member: str) -> str:
    """Return the id of the member in the group of this name, or the name itself."""
    return state.members.get(member, member)


def join(group: str, member: str = "", version: int | None = None, **fields: Any) -> Ask:
    protocols = fields.pop("protocols", ["range"])
    metadata = fields.pop("metadata", SUBSCRIPTION)

    def ask(state: State) -> tuple[int, str]:
        request = JoinGroupRequest(
            group_id=group,
            member_id=member_of(state, member),
            **{"session_timeout_ms": SESSION_MS, "protocol_type": "consumer", **fields},
            rebalance_timeout_ms=SESSION_MS,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols
            ],
        )
        return state.call(request, JoinGroupResponse, version).error_code, ""

    return ask


def sync(group: str, member: str, generation: int = 1, **fields: Any) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_of(state, member),
            **{"protocol_type": "consumer", "protocol_name": "range", **fields},
        )
        return state.call(request, SyncGroupResponse).error_code, ""

    return ask


def beat(group: str, member: str, generation: int = 1, **fields: Any) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        request = HeartbeatRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_of(state, member),
            **fields,
        )
        return state.call(request, HeartbeatResponse).error_code, ""

    return ask


def leave(group: str, member: str, instance: str | None = None) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        identity = MemberIdentity(member_id=member_of(state, member), group_instance_id=instance)
        request = LeaveGroupRequest(group_id=group, members=[identity])
        answer = state.call(request, LeaveGroupResponse)
        return answer.error_code or answer.members[0].error_code, ""

    return ask


def leave_alone(group: str, member: str) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        request = LeaveGroupRequest(group_id=group, member_id=member_of(state, member))
        return state.call(request, LeaveGroupResponse, 2).error_code, ""

    return ask


def commit(
    group: str,
    member: str = "",
    generation: int = -1,
    *,
    topic: str | bytes = EXISTING,
    partition: int = 0,
    version: int = 9,
    metadata: str = "",
    offset: int = 1,
    instance: str | None = None,
) -> Ask:
    named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}

    def ask(state: State) -> tuple[int, str]:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_of(state, member),
            group_instance_id=instance,
            topics=[
                OffsetCommitRequestTopic(
                    **named,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        (answered,) = state.call(request, OffsetCommitResponse, version).topics
        return answered.partitions[0].error_code, ""

    return ask


def fetch(
    group: str,
    member: str | None = None,
    epoch: int = -1,
    *,
    topic: str | bytes = EXISTING,
    version: int = 9,
) -> Ask:
    named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}

    def ask(state: State) -> tuple[int, str]:
        asked = OffsetFetchRequestGroup(
            group_id=group,
            member_id=None if member is None else member_of(state, member),
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(**named, partition_indexes=[0])],
        )
        request = OffsetFetchRequest(groups=[asked])
        (answered,) = state.call(request, OffsetFetchResponse, version).groups
        if answered.error_code:
            return answered.error_code, ""
        return answered.topics[0].partitions[0].error_code, ""

    return ask


def describe(group: str, version: int) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        request = DescribeGroupsRequest(groups=[group])
        (answered,) = state.call(request, DescribeGroupsResponse, version).groups
        return answered.error_code, f"{answered.group_state} {answered.error_message}"

    return ask


def describe_consumers(group: str) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        (answered,) = state.call(request, ConsumerGroupDescribeResponse).groups
        return answered.error_code, f"{answered.group_state} {answered.error_message}"

    return ask


def list_groups(**filters: list[str]) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        answer = state.call(ListGroupsRequest(**filters), ListGroupsResponse)
        listed = sorted(
            (group.group_id, group.protocol_type, group.group_state, group.group_type)
            for group in answer.groups
        )
        return answer.error_code, str(listed)

    return ask


def delete(group: str) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        request = DeleteGroupsRequest(groups_names=[group])
        (answered,) = state.call(request, DeleteGroupsResponse).results
        return answered.error_code, ""

    return ask


def forget(group: str, topic: str = EXISTING, partition: int = 0) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        wanted = OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
        )
        answer = state.call(
            OffsetDeleteRequest(group_id=group, topics=[wanted]), OffsetDeleteResponse
        )
        if answer.error_code:
            return answer.error_code, "of the group"
        return answer.topics[0].partitions[0].error_code, ""

    return ask


def find(key: str, key_type: int = 0, version: int | None = None) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
        answer = state.call(request, FindCoordinatorResponse, version)
        found = answer.coordinators[0] if answer.coordinators else answer
        return found.error_code, str(found.error_message)

    return ask


def modern(group: str, member: str, epoch: int, version: int = 1, **fields: Any) -> Ask:
    def ask(state: State) -> tuple[int, str]:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member_of(state, member), member_epoch=epoch, **fields
        )
        answer = state.call(request, ConsumerGroupHeartbeatResponse, version)
        return answer.error_code, str(answer.error_message)

    return ask


NEW: dict[str, Any] = {
    "rebalance_timeout_ms": SESSION_MS,
    "subscribed_topic_names": [EXISTING],
    "topic_partitions": [],
}
SETTINGS = {"offsets.topic.num.partitions": "1"}


def join_with_a_megabyte(state: State) -> tuple[int, str]:
    """Return the code of the sync of a group whose record exceeds a batch of the topic."""
    request = JoinGroupRequest(
        group_id="big",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0" * (1 << 20))],
    )
    answer = state.call(request, JoinGroupResponse, 3)
    if answer.error_code:
        return answer.error_code, "of the join"
    shared = SyncGroupRequest(
        group_id="big",
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"")],
    )
    return state.call(shared, SyncGroupResponse, 3).error_code, "of the sync"


# --- the groups ------------------------------------------------------------------------------


def enter(
    state: State,
    group: str,
    protocol_type: str = "consumer",
    *,
    topic: str = EXISTING,
    partitions: tuple[int, ...] = (),
    **fields: Any,
) -> None:
    """Create a group with one member, which subscribes to a topic and gets its partitions."""
    wanted = encode_subscription(ConsumerProtocolSubscription(topics=[topic]))
    given = encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[TopicPartition(topic=topic, partitions=list(partitions))]
        )
    )
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=wanted)],
        **fields,
    )
    answer = state.call(request, JoinGroupResponse)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = answer.member_id
        answer = state.call(request, JoinGroupResponse)
    assert (answer.error_code, answer.generation_id) == (0, 1), answer
    member = state.members[group] = answer.member_id
    shared = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member,
        group_instance_id=request.group_instance_id,
        protocol_type=protocol_type,
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=member, assignment=given)],
    )
    assert state.call(shared, SyncGroupResponse).error_code == 0


def settle(connection: Connection) -> State:
    """Create the topic and the groups that the rows need."""
    state = State(connection, {})
    topic = CreatableTopic(name=EXISTING, num_partitions=3, replication_factor=1)
    made = connection.call(
        CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), CreateTopicsResponse
    )
    assert made.topics[0].error_code == 0, made
    await_coordinator(state)
    enter(state, "classic")
    enter(state, "static", group_instance_id="one")
    enter(state, "connect", "connect")
    assert commit("empty")(state)[0] == 0
    assert modern("modern", MODERN_ID, 0, instance_id="one", **NEW)(state)[0] == 0
    return state


def await_coordinator(state: State) -> None:
    """Create the topic of offsets, and wait until its one partition is loaded."""
    deadline = time.monotonic() + 30
    find("g")(state)
    while commit("g")(state)[0] != 0:
        assert time.monotonic() < deadline, "the coordinator does not come up"
        time.sleep(0.05)
    assert delete("g")(state)[0] == 0
