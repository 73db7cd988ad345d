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


def refusal_of(error: StorageError) -> TransactionError:
    """Return the error of an operation whose record could not be written."""
    if isinstance(error, BatchTooLarge):
        return TransactionError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return TransactionError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
