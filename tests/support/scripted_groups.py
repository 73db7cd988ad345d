"""A ScriptedBroker's answers about groups: `readers` (consumer), `old` (classic), `idle`.

Topic `orders` has partitions 0 and 1 with the offsets 2 to 12. `readers` has a member on partition
0; `idle` has committed 10 and 12, `old` 7 for partition 0; `connect` is not a consumer's group.
`codes` are error codes per request class; each fails one request, in order.
"""

from __future__ import annotations

from typing import Any

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from protocol.messages import consumer_group_describe as consumer
from protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NOT_FOUND = 69
LISTED = {
    "readers": ("consumer", "Stable", "consumer"),
    "idle": ("consumer", "Empty", "consumer"),
    "old": ("consumer", "Stable", "classic"),
    "connect": ("connect", "Stable", "classic"),
}
COMMITTED = {
    "readers": {("orders", 0): 5},
    "idle": {("orders", 0): 10, ("orders", 1): 12},
    "old": {("orders", 0): 7, ("gone", 3): 1},
}


class ScriptedGroups:
    """The answers, and the offsets committed and deleted."""

    def __init__(self) -> None:
        self.codes: dict[type[Any], list[int]] = {}
        self.answers = {
            ListGroupsRequest: self._list,
            consumer.ConsumerGroupDescribeRequest: self._describe_consumer,
            DescribeGroupsRequest: self._describe_classic,
            OffsetFetchRequest: self._fetch,
            OffsetCommitRequest: self._commit,
            DeleteGroupsRequest: self._delete,
            FindCoordinatorRequest: self._find,
            MetadataRequest: self._metadata,
            ListOffsetsRequest: self._offsets,
        }

    def _code(self, request: Any) -> int:
        codes = self.codes.get(type(request))
        return codes.pop(0) if codes else 0

    def _list(self, request: Any) -> Any:
        groups = [
            ListedGroup(group_id=name, protocol_type=one[0], group_state=one[1], group_type=one[2])
            for name, one in LISTED.items()
        ]
        return ListGroupsResponse(error_code=self._code(request), groups=groups)

    def _describe_consumer(self, request: Any) -> Any:
        (name,) = request.group_ids
        if LISTED.get(name, ("", "", ""))[2] != "consumer":
            refused = consumer.DescribedGroup(group_id=name, error_code=NOT_FOUND)
            return consumer.ConsumerGroupDescribeResponse(groups=[refused])
        held = consumer.TopicPartitions(topic_id=bytes(16), topic_name="orders", partitions=[0])
        member = consumer.Member(
            member_id="m1",
            client_id="app",
            client_host="/10.0.0.1",
            member_epoch=3,
            assignment=consumer.Assignment(topic_partitions=[held]),
        )
        group = consumer.DescribedGroup(
            group_id=name,
            error_code=self._code(request),
            group_state=LISTED[name][1],
            group_epoch=3,
            assignor_name="uniform",
            members=[member] if name == "readers" else [],
        )
        return consumer.ConsumerGroupDescribeResponse(groups=[group])

    def _describe_classic(self, request: Any) -> Any:
        (name,) = request.groups
        if LISTED.get(name, ("", "", ""))[2] != "classic":
            dead = DescribedGroup(group_id=name, error_code=NOT_FOUND, group_state="Dead")
            return DescribeGroupsResponse(groups=[dead])
        held = [TopicPartition(topic="orders", partitions=[1])]
        data = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=held))
        member = DescribedGroupMember(
            member_id="c1",
            group_instance_id="i1",
            client_id="old-app",
            member_assignment=data if name == "old" else b"\xff",
        )
        group = DescribedGroup(
            group_id=name,
            group_state=LISTED[name][1],
            protocol_type=LISTED[name][0],
            protocol_data="range",
            members=[member],
        )
        return DescribeGroupsResponse(groups=[group])

    def _fetch(self, request: Any) -> Any:
        (asked,) = request.groups
        topics: dict[str, list[OffsetFetchResponsePartitions]] = {}
        for (topic, number), offset in COMMITTED.get(asked.group_id, {}).items():
            one = OffsetFetchResponsePartitions(partition_index=number, committed_offset=offset)
            topics.setdefault(topic, []).append(one)
        group = OffsetFetchResponseGroup(
            group_id=asked.group_id,
            error_code=self._code(request),
            topics=[
                OffsetFetchResponseTopics(name=name, partitions=found)
                for name, found in topics.items()
            ],
        )
        return OffsetFetchResponse(groups=[group])

    def _commit(self, request: Any) -> Any:
        code = self._code(request)
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return OffsetCommitResponse(topics=topics)

    def _delete(self, request: Any) -> Any:
        (name,) = request.groups_names
        result = DeletableGroupResult(group_id=name, error_code=self._code(request))
        return DeleteGroupsResponse(results=[result])

    def _find(self, request: Any) -> Any:
        found = Coordinator(key="g", node_id=2, host="elsewhere", port=9192)
        return FindCoordinatorResponse(coordinators=[found])

    def _metadata(self, request: Any) -> Any:
        names = ["orders"] if request.topics is None else [one.name for one in request.topics]
        partitions = [
            MetadataResponsePartition(partition_index=n, leader_id=1, replica_nodes=[1])
            for n in (0, 1)
        ]
        return MetadataResponse(
            topics=[
                MetadataResponseTopic(
                    name=name, error_code=0 if name == "orders" else 3, partitions=partitions
                )
                for name in names
            ]
        )

    def _offsets(self, request: Any) -> Any:
        def place(one: Any) -> ListOffsetsPartitionResponse:
            end = 11 if request.isolation_level else 12  # a transaction is open at 11
            offset = {-2: 2, -1: end, 1_000: 6}.get(one.timestamp, -1)
            return ListOffsetsPartitionResponse(partition_index=one.partition_index, offset=offset)

        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name, partitions=[place(one) for one in topic.partitions]
                )
                for topic in request.topics
            ]
        )
