"""What the keys of TLS mean together, for one listener.

A listener's own key beats the plain one. A listener with TLS must say where its certificate is, in
exactly one of three ways: `ssl.certificate` with `ssl.key`, `ssl.keystore.location`, or
`ssl.keystore.key` with `ssl.keystore.certificate.chain`. A way of its own beats all plain ones.
Kafka starts a listener without any, which then refuses every client. The files themselves are read
by the broker, not here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from config.errors import ConfigError
from config.listener_keys import LISTENER_PREFIX
from config.ssl_keys import SslKeys

PEM = "PEM"
NO_CERTIFICATE = (
    "ssl.certificate with ssl.key, ssl.keystore.location, or ssl.keystore.key with"
    " ssl.keystore.certificate.chain"
)
WAYS = (
    ("certificate", "key"),
    ("keystore_location",),
    ("keystore_key", "keystore_certificate_chain"),
)
NEEDS_BOTH = "a certificate needs its private key, and the reverse"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The TLS of one listener. Secrets are never part of its text.

    Its fields but `listener` and `sources` have the names of the keys without `ssl_`; `sources`
    gives the name by which each was set, for errors.
    """

    listener: str
    certificate: str | None
    key: str | None
    keystore_type: str
    keystore_location: str | None
    keystore_password: str | None = field(repr=False)
    keystore_key: str | None = field(repr=False)
    keystore_certificate_chain: str | None = field(repr=False)
    key_password: str | None = field(repr=False)
    truststore_type: str
    truststore_location: str | None
    truststore_password: str | None = field(repr=False)
    truststore_certificates: str | None = field(repr=False)
    client_auth: str
    principal_mapping_rules: str
    enabled_protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    allow_dn_changes: bool
    allow_san_changes: bool
    sources: Mapping[str, str] = field(repr=False, compare=False, hash=False)

    def name_of(self, key: str) -> str:
        """Return the name by which a key was set for this listener."""
        return self.sources.get(key, key)


def tls_settings(config: SslKeys, listener: str, own: Mapping[str, Any]) -> TlsSettings:
    """Return the TLS of a listener; `own` holds its own values by key. Raises ConfigError."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for item in dataclasses.fields(TlsSettings):
        if item.name in ("listener", "sources"):
            continue
        key = f"ssl.{_key(item.name)}"
        if key in own:
            values[item.name] = own[key]
            sources[key] = f"{LISTENER_PREFIX}{listener.lower()}.{key}"
        else:
            values[item.name] = getattr(config, "ssl_" + item.name)
    _drop_plain_ways(values, own)
    settings = TlsSettings(listener=listener, sources=sources, **values)
    _check_certificate(settings)
    _check_trust(settings)
    if not settings.enabled_protocols:
        raise _refused(settings, "ssl.enabled.protocols", "no version of TLS is left")
    return settings


def _drop_plain_ways(values: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Drop the plain ways to a certificate if the listener has one of its own."""
    own_ways = [way for way in WAYS if any(f"ssl.{_key(name)}" in own for name in way)]
    for way in WAYS:
        if own_ways and way not in own_ways:
            values.update(dict.fromkeys(way))


def _key(name: str) -> str:
    return name.replace("_", ".")


def _check_certificate(settings: TlsSettings) -> None:
    plain = bool(settings.certificate), bool(settings.key)
    inline = bool(settings.keystore_key), bool(settings.keystore_certificate_chain)
    ways = [any(plain), bool(settings.keystore_location), any(inline)]
    if not any(ways):
        raise ConfigError(
            f"the listener {settings.listener} has no certificate",
            key="ssl.certificate",
            allowed=NO_CERTIFICATE,
        )
    if sum(ways) > 1:
        reason = f"the listener {settings.listener} has its certificate in more than one way"
        raise ConfigError(reason, key="ssl.certificate", allowed=f"one of {NO_CERTIFICATE}")
    if any(plain) and not all(plain):
        missing = "ssl.key" if settings.certificate else "ssl.certificate"
        raise _refused(settings, missing, NEEDS_BOTH)
    if any(inline):
        if not all(inline):
            missing = "ssl.keystore.certificate.chain" if inline[0] else "ssl.keystore.key"
            raise _refused(settings, missing, NEEDS_BOTH)
        if settings.keystore_type != PEM:
            reason = "a key that is given itself is PEM"
            raise _refused(settings, "ssl.keystore.type", reason, settings.keystore_type, PEM)


def _check_trust(settings: TlsSettings) -> None:
    if settings.truststore_certificates:
        if settings.truststore_location:
            reason = "the trusted certificates are given in two ways"
            raise _refused(settings, "ssl.truststore.certificates", reason)
        if settings.truststore_type != PEM:
            reason = "certificates that are given themselves are PEM"
            raise _refused(settings, "ssl.truststore.type", reason, settings.truststore_type, PEM)
    elif not settings.truststore_location and settings.client_auth != "none":
        # Kafka would then trust the issuers that come with Java, which means everybody.
        reason = f"clients' certificates are {settings.client_auth}, but nothing is trusted"
        allowed = "ssl.truststore.location or ssl.truststore.certificates"
        raise _refused(settings, "ssl.client.auth", reason, settings.client_auth, allowed)


def _refused(
    settings: TlsSettings, key: str, reason: str, value: str = "", allowed: str = ""
) -> ConfigError:
    return ConfigError(
        f"{reason} (listener {settings.listener})",
        key=settings.name_of(key),
        value=value,
        allowed=allowed,
    )
