"""OAUTHBEARER (RFC 7628): a token in one message, believed by a validator.

    n,a=<user>,^A auth=Bearer <token> ^A <key>=<value> ^A … ^A       ^A is one byte of 1

A token that is not believed is answered with `{"status":"invalid_token"}`; the client acknowledges
with one ^A, and only then is the login refused, with that text. Anything else instead of the
acknowledgement is refused too; in Kafka a better token may follow. The reason is in the log only.
The authorization id, if there is one, must be the user whom the token names.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any, Final

from broker.security.oauth.token_rules import TokenRefused
from broker.security.oauth.token_validator import TokenValidator
from broker.security.sasl.mechanism import AuthenticationFailed, Identity, Reply, shown

INVALID: Final = '{"status":"invalid_token"}'
MALFORMED: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism"
    " OAUTHBEARER"
)
BEARER: Final = "bearer "
_HEADER = re.compile(r"n,(?:a=(?P<authzid>[^,\x01]*))?,\x01")
_PAIR = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[^\x01]*)")


class OAuthBearer:
    """One login by OAUTHBEARER."""

    def __init__(self, validator: TokenValidator) -> None:
        self._validator = validator
        self._why = ""  # the token was refused, and the client has not acknowledged that

    def respond(self, token: bytes) -> Reply | Coroutine[Any, Any, Reply]:
        """Take the client's message, or its acknowledgement of a refusal."""
        if self._why:
            raise AuthenticationFailed(INVALID, f"token refused: {self._why}")
        authzid, bearer = read_message(token)
        return self._check(authzid, bearer)

    async def _check(self, authzid: str, bearer: str) -> Reply:
        try:
            believed = await self._validator.validate(bearer)
        except TokenRefused as error:
            self._why = str(error)
            return Reply(INVALID.encode())
        if authzid not in ("", believed.user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from"
                " the token's principal name",
                f"the token is of user {shown(believed.user)}, asked for {shown(authzid)}",
            )
        return Reply(b"", Identity(believed.user, believed.expires_at_ms))


def read_message(message: bytes) -> tuple[str, str]:
    """Return the authorization id and the token. Raises AuthenticationFailed."""
    text = message.decode("utf-8", "replace")
    header = _HEADER.match(text)
    if header is None or not text.endswith("\1\1"):
        raise _malformed("no message of RFC 7628")
    bearer = ""
    for pair in text[header.end() : -2].split("\1"):
        found = _PAIR.fullmatch(pair)
        if found is None:
            raise _malformed("a part is no key=value")
        if found["key"] == "auth":
            if bearer:
                raise _malformed("two tokens")
            if not found["value"].lower().startswith(BEARER):
                raise _malformed("no bearer token")
            bearer = found["value"][len(BEARER) :].strip(" ")
    if not bearer:
        raise _malformed("no token")
    return (header["authzid"] or "").replace("=2C", ",").replace("=3D", "="), bearer


def _malformed(why: str) -> AuthenticationFailed:
    return AuthenticationFailed(MALFORMED, f"{MALFORMED} ({why})")
