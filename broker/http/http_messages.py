"""A request and an answer of HTTP, as the pages see them: no sockets, no framing.

A page returns its body whole, or as a generator of pieces of text. A generator runs in short
slices, so that a large page does not keep the loop from clients (docs/design.md, I13); what it
yields need not fit into memory. What is sent over time, such as events, is an asynchronous
generator of bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import dataclass, field

TEXT = "text/plain; charset=utf-8"

Pieces = Generator[str, None, None]
Events = AsyncGenerator[bytes, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request; names of `headers` are in lower case, `query` has each name's values in order.

    `local_host` is the address of the broker that the client has reached.
    """

    method: str
    path: str
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    peer_host: str = ""
    local_host: str = ""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """One answer; `closes` ends the connection.

    Where a password was wrong, the listener sends it after `pause_seconds`.
    """

    status: int
    body: bytes | Pieces | Events = b""
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    pause_seconds: float = 0.0
    closes: bool = False


def sentence(status: int, text: str, *headers: tuple[str, str]) -> HttpAnswer:
    """Return an answer that is one line of text."""
    return HttpAnswer(status, f"{text}\n".encode(), headers=headers)
