"""What it means that the broker refuses a transaction's request, without asking it again.

A refused epoch may mean two things: the broker has aborted the transaction, and the producer may go
on in a new epoch; or a newer producer has the id. Only another InitProducerId tells; until then
`explained` returns None.
"""

from __future__ import annotations

from typing import Final

from client.codes import BrokerError
from client.transactions.errors import (
    ProducerFenced,
    RequestFailed,
    TransactionAborted,
    TransactionError,
    TransactionTimedOut,
)
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import LastEnd

TIMEOUT: Final = "timeout"  # why a transaction ended last (LastEnd.reason)
OPERATOR: Final = "operator"
FENCED: Final = "fenced"  # by an instance that has begun
REPLACED: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


def explained(
    error: BrokerError, transactional_id: str, *, of_commit: bool = False
) -> BrokerError | None:
    """Return what the failure of a request means; None if the epoch is over."""
    if not isinstance(error, RequestFailed):
        return error
    if error.code == ErrorCode.TRANSACTION_ABORTABLE:
        return TransactionAborted(
            f"the transaction of {transactional_id!r} must be aborted: {error}", is_over=False
        )
    has_ended = of_commit and error.code == ErrorCode.INVALID_TXN_STATE
    return None if error.code in REPLACED or has_ended else error


def interrupted(error: BaseException) -> TransactionAborted:
    """Return why a transaction can only be aborted after a request that was given up.

    Records that `send` had taken may not be at the broker: a caller may catch the interruption, and
    leave the block as if nothing was missing.
    """
    return TransactionAborted(
        f"a request was given up ({type(error).__name__}), and what it carried may be missing",
        is_over=False,
    )


def ended_by_broker(
    transactional_id: str, ended: LastEnd | None, open_s: float, timeout_ms: int
) -> TransactionError:
    """Return the error for a transaction that is over, after which the producer may go on.

    `ended` is how the broker says that it ended, `open_s` how long it was open.
    """
    timeout_s = timeout_ms / 1000
    why = ended.reason if ended is not None else TIMEOUT if open_s >= timeout_s else ""
    if why == TIMEOUT:
        return TransactionTimedOut(
            f"the broker aborted the transaction of {transactional_id!r}: it was open for "
            f"{open_s:.1f} s, and its timeout is {timeout_s:g} s. Begin a new one; if it needs "
            "longer, raise timeout_ms."
        )
    said = "An operator ended it" if why == OPERATOR else "The broker does not say more"
    return TransactionAborted(
        f"the transaction of {transactional_id!r} was aborted after {open_s:.1f} s. {said}. "
        "Begin a new one."
    )


def fenced(transactional_id: str, ended: LastEnd | None) -> ProducerFenced:
    """Return the error for a producer whose id another one has."""
    if ended is not None and ended.reason == OPERATOR:
        return ProducerFenced(
            f"an operator ended the transaction of {transactional_id!r}, which fences its producer."
            " Start a new producer to go on."
        )
    return ProducerFenced(
        f"a newer producer has taken over the transactional id {transactional_id!r}; this one is "
        "fenced, and what it had open was aborted. If both shall run, give each an id of its own."
    )
