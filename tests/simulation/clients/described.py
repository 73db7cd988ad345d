"""Describing groups of both protocols, noted as events."""

from __future__ import annotations

from typing import Any

from protocol.messages.consumer_group_describe import (
    CLASSIC_MEMBER,
    Assignment,
    ConsumerGroupDescribeRequest,
)
from protocol.messages.describe_groups import DescribeGroupsRequest
from tests.simulation.clients.caller import Caller
from tests.simulation.group_events import Described, DescribedMember, Partition


async def describe_groups(caller: Caller, names: list[str]) -> None:
    """Ask DescribeGroups for some groups."""
    version = caller.version_of(DescribeGroupsRequest)
    body = DescribeGroupsRequest(groups=names, include_authorized_operations=caller.chance(0.2))
    began_ns = caller.now_ns
    answer = await caller.ask(body, version)
    for group, event in _noted(caller, names, answer, began_ns, is_consumer=False):
        event.members = [
            DescribedMember(member_id=member.member_id, has_metadata=bool(member.member_metadata))
            for member in group.members
        ]


async def describe_consumer_groups(caller: Caller, names: list[str]) -> None:
    """Ask ConsumerGroupDescribe for some groups."""
    version = caller.version_of(ConsumerGroupDescribeRequest)
    began_ns = caller.now_ns
    answer = await caller.ask(ConsumerGroupDescribeRequest(group_ids=names), version)
    for group, event in _noted(caller, names, answer, began_ns, is_consumer=True):
        event.epoch = group.group_epoch
        event.target_epoch = group.assignment_epoch
        event.members = [_described(member, version) for member in group.members]


def _noted(
    caller: Caller, names: list[str], answer: Any, began_ns: int, *, is_consumer: bool
) -> list[tuple[Any, Described]]:
    """Note each group of an answer, if there is one; return it with its event, to be completed."""
    if answer is None:
        return []
    if [group.group_id for group in answer.groups] != names:
        caller.record.fail(caller.name, f"asked for {names}, got others described")
    events = [
        Described(
            who=caller.name,
            group=group.group_id,
            began_ns=began_ns,
            ended_ns=caller.now_ns,
            code=group.error_code,
            is_consumer=is_consumer,
            state=group.group_state,
        )
        for group in answer.groups
    ]
    caller.record.group_events += events
    return list(zip(answer.groups, events, strict=True))


def _described(member: Any, version: int) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        epoch=member.member_epoch,
        owned=_partitions(member.assignment),
        target=_partitions(member.target_assignment),
        is_classic=version < 1 or member.member_type == CLASSIC_MEMBER,
    )


def _partitions(assignment: Assignment) -> frozenset[Partition]:
    return frozenset(
        (topic.topic_id.hex(), number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )
