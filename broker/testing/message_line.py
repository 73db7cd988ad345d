"""Messages between the parts of test control: one JSON object on each line of a socket or pipe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

LINE_BYTES_MAX = 64 * 1024 * 1024  # of a list of all requests, and then some

Message = dict[str, Any]


def line_of(message: Message) -> bytes:
    """Return a message as its line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class MessageReader:
    """Makes messages from the bytes that arrive."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that `data` completes. Raises ValueError for what is no message."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            raise ValueError(f"a message is longer than {LINE_BYTES_MAX} bytes")
        for line in lines:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError(  # noqa: TRY004 - as for bad JSON
                    f"a message is a JSON object, got {line[:80]!r}"
                )
            yield message
