"""Tokens of the simulator's users (RFC 7519), and the key set by which brokers believe them.

The key set is a file of the machine, beside this module: brokers read it at their start, in a
thread. Its private half is made of a name, as all keys of the simulator are. `GOOD` tokens are
valid on any clock of a history, `OLD` ones on none; `STRANGE` ones are signed by another key.
"""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MECHANISM: Final = "OAUTHBEARER"
KEY_SET: Final = Path(__file__).with_name("token_keys.json")
KEY_ID: Final = "of the simulator"
AUDIENCE: Final = "simulated brokers"
GOOD, OLD, STRANGE, SHORT = "good", "old", "strange", "short"
BELIEVED: Final = (GOOD, SHORT)
KINDS: Final = (GOOD, GOOD, SHORT, OLD, STRANGE)
DAY_SECONDS: Final = 86_400
# More than clocks jump and drift in a history.
FAR_SECONDS: Final = 2_000 * DAY_SECONDS


def token(kind: str, user: str, now_ms: int, short_ms: int = 0) -> str:
    """Return a token; a `SHORT` one ends `short_ms` from now."""
    now = now_ms // 1000
    expires = {OLD: now - FAR_SECONDS, SHORT: now + short_ms // 1000}.get(kind, now + FAR_SECONDS)
    claims = {"sub": user, "aud": AUDIENCE, "iat": now - 2 * FAR_SECONDS, "exp": expires}
    text = f"{_encoded({'alg': 'EdDSA', 'kid': KEY_ID})}.{_encoded(claims)}"
    key = _key("another key" if kind == STRANGE else KEY_ID)
    return f"{text}.{_base64(key.sign(text.encode()))}"


def settings() -> dict[str, str]:
    """Return the keys of a broker that believes such tokens."""
    return {
        "sasl.oauthbearer.jwks.endpoint.url": str(KEY_SET),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def key_set() -> dict[str, Any]:
    """Return what the file holds."""
    public = _key(KEY_ID).public_key().public_bytes_raw()
    of_ed25519 = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": KEY_ID}
    return {"keys": [of_ed25519 | {"x": _base64(public)}]}


@functools.cache
def _key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32)[:32])


def _encoded(value: dict[str, Any]) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
