"""A login by SASL from the client's side: tokens in, tokens out, no I/O.

`Login` says who logs in and how; `begin` makes one `Exchange` for one connection:

    exchange.first                     the first token
    exchange.next(server's token)      the next token, or None: the login is over, and the server
                                       has proved that it knows the user (SCRAM)

PLAIN shows the password to the server, SCRAM does not. `next` takes some milliseconds. The token
of OAUTHBEARER is in a file, which is read at each login: whatever renews the token replaces it.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final, Protocol

from protocol.scram import (
    HASHES,
    ScramError,
    escaped,
    prove,
    read_server_final,
    read_server_first,
    salted_password,
    unproven_final,
)

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *HASHES, OAUTHBEARER)
NONCE_BYTES: Final = 24
_REFUSED: Final = b"\1"  # ends the exchange after the server's error (RFC 7628), which it repeats


class LoginError(Exception):
    """There is no token to log in with, or the server's are not of one that knows the user."""


class Exchange(Protocol):
    """One login of one connection."""

    first: bytes

    def next(self, token: bytes) -> bytes | None:
        """Take the server's token; return ours, or None if the login is over. Raises LoginError."""
        ...


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in, and by which mechanism; `username` is the token's file for OAUTHBEARER."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    def begin(self) -> Exchange:
        """Begin a login on a new connection. Raises LoginError."""
        if self.mechanism == OAUTHBEARER:
            return _Bearer(self)
        return _Plain(self) if self.mechanism == PLAIN else _Scram(self)


class _Plain:
    def __init__(self, login: Login) -> None:
        self.first = f"\0{login.username}\0{login.password}".encode()

    def next(self, _: bytes) -> bytes | None:
        return None


class _Bearer:
    def __init__(self, login: Login) -> None:
        try:
            with open(login.username, encoding="ascii") as file:
                token = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise LoginError(f"no token can be read from {login.username}: {reason}") from None
        self.first = f"n,,\1auth=Bearer {token}\1\1".encode()

    def next(self, token: bytes) -> bytes | None:
        return _REFUSED if token else None


class _Scram:
    def __init__(self, login: Login) -> None:
        self._login = login
        self._nonce = base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode().rstrip("=")
        self._bare = f"n={escaped(login.username)},r={self._nonce}"
        self._expected: bytes | None = None
        self.first = f"n,,{self._bare}".encode()

    def next(self, token: bytes) -> bytes | None:
        try:
            if self._expected is None:
                return self._prove(token)
            if hmac.compare_digest(read_server_final(token), self._expected):
                return None
        except ScramError as error:
            raise LoginError(f"the answer is no message of SCRAM: {error}") from None
        raise LoginError("the server does not know this user's keys: it is not the server it was")

    def _prove(self, token: bytes) -> bytes:
        login = self._login
        name = login.mechanism
        server = read_server_first(token)
        if not server.nonce.startswith(self._nonce) or server.nonce == self._nonce:
            raise LoginError("the answer is for another login: it has another nonce")
        salted = salted_password(name, login.password, server.salt, server.iterations)
        proof = prove(name, salted, self._bare, token, unproven_final(server.nonce))
        self._expected = proof.owed
        return proof.message
