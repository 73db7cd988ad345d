"""The broker's keys for SASL and for where secrets are, after those of config/oauth_keys.py.

Names, kinds, defaults and bounds are those of Kafka's BrokerSecurityConfigs and
SocketServerConfigs. Most may be set for one listener, and some for one mechanism of it
(config/listener_keys.py). config/sasl_settings.py says what the keys mean together.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import at_least, one_of
from config.keys import Importance, Update, key
from config.oauth_keys import OauthKeys
from config.values import Kind

PER_BROKER = Update.PER_BROKER

USERS_IN_JAAS = "jaas"
USERS_OF_SCRAM = "scram"


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class SaslKeys(OauthKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    config_providers: tuple[str, ...] = key(
        "config.providers",
        (),
        Kind.LIST,
        importance=Importance.LOW,
        doc="Names of providers of values such as ${file:/run/secrets/broker.properties:password}."
        " config.providers.<name>.class is Kafka's FileConfigProvider, DirectoryConfigProvider or"
        " EnvVarConfigProvider. Values are read at the start and after SIGHUP.",
    )
    sasl_enabled_mechanisms: tuple[str, ...] = key(
        "sasl.enabled.mechanisms",
        ("GSSAPI",),
        Kind.LIST,
        update=PER_BROKER,
        doc="The SASL mechanisms that clients may use: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512,"
        " OAUTHBEARER."
        " Kafka's default, GSSAPI, is not served: a listener with SASL needs this key.",
    )
    sasl_jaas_config: str | None = key(
        "sasl.jaas.config",
        None,
        Kind.PASSWORD,
        sensitive=True,
        update=PER_BROKER,
        doc="The users of a mechanism, as a JAAS string. It has an effect only for one mechanism"
        " of one listener: listener.name.<name>.plain.sasl.jaas.config.",
    )
    connections_max_reauth_ms: int = key(
        "connections.max.reauth.ms",
        0,
        Kind.LONG,
        unit="ms",
        doc="How long a login with SASL holds; a client that has not logged in again by then is"
        " disconnected at its next request. 0 means as long as the connection.",
    )
    connection_failed_authentication_delay_ms: int = key(
        "connection.failed.authentication.delay.ms",
        100,
        Kind.INT,
        unit="ms",
        importance=Importance.LOW,
        check=at_least(0),
        doc="How long the answer to a failed login is delayed, and with it the end of the"
        " connection. Other connections do not wait.",
    )
    barnabas_sasl_plain_users: str = key(
        "barnabas.sasl.plain.users",
        USERS_IN_JAAS,
        Kind.STRING,
        check=one_of(USERS_IN_JAAS, USERS_OF_SCRAM),
        doc="Where PLAIN finds its users: jaas means the user_ options of sasl.jaas.config, scram"
        " the SCRAM users of the metadata log, whose passwords are not stored.",
    )
