"""The states of groups and what moves a group from one to another, as tables.

A group changes its state by `next_state` and in no other way, so what is not in a table does not
happen: it raises. The diagrams of docs/groups.md are printed from these tables (`diagram`), and a
test holds page and tables together.

Classic groups are Kafka's ClassicGroupState, names included; members of a group see the state by
what their requests are answered:

    state               JoinGroup  SyncGroup          Heartbeat                OffsetCommit
    Empty               new ones   UNKNOWN_MEMBER_ID  UNKNOWN_MEMBER_ID        without a member
    PreparingRebalance  waits      REBALANCE_IN_…     REBALANCE_IN_PROGRESS    of the generation
    CompletingRebalance see below  waits              fine                     REBALANCE_IN_…
    Stable              see below  the assignment     fine                     of the generation
    Dead                COORDINATOR_NOT_AVAILABLE     (everything)

In the two middle states a JoinGroup that tells nothing new is answered with the generation that
is; a new member, another subscription, or in Stable the leader, begins a rebalance.

Consumer groups (KIP-848) are Kafka's ConsumerGroupState. Members do not wait for each other, so
the state is for those who look on: whether targets are missing, or somebody is on the way to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar


class ClassicGroupState(StrEnum):
    """State of a classic group; the values are what clients are told."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroupEvent(StrEnum):
    """What moves a classic group."""

    REBALANCE = "a member comes, goes or asks for it"
    JOINED = "all have joined, or time is up"
    NOBODY_JOINED = "no member is left"
    ASSIGNED = "the leader's assignment is durable"
    REMOVED = "deleted, or its log is gone"


CLASSIC: Final[Mapping[tuple[ClassicGroupState, ClassicGroupEvent], ClassicGroupState]] = {
    (source, event): target
    for event, target, sources in (
        (
            ClassicGroupEvent.REBALANCE,
            ClassicGroupState.PREPARING_REBALANCE,
            (
                ClassicGroupState.EMPTY,
                ClassicGroupState.STABLE,
                ClassicGroupState.COMPLETING_REBALANCE,
            ),
        ),
        (
            ClassicGroupEvent.JOINED,
            ClassicGroupState.COMPLETING_REBALANCE,
            (ClassicGroupState.PREPARING_REBALANCE,),
        ),
        (
            ClassicGroupEvent.NOBODY_JOINED,
            ClassicGroupState.EMPTY,
            (ClassicGroupState.PREPARING_REBALANCE,),
        ),
        (
            ClassicGroupEvent.ASSIGNED,
            ClassicGroupState.STABLE,
            (ClassicGroupState.COMPLETING_REBALANCE,),
        ),
        (
            ClassicGroupEvent.REMOVED,
            ClassicGroupState.DEAD,
            (
                ClassicGroupState.EMPTY,
                ClassicGroupState.PREPARING_REBALANCE,
                ClassicGroupState.COMPLETING_REBALANCE,
                ClassicGroupState.STABLE,
            ),
        ),
    )
    for source in sources
}


class ConsumerGroupState(StrEnum):
    """State of a consumer group; the values are what clients are told."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroupEvent(StrEnum):
    """What a change of members or topics, or a step of a member, has come to."""

    CHANGED = "members or topics changed, targets are missing"
    ASSIGNED = "everyone has a target, not all have reached it"
    REACHED = "all have reached their targets"
    DESERTED = "no member is left"
    REMOVED = "deleted, or its log is gone"


_ALIVE: Final = (
    ConsumerGroupState.EMPTY,
    ConsumerGroupState.ASSIGNING,
    ConsumerGroupState.RECONCILING,
    ConsumerGroupState.STABLE,
)
CONSUMER: Final[Mapping[tuple[ConsumerGroupState, ConsumerGroupEvent], ConsumerGroupState]] = {
    (source, event): target
    for event, target in (
        (ConsumerGroupEvent.CHANGED, ConsumerGroupState.ASSIGNING),
        (ConsumerGroupEvent.ASSIGNED, ConsumerGroupState.RECONCILING),
        (ConsumerGroupEvent.REACHED, ConsumerGroupState.STABLE),
        (ConsumerGroupEvent.DESERTED, ConsumerGroupState.EMPTY),
        (ConsumerGroupEvent.REMOVED, ConsumerGroupState.DEAD),
    )
    for source in _ALIVE
}

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


def next_state(table: Mapping[tuple[S, E], S], state: S, event: E) -> S:
    """Return where `event` leads from `state`. A step that the table lacks is our own mistake."""
    try:
        return table[state, event]
    except KeyError:
        raise AssertionError(f"a group that is {state} was told: {event.name}") from None


def diagram(table: Mapping[tuple[S, E], S]) -> str:
    """Return the table as a Mermaid state diagram, a line for each step."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {source} --> {target}: {event}" for (source, event), target in table.items()]
    return "\n".join(lines)
