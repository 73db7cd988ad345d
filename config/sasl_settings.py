"""What the keys of SASL mean together, for one listener.

A mechanism's own key (`listener.name.<name>.<mechanism>.<key>`) beats the listener's, and that the
plain one. PLAIN needs users: a JAAS string of its own, or the SCRAM users of the metadata log. The
JAAS string of SCRAM may be missing, since it says nothing that is needed; Kafka demands it.

A listener that could not let anybody in, or that was given something that nobody reads, keeps the
broker from starting. Kafka starts with mechanisms that do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from config.errors import ConfigError
from config.jaas import FORM, JaasEntry, JaasError, parse_jaas
from config.listener_keys import LISTENER_PREFIX
from config.sasl_keys import USERS_IN_JAAS, SaslKeys
from config.token_settings import TokenSettings, token_settings

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
# The mechanisms that are served, each with the last word of its login module's name.
LOGIN_MODULES: Final = {
    PLAIN: "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
}
USER_PREFIX: Final = "user_"
EXAMPLE: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="…";'
GSSAPI_REASON: Final = "GSSAPI (Kerberos) is not served"
ADVICE: Final = ", ".join(LOGIN_MODULES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismSettings:
    """One mechanism of a listener. `users` are those of PLAIN, by name; None: SCRAM's users."""

    name: str
    max_reauth_ms: int
    users: Mapping[str, str] | None = field(default=None, repr=False)
    tokens: TokenSettings | None = None  # of OAUTHBEARER


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """The SASL of one listener. Secrets are never part of its text."""

    listener: str
    mechanisms: Mapping[str, MechanismSettings]
    failed_delay_ms: int


def sasl_settings(config: SaslKeys, listener: str, own: Mapping[str, Any]) -> SaslSettings:
    """Return the SASL of a listener; `own` holds its own values by key. Raises ConfigError."""
    reader = _Reader(config, listener, own)
    names = reader.value("sasl.enabled.mechanisms")
    key = reader.name_of("sasl.enabled.mechanisms")
    if not names:
        raise ConfigError(
            f"no mechanism is left for the listener {listener}", key=key, allowed=ADVICE
        )
    for name in names:
        if name not in LOGIN_MODULES:
            reason = GSSAPI_REASON if name == "GSSAPI" else f"{name} is not served"
            raise ConfigError(
                f"{reason}, and the listener {listener} has SASL; choose others",
                key=key,
                value=",".join(names),
                allowed=f"a list of {ADVICE}",
            )
    return SaslSettings(
        listener=listener,
        mechanisms={name: reader.mechanism(name) for name in names},
        failed_delay_ms=reader.value("connection.failed.authentication.delay.ms"),
    )


class _Reader:
    """The values of one listener."""

    def __init__(self, config: SaslKeys, listener: str, own: Mapping[str, Any]) -> None:
        self._config = config
        self._listener = listener
        self._own = own

    def value(self, key: str, mechanism: str = "") -> Any:
        """Return the value of a key: the mechanism's own, the listener's own, or the plain one."""
        for name in (f"{mechanism.lower()}.{key}", key):
            if name in self._own:
                return self._own[name]
        return getattr(self._config, key.replace(".", "_"))

    def name_of(self, key: str) -> str:
        """Return the name by which a key was set for this listener."""
        return self._prefixed(key) if key in self._own else key

    def _prefixed(self, key: str) -> str:
        return f"{LISTENER_PREFIX}{self._listener.lower()}.{key}"

    def mechanism(self, name: str) -> MechanismSettings:
        """Return the settings of one mechanism."""
        jaas = self._jaas(name)
        return MechanismSettings(
            name=name,
            max_reauth_ms=max(0, self.value("connections.max.reauth.ms", name)),
            users=self._users(jaas) if name == PLAIN else None,
            tokens=token_settings(self.value, self.name_of) if name == OAUTHBEARER else None,
        )

    def _jaas(self, mechanism: str) -> JaasEntry | None:
        key = f"{mechanism.lower()}.sasl.jaas.config"
        text = self._own.get(key)
        if text is None:
            return None
        module = LOGIN_MODULES[mechanism]
        try:
            entry = parse_jaas(text)
        except JaasError as error:
            raise self._malformed(key, str(error)) from None
        if entry.module.rpartition(".")[2] != module:
            raise self._malformed(key, f"found another login module; {mechanism} has {module}")
        return entry

    def _malformed(self, key: str, reason: str) -> ConfigError:
        return ConfigError(reason, key=self._prefixed(key), value="(hidden)", allowed=FORM)

    def _users(self, jaas: JaasEntry | None) -> dict[str, str] | None:
        if self.value("barnabas.sasl.plain.users") != USERS_IN_JAAS:
            return None
        key = self._prefixed("plain.sasl.jaas.config")
        if jaas is None:
            raise ConfigError(
                f"PLAIN has no users on the listener {self._listener}",
                key=key,
                allowed=f"{EXAMPLE} or {self._prefixed('barnabas.sasl.plain.users')}=scram",
            )
        users = {
            option.removeprefix(USER_PREFIX): password
            for option, password in jaas.options.items()
            if option.startswith(USER_PREFIX)
        }
        for user, password in users.items():
            if not user or not password:
                raise ConfigError(
                    f"the user {user!r} has no {'password' if user else 'name'}",
                    key=key,
                    value="(hidden)",
                    allowed=EXAMPLE,
                )
        if not users:
            raise ConfigError(
                f"it names no user: it has no option that begins with {USER_PREFIX}",
                key=key,
                value="(hidden)",
                allowed=EXAMPLE,
            )
        return users
