"""A mechanism as the network sees it: tokens in, replies out, until it is over.

A `Mechanism` serves one login of one connection:

    token ── respond ──> Reply(token)                 the login goes on: the client answers
                         Reply(token, identity)       it is over: the client is `identity`
                         AuthenticationFailed         it is over: refused

A reply that takes long (a key derivation, a question to another server) is a coroutine, which runs
as a task; the connection waits for it and no other does. It ends in the same three ways.

`AuthenticationFailed` has two texts. `said` travels to the client, and is the same for whatever an
attacker must not tell apart: an unknown user, a wrong password. `why` is for the log of the broker,
and holds no secret either.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol


class Identity(NamedTuple):
    """Who a client is: a user's name, and when that ends, by the wall clock, if it does.

    `still_holds` says whether the user may still be logged in; None: as long as the connection.
    """

    user: str
    expires_at_ms: int | None = None
    still_holds: Callable[[], bool] | None = None


class Reply(NamedTuple):
    """The token for the client, and who it is if the login is over."""

    token: bytes
    identity: Identity | None = None


class AuthenticationFailed(Exception):
    """The login is refused: what the client is told, and what the log says beside that."""

    def __init__(self, said: str, why: str = "") -> None:
        super().__init__(said)
        self.said = said
        self.why = why or said


class Mechanism(Protocol):
    """One login."""

    def respond(self, token: bytes) -> Reply | Coroutine[Any, Any, Reply]:
        """Take the client's next token. Raises AuthenticationFailed."""
        ...


def shown(user: str) -> str:
    """Return a name that a client has sent as it may stand in a log."""
    return repr(user[:64])
