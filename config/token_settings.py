"""What the keys of OAUTHBEARER mean together, for one listener.

Kafka believes unsigned tokens if no key set is named. Here a listener with OAUTHBEARER names a key
set, or says in a key of its own that anybody may be anybody; both together contradict each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from config.errors import ConfigError

URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
UNSECURED: Final = "barnabas.sasl.oauthbearer.unsecured"
SCHEMES: Final = ("", "file", "http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Whose tokens a listener believes; without a URL, unsigned ones."""

    url: str
    audiences: tuple[str, ...]
    issuer: str
    scope_claim: str
    sub_claim: str
    skew_seconds: int
    refresh_ms: int

    @property
    def is_overheard(self) -> bool:
        """Whether the keys come over a network that may change them: a stranger's keys then."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


def token_settings(value: Callable[[str], Any], named: Callable[[str], str]) -> TokenSettings:
    """Return the settings of one listener.

    `value(key)` is the value that holds for it, `named(key)` the name to show. Raises ConfigError.
    """
    url: str = value(URL) or ""
    is_unsecured: bool = value(UNSECURED)
    if not url and not is_unsecured:
        raise ConfigError(
            "OAUTHBEARER has no keys to check tokens with",
            key=named(URL),
            allowed=f"the URL or path of a JSON Web Key Set; {UNSECURED}=true believes anybody",
        )
    if url and is_unsecured:
        raise ConfigError(
            f"{named(URL)} is set, too, and would not be used; unset one of them",
            key=named(UNSECURED),
            value="true",
        )
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        scheme = "?"
    if scheme not in SCHEMES:
        raise ConfigError(
            "it is no URL of a key set",
            key=named(URL),
            value=url,
            allowed="https:, http:, file: or a path",
        )
    return TokenSettings(
        url=url,
        audiences=tuple(value("sasl.oauthbearer.expected.audience")),
        issuer=value("sasl.oauthbearer.expected.issuer") or "",
        scope_claim=value("sasl.oauthbearer.scope.claim.name"),
        sub_claim=value("sasl.oauthbearer.sub.claim.name"),
        skew_seconds=value("sasl.oauthbearer.clock.skew.seconds"),
        refresh_ms=value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
    )
