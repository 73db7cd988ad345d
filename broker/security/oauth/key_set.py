"""The keys of a JSON Web Key Set (RFC 7517), and the algorithms that each may be used with.

A token names its algorithm, and must not choose the rules by which it is judged. So a key has the
algorithms of its own type, and no other verifies with it: an RSA key never serves as the secret of
an HMAC, and `none` belongs to no key.

    kty RSA, 2,048 to 8,192 bits    RS256 RS384 RS512 PS256 PS384 PS512
    kty EC    P-256 P-384 P-521    ES256 ES384 ES512
    kty OKP   Ed25519              EdDSA

A key's `alg`, if it has one, narrows this to one. Keys for encryption (`use` other than `sig`) and
of other types are left out, as RFC 7517 asks. PyJWT and `cryptography` are imported here and in
`token_validator`, and only if a listener has OAUTHBEARER with such keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

KEYS_MAX: Final = 100
RSA_BITS_MIN: Final = 2_048
RSA_BITS_MAX: Final = 8_192  # a larger one takes longer than a step of the loop may
RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
EC: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
EDWARDS: Final = {"Ed25519": "EdDSA"}
ALGORITHMS: Final = frozenset((*RSA, *EC.values(), *EDWARDS.values()))


class KeySetError(Exception):
    """A key set cannot be used; the text says why."""


class NoUsableKey(KeySetError):
    """A key set has no key that verifies anything: its provider believes in none any more."""


class VerificationKey(NamedTuple):
    """A public key, its id if it has one, and the algorithms that it verifies."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any  # of cryptography


class KeySet:
    """The usable keys of a set."""

    def __init__(self, keys: list[VerificationKey]) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def matching(self, kid: str | None, algorithm: str) -> list[VerificationKey]:
        """Return the keys that may verify a token; without a kid, all of the algorithm's."""
        return [
            one
            for one in self._keys
            if algorithm in one.algorithms and (kid is None or one.kid == kid)
        ]


def read_key_set(data: bytes) -> KeySet:
    """Return the keys in a key set. Raises KeySetError if there is none to use."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise KeySetError("it is no JSON; expected a JSON Web Key Set") from None
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list):
        raise KeySetError('it has no list "keys"; expected a JSON Web Key Set')
    if len(listed) > KEYS_MAX:
        raise KeySetError(f"it has {len(listed)} keys; expected {KEYS_MAX} at most")
    keys = [made for one in listed if isinstance(one, dict) and (made := _key(one)) is not None]
    if not keys:
        raise NoUsableKey(f"none of its {len(listed)} keys can verify one of {sorted(ALGORITHMS)}")
    return KeySet(keys)


def algorithms_of(jwk: Mapping[str, Any]) -> frozenset[str]:
    """Return the algorithms that a key may verify, by its type; empty: none."""
    kind, curve = jwk.get("kty"), jwk.get("crv")
    found: tuple[str, ...] = ()
    if kind == "RSA":
        found = RSA
    elif kind == "EC" and isinstance(curve, str) and curve in EC:
        found = (EC[curve],)
    elif kind == "OKP" and isinstance(curve, str) and curve in EDWARDS:
        found = (EDWARDS[curve],)
    if jwk.get("alg") is not None:
        found = tuple(one for one in found if one == jwk["alg"])
    operations = jwk.get("key_ops")
    is_for_signatures = jwk.get("use") in (None, "sig") and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )
    return frozenset(found if is_for_signatures else ())


def _key(jwk: Mapping[str, Any]) -> VerificationKey | None:
    """Return a key of a set, or None if it is for something else, damaged or too short."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    algorithms = algorithms_of(jwk)
    if not algorithms:
        return None
    public = {name: jwk[name] for name in ("kty", "crv", "n", "e", "x", "y") if name in jwk}
    try:
        key = PyJWK(public, algorithm=min(algorithms)).key
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if jwk["kty"] == "RSA" and not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
        return None
    kid = jwk.get("kid")
    return VerificationKey(kid if isinstance(kid, str) else None, algorithms, key)
