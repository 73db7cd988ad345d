"""How an operation on a group is refused, and how a failed write reads to a group's client."""

from __future__ import annotations

from protocol.errors import ErrorCode


class GroupError(Exception):
    """An operation on a group is refused; `code` is what the client sees."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.message)
        self.code = code


# Kafka's CoordinatorOperationExceptionHelper: clients know these and not the errors of a log.
_OF_A_WRITE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def code_of_write(code: ErrorCode) -> ErrorCode:
    """Return what a group's client is told when a write of its group ended with `code`."""
    return _OF_A_WRITE.get(code, code)
