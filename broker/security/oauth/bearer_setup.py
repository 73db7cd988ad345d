"""Make the validator of a listener's tokens, or say why it cannot be made.

Without the optional extra, signatures cannot be checked: the refusal names the command that
installs it. A key set in a file must be readable at the start. One behind a URL is read by the
first login, so that a broker starts while its provider is down. A mechanism that is added at run
time reads everything in a thread, at its first login.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable

from broker.runtime.clock import Clock
from broker.security.oauth.key_download import is_file
from broker.security.oauth.key_set import KeySetError
from broker.security.oauth.key_source import KeySource, RunKeys
from broker.security.oauth.token_rules import Believed, TokenRefused, TokenRules
from broker.security.oauth.token_validator import SignedTokens, TokenValidator, UnsecuredTokens
from config.token_settings import UNSECURED, URL, TokenSettings

logger = logging.getLogger("barnabas.security")

EXTRA = ("jwt", "cryptography")


class RefusedTokens:
    """Believes no token: what it takes to check one is missing."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def validate(self, token: str) -> Believed:  # noqa: ARG002
        """Raise TokenRefused."""
        raise TokenRefused(self._reason)


class ValidatorMaker:
    """Makes validators: strictly at the start, and without blocking afterwards."""

    def __init__(
        self,
        run: RunKeys,
        clock: Clock,
        find: Callable[[str], object | None] = importlib.util.find_spec,
    ) -> None:
        """`find` says whether a package is installed."""
        self._run = run
        self._clock = clock
        self._find = find
        self.is_start = True

    def make(self, settings: TokenSettings) -> TokenValidator:
        """Return what believes tokens. Raises KeySetError at the start."""
        rules = TokenRules(
            audiences=settings.audiences,
            issuer=settings.issuer,
            scope_claim=settings.scope_claim,
            sub_claim=settings.sub_claim,
            skew_seconds=settings.skew_seconds,
        )
        _warn(settings)
        if not settings.url:
            return UnsecuredTokens(rules, self._clock.now_ms)
        if not all(self._find(package) for package in EXTRA):
            reason = (
                f"{URL}={settings.url} needs an extra package: pip install 'barnabas[security]'"
            )
            if self.is_start:
                raise KeySetError(reason)
            return RefusedTokens(reason)
        keys = KeySource(settings.url, settings.refresh_ms, self._run, self._clock.monotonic_ns)
        if self.is_start and is_file(settings.url):
            try:
                keys.read()
            except KeySetError as error:
                raise KeySetError(f"{URL}={settings.url} cannot be used: {error}") from None
        return SignedTokens(keys, rules, self._clock.now_ms)


def _warn(settings: TokenSettings) -> None:
    if not settings.url:
        logger.warning(
            "OAUTHBEARER believes tokens without a signature: anybody may be anybody (%(key)s)",
            {"key": UNSECURED},
        )
        return
    if settings.is_overheard:
        logger.warning(
            "%(key)s=%(url)s: who can change what travels there chooses the keys; use https:",
            {"key": URL, "url": settings.url},
        )
    if not settings.audiences:
        logger.warning(
            "OAUTHBEARER believes the issuer's tokens for other services, too; set"
            " sasl.oauthbearer.expected.audience"
        )
