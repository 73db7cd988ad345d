"""Finding targets: who should have which partition in an epoch of the group.

    small    by the heartbeat that needs them, at once
    large    in the pool, for the state as it was then; meanwhile members keep the targets of the
             epoch before, and one who has none waits in epoch 1 with nothing, as in KIP-1263

What was found for one epoch is taken even when the group has moved to another meanwhile: else a
group that members keep joining would never get targets. It is of its own epoch, so the group then
looks for those of the next one. Targets of members who have gone are passed over; those of a
static member are its successor's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from broker.groups.consumer.assignors import ASSIGNORS, Partitions, Subscriber
from broker.groups.consumer.draft import Draft
from broker.groups.consumer.state import ConsumerState
from broker.groups.consumer.subscriptions import existing, topic_names
from broker.topics import Topics

# Subscriptions to a topic plus partitions: these take 6 ms or so, several times that if all are
# in one hand and are to be evened out.
SMALL_MAX: Final = 2_000


class TargetSearch(NamedTuple):
    """What an assignor has to know; nothing of it changes, so that a thread can read it.

    The state of a group is replaced by the next one, and not changed itself.
    """

    state: ConsumerState
    topics: Mapping[str, tuple[bytes, int]]  # name -> id and partition count
    assignor: str

    @property
    def is_small(self) -> bool:
        """Whether it can be done on the loop."""
        work = sum(count for _, count in self.topics.values())
        for member in self.state.members.values():
            work += len(topic_names(member, self.state.regexes))
            if work > SMALL_MAX:
                return False
        return work <= SMALL_MAX

    def run(self) -> dict[str, Partitions]:
        """Return what every member should have."""
        state = self.state
        ids_of: dict[frozenset[str], frozenset[bytes]] = {}  # members mostly ask for the same
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
    """Return how to find the targets of the group's epoch."""
    found = {
        topic.name: (topic.topic_id, len(topic.partitions))
        for topic in existing(topics_of(state), topics)
    }
    return TargetSearch(state, found, preferred_assignor(state, assignors))


def put_targets(
    draft: Draft, searched: ConsumerState, found: Mapping[str, Partitions], now_ms: int
) -> None:
    """Write what was found for `searched`, as far as it is new."""
    state = draft.state
    for member_id, target in found.items():
        heir = _heir(member_id, searched, state)
        if heir is not None and target != state.targets.get(heir):
            draft.put_target(heir, target)
    draft.put_target_epoch(searched.epoch, now_ms)


def _heir(member_id: str, before: ConsumerState, now: ConsumerState) -> str | None:
    """Return who has a member's place now, if anybody has."""
    if member_id in now.members:
        return member_id
    return now.static_ids.get(before.members[member_id].instance_id or "")


def preferred_assignor(state: ConsumerState, assignors: Collection[str]) -> str:
    """Return the assignor that most members ask for; the broker's first if none does."""
    votes: dict[str, int] = {}
    for member in state.members.values():
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    if not votes:
        return next(iter(assignors))
    return max(sorted(votes), key=lambda name: votes[name])


def topics_of(state: ConsumerState) -> set[str]:
    """Return the names of all topics that members ask for."""
    return set().union(*{topic_names(member, state.regexes) for member in state.members.values()})
