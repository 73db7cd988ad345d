"""The SASL of all listeners: which mechanisms each offers, and how a login of one begins.

`use` takes a changed configuration for logins that begin from then on; those that have ended keep
what they were given, and their connections stay, except those of a user that the JAAS string no
longer names, or names with another password: such a password is written nowhere else, so its change
is the only way to end what a stolen one has opened. A listener that does not offer PLAIN any more
keeps the connections of its users, as those of other mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from broker.security.oauth.token_validator import TokenValidator
from broker.security.sasl.mechanism import Mechanism
from broker.security.sasl.oauth_bearer import OAuthBearer
from broker.security.sasl.plain import (
    JaasUsers,
    Plain,
    PlainUsers,
    RunInThread,
    ScramUsers,
    has_user,
)
from broker.security.sasl.scram_server import ScramServer
from broker.security.sasl.scram_users import CredentialSource, UserDirectory
from config.sasl_settings import PLAIN, MechanismSettings, SaslSettings
from config.token_settings import TokenSettings

SECRET_BYTES = 32


class Offer(NamedTuple):
    """One mechanism of a listener: how a login begins, and how long it holds (0: for ever)."""

    begin: Callable[[], Mechanism]
    max_reauth_ms: int


class SaslListener(NamedTuple):
    """The SASL of one listener."""

    offers: Mapping[str, Offer]
    failed_delay_ms: int


class SaslListeners:
    """The current SASL of each listener that has it, by name."""

    def __init__(
        self,
        settings: Mapping[str, SaslSettings],
        directory: UserDirectory,
        random_bytes: Callable[[int], bytes],
        run: RunInThread,
        make_validator: Callable[[TokenSettings], TokenValidator],
        mock_secret: bytes,
    ) -> None:
        """`make_validator` may raise at the start; `mock_secret` is for salts of unknown users."""
        self._random_bytes = random_bytes
        self._key = random_bytes(SECRET_BYTES)
        self._run = run
        self._make_validator = make_validator
        self._credentials = CredentialSource(directory, mock_secret)
        self._validators: dict[str, tuple[TokenSettings, TokenValidator]] = {}
        self._settings: Mapping[str, SaslSettings] = {}
        self._current: dict[str, SaslListener] = {}
        self.use(settings)

    def of(self, listener: str) -> SaslListener:
        """Return the SASL of a listener for a new login."""
        return self._current[listener]

    def use(self, settings: Mapping[str, SaslSettings]) -> None:
        """Use these settings for logins from now on."""
        for name, one in settings.items():
            if self._settings.get(name) != one:
                offers = {each.name: self._offer(name, each) for each in one.mechanisms.values()}
                self._current[name] = SaslListener(offers, one.failed_delay_ms)
        self._settings = settings

    def _offer(self, listener: str, settings: MechanismSettings) -> Offer:
        if settings.tokens is not None:
            begin = self._bearer(listener, settings.tokens)
        elif settings.name == PLAIN:
            begin = self._plain(listener, settings)
        else:
            begin = self._scram(settings.name)
        return Offer(begin, settings.max_reauth_ms)

    def _plain(self, listener: str, settings: MechanismSettings) -> Callable[[], Mechanism]:
        users: PlainUsers
        if settings.users is None:
            users = ScramUsers(self._credentials, self._run)
        else:
            users = JaasUsers(settings.users, self._key, partial(self._still_has, listener))
        return lambda: Plain(users)

    def _still_has(self, listener: str, user: str, password: str) -> bool:
        """Return whether the listener's JAAS string has a user; True if it does not offer PLAIN."""
        plain = self._settings[listener].mechanisms.get(PLAIN)
        return plain is None or has_user(plain.users or {}, user, password)

    def _bearer(self, listener: str, settings: TokenSettings) -> Callable[[], Mechanism]:
        made = self._validators.get(listener)
        if made is None or made[0] != settings:
            # Else the keys that were read stay: their provider may be down now.
            made = self._validators[listener] = settings, self._make_validator(settings)
        validator = made[1]
        return lambda: OAuthBearer(validator)

    def _scram(self, mechanism: str) -> Callable[[], Mechanism]:
        return lambda: ScramServer(mechanism, self._credentials, self._random_bytes)
