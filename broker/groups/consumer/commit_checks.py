"""Who may commit offsets of a consumer group: its members, in their epoch.

An older epoch will do for partitions that the member has had since then: its epoch may have grown
without its knowing it yet (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.state import ConsumerState
from broker.groups.errors import GroupError
from broker.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

EPOCH_COMMIT_VERSION: Final = 9  # of OffsetCommit: from here on it names a member's epoch
NO_GENERATION: Final = -1  # of a TxnOffsetCommit whose sender is not a member

Places = Sequence[tuple[str, int]]  # names of topics, and partitions


def check_commit(
    state: ConsumerState, topics: Topics, body: OffsetCommitRequest, places: Places, version: int
) -> None:
    """Raise GroupError for an OffsetCommit of a non-member, or of another epoch."""
    generation = body.generation_id_or_member_epoch
    if generation < 0 and not state.members:
        return
    member = state.member(body.member_id)
    if member.classic is None and version < EPOCH_COMMIT_VERSION:
        raise GroupError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the modern group"
            " protocol",
        )
    _check_places(topics, member, places, generation)


def check_txn_commit(
    state: ConsumerState, topics: Topics, body: TxnOffsetCommitRequest, places: Places
) -> None:
    """Raise GroupError for a TxnOffsetCommit, as for an OffsetCommit.

    One that names no member is accepted. The errors are those of the classic protocol.
    """
    generation = body.generation_id
    if generation < 0 and not state.members:
        return
    if generation == NO_GENERATION and not body.member_id and body.group_instance_id is None:
        return
    try:
        _check_places(topics, state.member(body.member_id), places, generation)
    except GroupError as error:
        if error.code == ErrorCode.STALE_MEMBER_EPOCH:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION, str(error)) from error
        raise


def _check_places(
    topics: Topics, member: ConsumerGroupMember, places: Places, generation: int
) -> None:
    if generation >= member.member_epoch or not _had(topics, member, places, generation):
        check_epoch(member, generation)


def _had(topics: Topics, member: ConsumerGroupMember, places: Places, epoch: int) -> bool:
    """Whether a member has had all `places` since `epoch` or longer."""
    for name, partition in places:
        topic = topics.by_name(name)
        since = None if topic is None else member.held_since(topic.topic_id, partition)
        if since is None or since > epoch:
            return False
    return True


def check_epoch(member: ConsumerGroupMember, epoch: int) -> None:
    """Raise GroupError unless `epoch` is the member's."""
    if epoch == member.member_epoch:
        return
    if member.classic is not None:
        raise GroupError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {epoch} does not match the expected member epoch"
            f" {member.member_epoch}.",
        )
    raise GroupError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {epoch} does not match the expected member epoch"
        f" {member.member_epoch}.",
    )
