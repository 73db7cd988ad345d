"""SCRAM-SHA-256 and -512: a client proves that it knows a password without sending it.

    client first ──> server first      the salt of the user, or a mock one
    client final ──> server final      the proof is right: the login is over

Every failure says the same, as in Kafka, except an authorization id of another user. Unlike Kafka,
a login of an unknown user fails at the last step (`broker.security.sasl.scram_users`), the binding
(`c=`) must repeat the first message's beginning, and a proof of another size is refused like a
wrong one. Extensions are accepted and signed. A delegation token (`tokenauth=true`) is no user.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable

from broker.security.sasl.mechanism import AuthenticationFailed, Identity, Reply, shown
from broker.security.sasl.scram_users import Credential, CredentialSource
from protocol.scram import (
    ClientFirst,
    ScramError,
    combined,
    encoded,
    keyed,
    read_client_final,
    read_client_first,
    server_first,
    signed_text,
    stored_key,
)

NONCE_BYTES = 24


class ScramServer:
    """One login by SCRAM."""

    def __init__(
        self, mechanism: str, users: CredentialSource, random_bytes: Callable[[int], bytes]
    ) -> None:
        self._mechanism = mechanism
        self._users = users
        self._random_bytes = random_bytes
        self._first: ClientFirst | None = None
        self._server_first = ""
        self._nonce = ""
        self._credential: Credential

    def respond(self, token: bytes) -> Reply:
        """Take the client's first or final message."""
        try:
            return self._begin(token) if self._first is None else self._end(self._first, token)
        except ScramError as error:
            raise self._refused(f"malformed message, {error}") from None

    def _begin(self, token: bytes) -> Reply:
        self._first = first = read_client_first(token)
        if first.authzid not in ("", first.user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different"
                " from username"
            )
        self._credential = credential = self._users.find(
            self._mechanism, first.user, is_known=not first.is_token
        )
        fresh = base64.urlsafe_b64encode(self._random_bytes(NONCE_BYTES)).decode()
        self._nonce = first.nonce + fresh
        self._server_first = server_first(self._nonce, credential.salt, credential.iterations)
        return Reply(self._server_first.encode())

    def _end(self, first: ClientFirst, token: bytes) -> Reply:
        final = read_client_final(token)
        credential = self._credential
        user = f"user {shown(first.user)}"
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            raise self._refused(f"another nonce, {user}")
        if final.binding != first.header.encode():
            raise self._refused(f"another channel binding, {user}")
        text = signed_text(first.bare, self._server_first, final.unproven)
        signature = keyed(self._mechanism, credential.stored_key, text)
        if len(final.proof) != len(signature):
            raise self._refused(f"a proof of {len(final.proof)} bytes, {user}")
        key = stored_key(self._mechanism, combined(final.proof, signature))
        is_right = hmac.compare_digest(key, credential.stored_key)
        answer = keyed(self._mechanism, credential.server_key, text)
        if not is_right or credential.is_mock:
            raise self._refused(f"unknown user or wrong password, {user}")
        if self._users.find(self._mechanism, first.user) != credential:
            raise self._refused(f"changed or removed during the login, {user}")
        still_holds = self._users.still_holds(first.user, self._mechanism)
        return Reply(f"v={encoded(answer)}".encode(), Identity(first.user, still_holds=still_holds))

    def _refused(self, why: str) -> AuthenticationFailed:
        said = (
            "Authentication failed during authentication due to invalid credentials with SASL"
            f" mechanism {self._mechanism}"
        )
        return AuthenticationFailed(said, f"{said} ({why})")
