"""A login by SASL from the client's side, without I/O: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.

    tokens = begin(mechanism, username, password)
    token = next(tokens)              the first token
    token = tokens.send(answer)       the next one; StopIteration ends the login

SCRAM (RFC 5802) proves the password without sending it, and checks that the broker knows the user.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Generator
from typing import Final

from pyspark_barnabas.wire.errors import BrokerRefused

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = ("PLAIN", *HASHES)
ITERATIONS_MAX: Final = 1_000_000
AUTHENTICATION_FAILED: Final = 58
_SERVER_FIRST = re.compile(r"r=([^,]+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{0,6})(?:,.*)?\Z")

Tokens = Generator[bytes, bytes, None]


def begin(mechanism: str, username: str, password: str) -> Tokens:
    """Return the tokens of one login. They raise BrokerRefused for a server that proves nothing."""
    if mechanism == "PLAIN":
        return _plain(username, password)
    return _scram(HASHES[mechanism], username, password)


def _plain(username: str, password: str) -> Tokens:
    yield f"\0{username}\0{password}".encode()


def _scram(digest: str, username: str, password: str) -> Tokens:
    nonce = secrets.token_urlsafe(24)
    name = username.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}"
    server = (yield f"n,,{bare}".encode()).decode("utf-8", "replace")
    found = _SERVER_FIRST.match(server)
    if found is None or not found[1].startswith(nonce) or int(found[3]) > ITERATIONS_MAX:
        raise _distrust("its first answer is not one to this login")
    salted = hashlib.pbkdf2_hmac(
        digest, password.encode(), base64.b64decode(found[2]), int(found[3])
    )
    unproven = f"c=biws,r={found[1]}"
    text = f"{bare},{server},{unproven}".encode()
    key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, key).digest(), text, digest)
    proof = bytes(left ^ right for left, right in zip(key, signature, strict=True))
    final = yield f"{unproven},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), text, digest)
    if not hmac.compare_digest(final, b"v=" + base64.b64encode(expected)):
        raise _distrust("it does not know this user")


def _distrust(why: str) -> BrokerRefused:
    return BrokerRefused(AUTHENTICATION_FAILED, f"the broker cannot be trusted with a login: {why}")
