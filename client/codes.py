"""Error codes as a client shows them: by Kafka's name, or by number if the name is unknown.

A broker may be newer than this client. As in Kafka's clients (`Errors.forCode`), an unknown code
counts as UNKNOWN_SERVER_ERROR; its number is still shown.
"""

from __future__ import annotations

from protocol.errors import ErrorCode


class BrokerError(Exception):
    """The broker cannot be reached, or its answer makes no sense."""


def code_of(number: int) -> ErrorCode:
    """Return the code of a number, UNKNOWN_SERVER_ERROR if it is unknown."""
    try:
        return ErrorCode(number)  # type: ignore[call-arg]
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def code_text(number: int, message: str | None = None) -> str:
    """Return an error code as text: Kafka's name, the number, and what it means."""
    code = code_of(number)
    if code != number:
        return f"error {number}: {message or 'unknown to this client'}"
    return f"{code.name} ({number}): {message or code.message}"
