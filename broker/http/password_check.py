"""Who may see pages that tell of topics, groups and clients: `barnabas.http.password`.

    password set                        HTTP Basic authentication with it, with any user name
    not set, on loopback, no authorizer everybody
    not set otherwise                   nobody: the answer says what to set

With an authorizer, a client may not learn the names of topics and groups that it has no right to,
and without one, a listener beyond loopback would tell them to the network. A wrong password is
answered after a second, so the number of connections bounds the guesses.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from broker.http.http_messages import HttpAnswer, HttpRequest, sentence

WRONG_PAUSE_SECONDS: Final = 1.0
CHALLENGE: Final = ("WWW-Authenticate", 'Basic realm="Barnabas", charset="UTF-8"')


def refusal(request: HttpRequest, password: str | None, *, is_private: bool) -> HttpAnswer | None:
    """Return why the request is refused; None if it may be answered.

    `is_private` says that the listener is on loopback and there is no authorizer.
    """
    if password is None:
        if is_private:
            return None
        return sentence(
            403,
            "No password is set, and this listener is not on loopback or there is an authorizer:"
            " set barnabas.http.password, and log in with it and any user name",
        )
    header = request.headers.get("authorization")
    if header is None:
        return sentence(401, "Log in with barnabas.http.password and any user name", CHALLENGE)
    if has_password(request, password):
        return None
    answer = sentence(401, "The password is not barnabas.http.password", CHALLENGE)
    return HttpAnswer(401, answer.body, headers=answer.headers, pause_seconds=WRONG_PAUSE_SECONDS)


def has_password(request: HttpRequest, password: str) -> bool:
    """Whether a request has the password, as HTTP Basic authentication."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        given = base64.b64decode(encoded.strip(), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return False
    return is_password(password, given)


def is_password(password: str, given: bytes) -> bool:
    """Whether `given` is the password."""
    # Of equal length, so that the time of the comparison says nothing about the password's.
    digests = [hashlib.sha256(one).digest() for one in (given, password.encode())]
    return hmac.compare_digest(*digests)
