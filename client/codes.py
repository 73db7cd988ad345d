"""Error codes as a client reads them: by Kafka's name, or by their number where none is known.

A broker may be newer than this client. As in Kafka's own clients (`Errors.forCode`), a code that is
not known counts as UNKNOWN_SERVER_ERROR; its number is still shown.
"""

from __future__ import annotations

from protocol.errors import ErrorCode


def code_of(number: int) -> ErrorCode:
    """Return the code of a number, UNKNOWN_SERVER_ERROR for one that is not known."""
    try:
        return ErrorCode(number)  # type: ignore[call-arg]
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def code_text(number: int, message: str | None = None) -> str:
    """Return an error code as a person needs it: Kafka's name, its number, and what it means."""
    code = code_of(number)
    if code != number:
        return f"error {number}: {message or 'not one that is known here'}"
    return f"{code.name} ({number}): {message or code.message}"
