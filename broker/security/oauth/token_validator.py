"""From a token to a name: its signature, then its claims.

A token is `header.claims.signature`, each part in Base64 without padding (RFC 7515). The header's
`alg` must be one of the allow-list, and a key must allow it; `crit` asks for extensions, of which
there are none here. Nothing else in the header is used: a key that a token brings along (`jwk`,
`x5c`, `jku`) is not looked at.

`UnsecuredTokens` believes tokens without a signature, from anybody: for tests, by a key of its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, Final, Protocol

from broker.security.oauth.key_set import ALGORITHMS
from broker.security.oauth.key_source import KeySource
from broker.security.oauth.token_rules import Believed, TokenRefused, TokenRules, check_claims

TOKEN_MAX: Final = 32_768
KEYS_TRIED_MAX: Final = 8  # for a token without a kid: some 0.1 ms each
UNSECURED: Final = "none"
PARTS: Final = 3
_CHARACTERS = frozenset(".ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


class TokenValidator(Protocol):
    """Whom to believe."""

    async def validate(self, token: str) -> Believed:
        """Return who the bearer is. Raises TokenRefused."""
        ...


class SignedTokens:
    """Believes tokens that a key of a key set has signed."""

    def __init__(self, keys: KeySource, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms

    async def validate(self, token: str) -> Believed:
        """Return who the bearer is. Raises TokenRefused."""
        header, claims = split_token(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenRefused(f"its algorithm is none of {', '.join(sorted(ALGORITHMS))}")
        if kid is not None and not isinstance(kid, str):
            raise TokenRefused("its kid is no text")
        if "crit" in header:
            raise TokenRefused("it asks for extensions (crit)")
        keys = await self._keys.matching(kid, algorithm)
        if not keys:
            raise TokenRefused("no key of the key set has its kid and algorithm")
        if not any(_is_signed(token, algorithm, one.key) for one in keys[:KEYS_TRIED_MAX]):
            raise TokenRefused("its signature is wrong")
        return check_claims(claims, self._rules, self._now_ms())


class UnsecuredTokens:
    """Believes every token without a signature. Anybody can make one, in any name."""

    def __init__(self, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._rules = rules
        self._now_ms = now_ms

    async def validate(self, token: str) -> Believed:
        """Return who the bearer claims to be. Raises TokenRefused."""
        header, claims = split_token(token)
        if header.get("alg") != UNSECURED or not token.endswith("."):
            raise TokenRefused("it is signed, and there are no keys to check that with")
        return check_claims(claims, self._rules, self._now_ms())


def split_token(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a token, neither of them checked. Raises TokenRefused."""
    if len(token) > TOKEN_MAX:
        raise TokenRefused(f"it is longer than {TOKEN_MAX} characters")
    if not _CHARACTERS.issuperset(token):
        raise TokenRefused("it is no text in Base64 for URLs")
    parts = token.split(".")
    if len(parts) != PARTS:
        raise TokenRefused(f"it has {len(parts)} parts, expected {PARTS}: no JSON Web Token")
    return _part(parts[0], "header"), _part(parts[1], "claims")


def _part(text: str, what: str) -> dict[str, Any]:
    try:
        content = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        raise TokenRefused(f"its {what} is no JSON in Base64") from None
    if not isinstance(content, dict):
        raise TokenRefused(f"its {what} is no JSON object")
    return content


def _is_signed(token: str, algorithm: str, key: Any) -> bool:
    from jwt import PyJWS
    from jwt.exceptions import PyJWTError

    try:
        PyJWS(algorithms=[algorithm]).decode(token, key, algorithms=[algorithm])
    except (PyJWTError, ValueError, TypeError):
        return False
    return True
