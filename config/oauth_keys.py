"""The broker's keys for tokens (OAUTHBEARER), after those of config/ssl_keys.py.

Names, kinds and defaults are those of Kafka's SaslConfigs, but for the last. Each may be set for
one listener (config/listener_keys.py). `token_settings` says what they mean together.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import at_least
from config.keys import Importance, key
from config.ssl_keys import SslKeys
from config.values import Kind


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class OauthKeys(SslKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    sasl_oauthbearer_jwks_endpoint_url: str | None = key(
        "sasl.oauthbearer.jwks.endpoint.url",
        None,
        Kind.STRING,
        doc="Where the keys are that sign tokens: a URL (https:, http:, file:) or a path of a JSON"
        " Web Key Set.",
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = key(
        "sasl.oauthbearer.expected.audience",
        (),
        Kind.LIST,
        importance=Importance.LOW,
        doc="Tokens must be for one of these audiences (aud); empty means any.",
    )
    sasl_oauthbearer_expected_issuer: str | None = key(
        "sasl.oauthbearer.expected.issuer",
        None,
        Kind.STRING,
        importance=Importance.LOW,
        doc="Tokens must be from this issuer (iss); empty means any.",
    )
    sasl_oauthbearer_scope_claim_name: str = key(
        "sasl.oauthbearer.scope.claim.name",
        "scope",
        Kind.STRING,
        importance=Importance.LOW,
        doc="The claim that holds a token's scope.",
    )
    sasl_oauthbearer_sub_claim_name: str = key(
        "sasl.oauthbearer.sub.claim.name",
        "sub",
        Kind.STRING,
        importance=Importance.LOW,
        doc="The claim that names the user.",
    )
    sasl_oauthbearer_clock_skew_seconds: int = key(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        Kind.INT,
        importance=Importance.LOW,
        check=at_least(0),
        doc="By how much the clocks of this broker and of a token's issuer may differ.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = key(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        3_600_000,
        Kind.LONG,
        unit="ms",
        importance=Importance.LOW,
        check=at_least(1),
        doc="How old the keys may be before they are read again. A token with an unknown key makes"
        " the broker read them earlier, at most once in 10 s.",
    )
    barnabas_sasl_oauthbearer_unsecured: bool = key(
        "barnabas.sasl.oauthbearer.unsecured",
        default=False,
        kind=Kind.BOOLEAN,
        doc="Believe tokens without a signature, from anybody and in any name, as Kafka does"
        " without a key set. For tests only.",
    )
