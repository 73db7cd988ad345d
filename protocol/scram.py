"""SCRAM (RFC 5802, RFC 7677): its messages and its arithmetic, for both sides. No I/O, no state.

    client first    n,[a=<authzid>],n=<user>,r=<nonce>[,extensions]
    server first    r=<client's nonce><server's nonce>,s=<salt>,i=<iterations>
    client final    c=<base64 of the part up to the second comma>,r=<nonce>[,extensions],p=<proof>
    server final    v=<signature>

What is signed is the text as it travelled: the first message without its beginning (`bare`), the
server's first, and the final one without its proof. Names are not prepared (no SASLprep), as in
Kafka, whose clients derive from the bytes of the password.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Final, NamedTuple

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# More would keep a client busy for seconds at a server's word.
ITERATIONS_MAX: Final = 1_000_000

_NONCE: Final = r"(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
_EXTENSIONS: Final = r"(?:,[a-zA-Z]+=[^,]+)*"
_FIRST = re.compile(
    r"(?P<header>n,(?:a=(?P<authzid>[^,]+))?,)"
    rf"(?P<bare>n=(?P<user>[^,]+),r={_NONCE}(?P<extensions>{_EXTENSIONS}))\Z"
)
_SERVER_FIRST = re.compile(
    rf"r={_NONCE},s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[1-9][0-9]{{0,6}}){_EXTENSIONS}\Z"
)
_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r={_NONCE}{_EXTENSIONS})"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)\Z"
)
_SERVER_FINAL = re.compile(r"(?:e=(?P<error>[^,]+)|v=(?P<signature>[A-Za-z0-9+/=]+))(?:,.*)?\Z")
_BAD_ESCAPE = re.compile(r"=(?!2C|3D)")


class ScramError(ValueError):
    """Bytes that are no message of SCRAM. Its text holds nothing of them."""


class ClientFirst(NamedTuple):
    """A client's first message. `is_token` asks for a delegation token instead of a user."""

    header: str
    bare: str
    authzid: str
    user: str
    nonce: str
    is_token: bool


class ServerFirst(NamedTuple):
    """A server's first message."""

    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    """A client's final message."""

    unproven: str
    binding: bytes
    nonce: str
    proof: bytes


class Proof(NamedTuple):
    """A client's final message in parts, and the signature that the server owes for it."""

    unproven: str
    proof: bytes
    owed: bytes

    @property
    def message(self) -> bytes:
        """The client's final message."""
        return f"{self.unproven},p={encoded(self.proof)}".encode()


def read_client_first(message: bytes) -> ClientFirst:
    """Read a client's first message. Raises ScramError, also for any channel binding."""
    found = _FIRST.match(_text(message))
    if found is None:
        raise ScramError("expected n,,n=USER,r=NONCE")
    extensions = found["extensions"].split(",")
    return ClientFirst(
        found["header"],
        found["bare"],
        _unescaped(found["authzid"] or ""),
        _unescaped(found["user"]),
        found["nonce"],
        "tokenauth=true" in extensions,
    )


def read_client_final(message: bytes) -> ClientFinal:
    """Read a client's final message. Raises ScramError."""
    found = _FINAL.match(_text(message))
    if found is None:
        raise ScramError("expected c=BINDING,r=NONCE,p=PROOF")
    return ClientFinal(
        found["unproven"], _decoded(found["binding"]), found["nonce"], _decoded(found["proof"])
    )


def read_server_first(message: bytes) -> ServerFirst:
    """Read a server's first message. Raises ScramError."""
    found = _SERVER_FIRST.match(_text(message))
    if found is None or int(found["iterations"]) > ITERATIONS_MAX:
        raise ScramError("expected r=NONCE,s=SALT,i=ITERATIONS")
    return ServerFirst(found["nonce"], _decoded(found["salt"]), int(found["iterations"]))


def read_server_final(message: bytes) -> bytes:
    """Return the server's signature. Raises ScramError, also for the server's own error."""
    found = _SERVER_FINAL.match(_text(message))
    if found is None:
        raise ScramError("expected v=SIGNATURE")
    if found["error"] is not None:
        raise ScramError(f"the server says: {found['error'][:100]}")
    return _decoded(found["signature"])


def server_first(nonce: str, salt: bytes, iterations: int) -> str:
    """Return a server's first message."""
    return f"r={nonce},s={encoded(salt)},i={iterations}"


def escaped(name: str) -> str:
    """Return a user's name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def encoded(data: bytes) -> str:
    """Return base64."""
    return base64.b64encode(data).decode()


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive a key from a password: some milliseconds, so not on an event loop."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def client_key(mechanism: str, salted: bytes) -> bytes:
    """Return the key that proves who a client is."""
    return keyed(mechanism, salted, b"Client Key")


def server_key(mechanism: str, salted: bytes) -> bytes:
    """Return the key that proves that a server knows the user."""
    return keyed(mechanism, salted, b"Server Key")


def stored_key(mechanism: str, key: bytes) -> bytes:
    """Return what a server stores of a client's key."""
    return hashlib.new(HASHES[mechanism], key).digest()


def keyed(mechanism: str, key: bytes, text: bytes) -> bytes:
    """Return the HMAC of a text."""
    return hmac.digest(key, text, HASHES[mechanism])


def hash_bytes(mechanism: str) -> int:
    """Return the size of a mechanism's keys and proofs."""
    return hashlib.new(HASHES[mechanism]).digest_size


def combined(one: bytes, other: bytes) -> bytes:
    """Return the exclusive or of two strings of the same size."""
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def signed_text(first_bare: str, server_first_message: str, unproven: str) -> bytes:
    """Return what both sides sign."""
    return f"{first_bare},{server_first_message},{unproven}".encode()


def unproven_final(nonce: str, header: str = "n,,") -> str:
    """Return a client's final message without its proof; `header` began its first message."""
    return f"c={encoded(header.encode())},r={nonce}"


def prove(mechanism: str, salted: bytes, bare: str, said: bytes, unproven: str) -> Proof:
    """Return a client's proof; `said` is the server's first message, `bare` from the client's."""
    text = signed_text(bare, said.decode(), unproven)
    key = client_key(mechanism, salted)
    proof = combined(key, keyed(mechanism, stored_key(mechanism, key), text))
    return Proof(unproven, proof, keyed(mechanism, server_key(mechanism, salted), text))


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("expected UTF-8") from None


def _unescaped(name: str) -> str:
    if _BAD_ESCAPE.search(name):
        raise ScramError("expected =2C for a comma and =3D for = in a name")
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ScramError("expected base64") from None
