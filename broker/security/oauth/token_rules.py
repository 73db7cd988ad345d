"""What a token must claim (RFC 7519), once its signature is known to be right.

    exp    needed; not over, but for the clock skew     Kafka's session lifetime is its end
    iat    needed; a number, not in the future, not after exp
    nbf    if there; not in the future
    iss    the issuer, if one is expected
    aud    one of the audiences, if any is expected; a text or a list of texts
    scope  if there; a text or a list of texts
    sub    needed; a text that is not empty: the user's name

Pure checks of one map. The names of `scope` and `sub` can be set. Kafka's validator (jose4j)
refuses the same; the clock skew is for both ends. Booleans are no numbers, and neither are NaN and
infinity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

NAME_MAX: Final = 1_024
SECONDS_MAX: Final = 1 << 40  # a time in a distant future; more is no time
SECOND_MS: Final = 1_000


class TokenRefused(Exception):
    """A token is not believed; the text says why, for the log, and holds no part of the token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What is expected of the claims; empty: anything."""

    audiences: tuple[str, ...] = ()
    issuer: str = ""
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    skew_seconds: int = 30


class Believed(NamedTuple):
    """Who a token's bearer is, and until when."""

    user: str
    expires_at_ms: int


def check_claims(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> Believed:
    """Return who the claims name. Raises TokenRefused with the first reason."""
    skew_ms = rules.skew_seconds * SECOND_MS
    expires_ms = _time_ms(claims, "exp")
    if expires_ms + skew_ms <= now_ms:
        raise TokenRefused(f"it expired {(now_ms - expires_ms) // SECOND_MS} s ago")
    issued_ms = _time_ms(claims, "iat")
    if issued_ms > now_ms + skew_ms:
        raise TokenRefused(
            f"it is issued in {(issued_ms - now_ms) // SECOND_MS} s; check the clocks"
        )
    if issued_ms > expires_ms:
        raise TokenRefused("it expired before it was issued")
    if "nbf" in claims and _time_ms(claims, "nbf") > now_ms + skew_ms:
        raise TokenRefused("it is not valid yet (nbf)")
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise TokenRefused(f"its issuer (iss) is not {rules.issuer}")
    if rules.audiences and not {*_texts(claims, "aud")} & {*rules.audiences}:
        raise TokenRefused(f"its audience (aud) is none of {', '.join(rules.audiences)}")
    if rules.scope_claim in claims:
        _texts(claims, rules.scope_claim)
    user = claims.get(rules.sub_claim)
    if not isinstance(user, str) or not user.strip() or len(user) > NAME_MAX:
        raise TokenRefused(f"it names no user: {rules.sub_claim} is no text of 1 to {NAME_MAX}")
    return Believed(user, expires_ms if expires_ms > now_ms else expires_ms + skew_ms)


def _time_ms(claims: Mapping[str, Any], name: str) -> int:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused(f"it has no {name}" if value is None else f"its {name} is no number")
    if not 0 <= value <= SECONDS_MAX:  # false for NaN, and for integers that fit into no float
        raise TokenRefused(f"its {name} is no time")
    return int(value * SECOND_MS)


def _texts(claims: Mapping[str, Any], name: str) -> list[str]:
    value = claims.get(name)
    listed: list[Any] = value if isinstance(value, list) else [value]
    texts = [one for one in listed if isinstance(one, str)]
    if len(texts) < len(listed):
        raise TokenRefused(f"its {name} is no text and no list of texts")
    return texts
