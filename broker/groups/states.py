"""The states of groups and the events that change them, as tables.

A group changes its state only by `next_state`, which raises for a step that is not in the table.
`diagram` prints the diagrams of docs/groups.md from these tables, and a test compares them.

Classic groups have the states of Kafka's ClassicGroupState. Members see the state in the answers to
their requests:

    state               JoinGroup  SyncGroup          Heartbeat                OffsetCommit
    Empty               new ones   UNKNOWN_MEMBER_ID  UNKNOWN_MEMBER_ID        without a member
    PreparingRebalance  waits      REBALANCE_IN_…     REBALANCE_IN_PROGRESS    of the generation
    CompletingRebalance see below  waits              fine                     REBALANCE_IN_…
    Stable              see below  the assignment     fine                     of the generation
    Dead                COORDINATOR_NOT_AVAILABLE     (everything)

In CompletingRebalance and Stable, a JoinGroup without changes is answered with the present
generation. A new member or a new subscription begins a rebalance, and in Stable also the leader.

Consumer groups (KIP-848) have the states of Kafka's ConsumerGroupState. Members do not wait for
each other. The state only tells observers whether targets are missing, or a member has not reached
its target.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar


class ClassicGroupState(StrEnum):
    """State of a classic group; clients see the values."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class ClassicGroupEvent(StrEnum):
    """What changes the state of a classic group."""

    REBALANCE = "a member joins, leaves or requests it"
    JOINED = "all have joined, or the timeout is over"
    NOBODY_JOINED = "no member is left"
    ASSIGNED = "the leader's assignment is durable"
    REMOVED = "deleted, or its log is deleted"


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
    """State of a consumer group; clients see the values."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroupEvent(StrEnum):
    """The result of a change of members or topics, or of a member's step."""

    CHANGED = "members or topics have changed, targets are missing"
    ASSIGNED = "targets are found, not all members have reached theirs"
    REACHED = "all members have reached their targets"
    DESERTED = "no member is left"
    REMOVED = "deleted, or its log is deleted"


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
    """Return the state after `event`. Raises AssertionError for a step that the table lacks."""
    try:
        return table[state, event]
    except KeyError:
        raise AssertionError(f"no step for {event.name} in state {state}") from None


def diagram(table: Mapping[tuple[S, E], S]) -> str:
    """Return the table as a Mermaid state diagram, one line per step."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {source} --> {target}: {event}" for (source, event), target in table.items()]
    return "\n".join(lines)
