"""The error of refused operations on groups, and the codes that a failed write has for clients."""

from __future__ import annotations

from protocol.errors import ErrorCode


class GroupError(Exception):
    """A refused operation on a group; `code` is the error code for the client."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.message)
        self.code = code


# Kafka's CoordinatorOperationExceptionHelper: clients of groups do not handle errors of a log.
_OF_A_WRITE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def code_of_write(code: ErrorCode) -> ErrorCode:
    """Return the code for a group's client when a write to the group's log failed with `code`."""
    return _OF_A_WRITE.get(code, code)
