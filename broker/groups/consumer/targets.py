"""Finds targets: the partitions that each member should have in an epoch of the group.

    small group    the heartbeat that needs targets finds them at once
    large group    a thread finds them for a snapshot of the state; until then, members keep the
                   targets of the epoch before, and new members wait in epoch 1 without partitions,
                   as in KIP-1263

The targets of an epoch are used even if the group has moved on in the meantime; otherwise a group
that members keep joining would never get targets. The group then searches again for its new epoch.
Targets of members that have left are dropped; those of a static member go to its successor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from broker.groups.consumer.assignors import ASSIGNORS, PartitionsByTopic, Subscriber
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.subscriptions import existing, topic_names, topic_sets
from broker.topics import Topics

# Subscriptions plus partitions. This many take about 6 ms, or several times that if one member owns
# all partitions and they must be spread.
SMALL_MAX: Final = 2_000


class TargetSearch(NamedTuple):
    """The input of an assignor. It is immutable, so a thread can read it.

    A group replaces its state and never changes it.
    """

    state: ConsumerState
    topics: Mapping[str, tuple[bytes, int]]  # name -> id and partition count
    assignor: str

    @property
    def is_small(self) -> bool:
        """Whether it is quick enough for the loop."""
        work = sum(count for _, count in self.topics.values())
        for member in self.state.members.values():
            work += len(topic_names(member, self.state.regexes))
            if work > SMALL_MAX:
                return False
        return work <= SMALL_MAX

    def run(self) -> dict[str, PartitionsByTopic]:
        """Return the target of every member."""
        state = self.state
        ids_of: dict[frozenset[str], frozenset[bytes]] = {}  # most members have the same
        subscribers = {}
        for member in state.members.values():
            names = topic_names(member, state.regexes)
            ids = ids_of.get(names)
            if ids is None:
                ids = frozenset(self.topics[name][0] for name in names & self.topics.keys())
                ids_of[names] = ids
            subscribers[member.member_id] = Subscriber(
                member.instance_id, ids, state.targets.get(member.member_id, {})
            )
        return ASSIGNORS[self.assignor](subscribers, dict(self.topics.values()))


def search(state: ConsumerState, topics: Topics, assignors: Collection[str]) -> TargetSearch:
    """Return the search for the targets of the group's epoch."""
    found = {
        topic.name: (topic.topic_id, len(topic.partitions))
        for topic in existing(topics_of(state), topics)
    }
    return TargetSearch(state, found, preferred_assignor(state, assignors))


def put_targets(
    draft: Draft, searched: ConsumerState, found: Mapping[str, PartitionsByTopic], now_ms: int
) -> None:
    """Write the targets that were found for `searched`, if they differ from the present ones."""
    state = draft.state
    for member_id, target in found.items():
        successor = _successor(member_id, searched, state)
        if successor is not None and target != state.targets.get(successor):
            draft.put_target(successor, target)
    draft.put_target_epoch(searched.epoch, now_ms)


def _successor(member_id: str, before: ConsumerState, now: ConsumerState) -> str | None:
    """Return the member itself, its static successor, or None."""
    if member_id in now.members:
        return member_id
    return now.static_ids.get(before.members[member_id].instance_id or "")


def preferred_assignor(state: ConsumerState, assignors: Collection[str]) -> str:
    """Return the assignor that most members request; the broker's first if none does."""
    votes: dict[str, int] = {}
    for member in state.members.values():
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    if not votes:
        return next(iter(assignors))
    return max(sorted(votes), key=lambda name: votes[name])


def topics_of(state: ConsumerState) -> set[str]:
    """Return the names of all topics that members subscribe to."""
    return set().union(*topic_sets(state.subscriptions.keys(), state.regexes))
