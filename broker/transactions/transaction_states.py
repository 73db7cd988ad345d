"""The states of a transactional id and the events that change them, as one table.

A transaction changes its state only by `next_state`, which raises for a step that is not in the
table. `diagram` prints the diagram of docs/transactions.md from it, and a test compares them.

The numbers are Kafka's, on disk: never renumber. Kafka declares two more states: 6 Dead and
7 PrepareEpochFence. Neither is ever on the disk, and neither exists here: an id that expires is
removed with a tombstone, and fencing goes from Ongoing to PrepareAbort in one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final


class TransactionState(IntEnum):
    """The state of a transactional id, with its number on the disk."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """The name that clients see, as Kafka writes it."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and not yet in every partition."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self in IDLE


class TransactionEvent(StrEnum):
    """What changes the state of a transactional id."""

    INIT = "InitProducerId"
    ADD = "a partition is added"
    COMMIT = "EndTxn, to commit"
    ABORT = "EndTxn to abort, a timeout, a new instance or an operator"
    COMPLETED = "all markers are durable"


class EndReason(StrEnum):
    """Why a transaction ended, for `barnabas transactions describe`."""

    CLIENT = "client"
    TIMEOUT = "timeout"
    FENCED = "fenced"
    OPERATOR = "operator"
    RECOVERED = "recovered"  # a start went on with a decision of a crashed broker


IDLE: Final = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)

TRANSACTIONS: Final[Mapping[tuple[TransactionState, TransactionEvent], TransactionState]] = {
    **{(state, TransactionEvent.INIT): TransactionState.EMPTY for state in IDLE},
    **{
        (state, TransactionEvent.ADD): TransactionState.ONGOING
        for state in (*IDLE, TransactionState.ONGOING)
    },
    (TransactionState.ONGOING, TransactionEvent.COMMIT): TransactionState.PREPARE_COMMIT,
    **{
        (state, TransactionEvent.ABORT): TransactionState.PREPARE_ABORT
        for state in (TransactionState.ONGOING, *IDLE)
    },
    (
        TransactionState.PREPARE_COMMIT,
        TransactionEvent.COMPLETED,
    ): TransactionState.COMPLETE_COMMIT,
    (
        TransactionState.PREPARE_ABORT,
        TransactionEvent.COMPLETED,
    ): TransactionState.COMPLETE_ABORT,
}


def next_state(state: TransactionState, event: TransactionEvent) -> TransactionState:
    """Return the state after `event`. Raises AssertionError for a step that the table lacks."""
    try:
        return TRANSACTIONS[state, event]
    except KeyError:
        raise AssertionError(f"no step for {event.name} in state {state.title}") from None


def diagram() -> str:
    """Return the table as a Mermaid state diagram, one line per step."""
    lines = ["stateDiagram-v2", f"    [*] --> Empty: {TransactionEvent.INIT}"]
    lines += [
        f"    {source.title} --> {target.title}: {event}"
        for (source, event), target in TRANSACTIONS.items()
    ]
    lines += [f"    {state.title} --> [*]: the id expires" for state in IDLE]
    return "\n".join(lines)
