"""ConsumerGroupDescribe, API key 69, versions 0-1: consumer groups with their members.

Behaviour (KIP-848)
- Classic groups are GROUP_ID_NOT_FOUND here; DescribeGroups describes them.
- A group that is named more than once is answered once.
- The assignment of a member includes what it has yet to revoke. Deleted topics are left out, as in
  Kafka. Without a regular expression, `subscribed_topic_regex` is empty and not null.
- Authorized operations, if requested, are all operations: there is no authorization.

Version notes: 1 `member_type`: whether a member speaks the classic protocol (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Generator

from broker.authorized_operations import GROUP_OPERATIONS
from broker.groups.consumer.assignors import PartitionsByTopic
from broker.groups.consumer.consumer_group import ConsumerGroup
from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.targets import preferred_assignor
from broker.groups.coordinator import check_id
from broker.groups.errors import GroupError
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from broker.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_describe import (
    CLASSIC_MEMBER,
    CONSUMER_MEMBER,
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)


def handle(request: Request, services: Services) -> Steps:
    """Describe each group in the request."""
    body: ConsumerGroupDescribeRequest = request.body
    response = ConsumerGroupDescribeResponse()
    for group_id in dict.fromkeys(body.group_ids):
        group = yield from _described(group_id, services)
        if body.include_authorized_operations and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
        response.groups.append(group)
        yield 0
    return response


def _described(group_id: str, services: Services) -> Generator[int, None, DescribedGroup]:
    try:
        check_id(group_id)
        group = services.groups.group(group_id)
    except GroupError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    if group is None:
        return _not_found(group_id, f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        return _not_found(group_id, f"Group {group_id} is not a consumer group.")
    state = group.state
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=state.epoch,
        assignment_epoch=state.target_epoch,
        assignor_name=preferred_assignor(state, services.config.group_consumer_assignors),
    )
    for member in list(state.members.values()):  # a snapshot: later states are other objects
        target = state.targets.get(member.member_id, {})
        described.members.append(_member(member, target, services.topics))
        yield sum(map(len, target.values())) * 8
    return described


def _not_found(group_id: str, message: str) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message
    )


def _member(member: ConsumerGroupMember, target: PartitionsByTopic, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(_held(member), topics),
        target_assignment=_assignment(target, topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _held(member: ConsumerGroupMember) -> PartitionsByTopic:
    """Return the partitions that a member has, or has yet to revoke."""
    assigned, leaving = member.assigned, member.pending_revocation
    return {
        topic_id: frozenset((*assigned.get(topic_id, ()), *leaving.get(topic_id, ())))
        for topic_id in {**assigned, **leaving}
    }


def _assignment(partitions: PartitionsByTopic, topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id,
                topic_name=topic.name,
                partitions=sorted(partitions[topic_id]),
            )
            for topic_id in sorted(partitions)
            if (topic := topics.by_id(topic_id)) is not None
        ]
    )


def error_response(request: Request, code: ErrorCode) -> ConsumerGroupDescribeResponse:
    """Return an answer with `code` for each group in the request."""
    return ConsumerGroupDescribeResponse(
        groups=[
            DescribedGroup(group_id=group_id, error_code=code)
            for group_id in request.body.group_ids
        ]
    )
