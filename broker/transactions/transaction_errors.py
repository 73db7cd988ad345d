"""The error of refused operations on transactions.

Storage's errors become COORDINATOR_NOT_AVAILABLE here: clients of a coordinator look it up again
and retry, which is right for a full disk, and all that can be done for a failed one.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from storage.errors import BatchTooLarge, StorageError


class TransactionError(Exception):
    """A refused operation on a transaction; `code` is the error code for the client."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.message)
        self.code = code


class RecordTooLarge(TransactionError):
    """The record of a transaction does not fit into a batch: it has too many partitions.

    The code is Kafka's.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def refusal_of(error: StorageError) -> TransactionError:
    """Return the error of an operation whose record could not be written."""
    if isinstance(error, BatchTooLarge):
        return RecordTooLarge(str(error))
    return TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
