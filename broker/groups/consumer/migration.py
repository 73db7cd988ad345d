"""Converts a group from one kind to the other while its members continue (KIP-848).

`group.consumer.migration.policy` allows either direction, both or none.

Upgrade: the first member of the new protocol joins a classic group of consumers. Every member
becomes a member of a consumer group: the generation becomes its epoch, its assignment its target.
Waiting JoinGroups and SyncGroups are answered with REBALANCE_IN_PROGRESS.

Downgrade: the last member of the new protocol has left, or a static member has rejoined with the
classic protocol. The remaining members form a classic group. If a member has left, they must
rejoin, which elects a leader. If all have reached their targets, they continue.

The records that end one group and begin the other are written in one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.consumer.assignors import PartitionsByTopic
from broker.groups.consumer.consumer_member import ClassicSide, ConsumerGroupMember
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.embedded_protocol import (
    assignment_bytes,
    partitions_of,
    read_subscription,
)
from broker.groups.consumer.membership import Membership
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.subscriptions import metadata_hash
from broker.groups.errors import GroupError
from broker.groups.group import Host
from broker.topics import Topics
from config.broker import BrokerConfig
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, version_of
from protocol.errors import DecodeError, ErrorCode
from protocol.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.messages.join_group import JoinGroupRequestProtocol

UPGRADES = ("upgrade", "bidirectional")
DOWNGRADES = ("downgrade", "bidirectional")


def upgraded(old: ClassicGroup, host: Host) -> Draft:
    """Return a draft of the consumer group that replaces a classic group.

    Its records begin with the tombstones of the classic group. Raises GroupError if the group
    cannot be converted.
    """
    obstacle = _obstacle(old, host.config)
    if obstacle:
        raise _cannot_upgrade(old.group_id, obstacle)
    draft = Draft(ConsumerState(old.group_id))
    draft.records.extend(old.tombstones())
    members = [_from_classic(old, one.member_id, host.topics) for one in old.generation.roster]
    for member in members:
        draft.put_member(member)
    names = {name for member in members for name in member.topic_names}
    draft.put_epoch(old.generation.generation_id, metadata_hash(names, host.topics))
    for member in members:
        draft.put_target(
            member.member_id,
            {topic_id: frozenset(numbers) for topic_id, numbers in member.assigned.items()},
        )
    draft.put_target_epoch(old.generation.generation_id, host.clock.now_ms())
    for member in members:
        draft.put_current(member)
    return draft


def _obstacle(old: ClassicGroup, config: BrokerConfig) -> str:
    """Return why a classic group cannot be upgraded; empty if it can."""
    if config.group_consumer_migration_policy not in UPGRADES:
        return "online upgrade is disabled"
    if old.protocol_type != PROTOCOL_TYPE:
        return "the group does not use the consumer embedded protocol"
    if len(old.generation.roster) > config.group_consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    return ""


def _cannot_upgrade(group_id: str, why: str) -> GroupError:
    return GroupError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group_id} to consumer group because {why}.",
    )


def write_removal(
    membership: Membership, draft: Draft, done: Callable[[ErrorCode], None] | None
) -> None:
    """Write a draft as `Membership.write` does, after members have left.

    Downgrades the group if only members of the classic protocol are left.
    """
    if may_be_classic(draft.state, membership.host.config):
        _downgrade(membership, draft, done, replaces=False)
    else:
        membership.write(draft, done)


def write_replacement(
    membership: Membership, draft: Draft, done: Callable[[ErrorCode], None]
) -> bool:
    """Write a draft as `Membership.write` does, after a static member changed its protocol.

    Downgrades the group if only members of the classic protocol are left; returns whether it did.
    """
    is_theirs = may_be_classic(draft.state, membership.host.config)
    if is_theirs:
        _downgrade(membership, draft, done, replaces=True)
    else:
        membership.write(draft, done)
    return is_theirs


def may_be_classic(state: ConsumerState, config: BrokerConfig) -> bool:
    """Whether the group may be downgraded: only members of the classic protocol are left."""
    return (
        bool(state.members)
        and config.group_consumer_migration_policy in DOWNGRADES
        and len(state.members) <= config.group_max_size
        and all(member.classic is not None for member in state.members.values())
    )


def _downgrade(
    membership: Membership,
    draft: Draft,
    done: Callable[[ErrorCode], None] | None,
    *,
    replaces: bool,
) -> None:
    """Write `draft` and the tombstones of the group, and put a classic group in its place.

    `replaces`: a member of the classic protocol has replaced the last one of the new protocol.
    Raises GroupError if nothing was written; nothing has changed then.
    """
    state, host, group_id = draft.state, membership.host, membership.group_id
    value = _as_classic(state, host)
    spoken = {
        member_id: [
            JoinGroupRequestProtocol(name=name, metadata=said)
            for name, said in (member.classic.protocols if member.classic else ())
        ]
        for member_id, member in state.members.items()
    }
    goes_on = replaces and all(_has_target(state, member) for member in state.members.values())
    draft.remove_group()
    draft.put(GroupMetadataKey(group=group_id), value)
    membership.write(draft, done)
    membership.end()
    classic = ClassicGroup.from_record(group_id, value, host)
    roster = classic.generation.roster
    for member in roster:
        roster.set_protocols(member, spoken[member.member_id])
    host.put(classic)
    classic.loaded()
    if not goes_on:
        classic.rebalance.prepare()


def _has_target(state: ConsumerState, member: ConsumerGroupMember) -> bool:
    """Whether a member has reached its target, in the group's epoch."""
    target = {
        topic_id: of for topic_id, of in state.targets.get(member.member_id, {}).items() if of
    }
    has = {topic_id: frozenset(numbers) for topic_id, numbers in member.assigned.items() if numbers}
    return member.member_epoch == state.epoch == state.target_epoch and has == target


def _from_classic(old: ClassicGroup, member_id: str, topics: Topics) -> ConsumerGroupMember:
    generation = old.generation
    known = generation.roster.members[member_id]
    # A member that has joined again, while the others have not yet, may no longer offer the
    # protocol of the last generation.
    spoken = {one.name: one.metadata for one in known.protocols}
    metadata = spoken.get(generation.protocol_name or "") or known.protocols[0].metadata
    subscription = read_subscription(bytes(metadata))
    held = _partitions(old.group_id, bytes(known.assignment), topics)
    return ConsumerGroupMember(
        member_id=member_id,
        instance_id=known.instance_id,
        rack_id=subscription.rack_id,
        client_id=known.client_id,
        client_host=known.client_host,
        rebalance_timeout_ms=known.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        classic=ClassicSide(
            known.session_timeout_ms,
            tuple((spoken.name, bytes(spoken.metadata)) for spoken in known.protocols),
        ),
        member_epoch=generation.generation_id,
        previous_member_epoch=generation.generation_id,
        assigned={
            topic_id: dict.fromkeys(numbers, generation.generation_id)
            for topic_id, numbers in held.items()
        },
    )


def _partitions(group_id: str, assignment: bytes, topics: Topics) -> PartitionsByTopic:
    """Decode an assignment of the classic protocol. Raises GroupError."""
    if not assignment:
        return {}
    try:
        decoded = decode_assignment(assignment)
    except DecodeError as error:
        raise _cannot_upgrade(
            group_id, f"the embedded consumer protocol is malformed: {error}"
        ) from error
    if decoded.user_data:
        raise _cannot_upgrade(
            group_id,
            "an unsupported custom assignor is in use, whose user data would be lost: switch to a"
            " default assignor first",
        )
    return partitions_of(decoded.assigned_partitions, topics)


def _version_of(subscription: bytes) -> int:
    """Return the version to assign in; 0 if the subscription cannot be read.

    Of the protocols that a member offers, its join reads the first only, as in Kafka.
    """
    try:
        return version_of(subscription)
    except DecodeError:
        return 0


def _as_classic(state: ConsumerState, host: Host) -> GroupMetadataValue:
    """Return the members as a classic generation with their present assignments."""
    sides = {
        member_id: member.classic
        for member_id, member in state.members.items()
        if member.classic is not None
    }
    common = set.intersection(*({name for name, _ in side.protocols} for side in sides.values()))
    votes = Counter(
        next(name for name, _ in side.protocols if name in common) for side in sides.values()
    )
    protocol = votes.most_common(1)[0][0]
    members = []
    for member_id, side in sides.items():
        member = state.members[member_id]
        subscription = dict(side.protocols)[protocol]
        members.append(
            MemberMetadata(
                member_id=member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=side.session_timeout_ms,
                subscription=subscription,
                assignment=assignment_bytes(member, host.topics, _version_of(subscription)),
            )
        )
    return GroupMetadataValue(
        protocol_type=PROTOCOL_TYPE,
        generation=state.epoch,
        protocol=protocol,
        leader=members[0].member_id,
        current_state_timestamp=host.clock.now_ms(),
        members=members,
    )
