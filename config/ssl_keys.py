"""The broker's keys for TLS, after those of config/http_keys.py.

Names, kinds, defaults and bounds are those of Kafka's BrokerSecurityConfigs and SslConfigs. Each
key may be set for one listener (`listener.name.<name>.<key>`, config/listener_keys.py), and that
beats the plain key. `ssl.certificate` and `ssl.key` are Barnabas's own: two paths, as other servers
have them. config/tls_settings.py says what the keys mean together.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import one_of, some_of
from config.keys import Importance, Update, key
from config.quota_keys import QuotaKeys
from config.values import Kind

LOW = Importance.LOW
PER_BROKER = Update.PER_BROKER

STORE_TYPES = ("JKS", "PKCS12", "PEM")
CLIENT_AUTH = ("required", "requested", "none")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class SslKeys(QuotaKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    ssl_certificate: str | None = key(
        "ssl.certificate",
        None,
        Kind.STRING,
        update=PER_BROKER,
        doc="A PEM file with the broker's certificate, followed by those of its issuers. With"
        " ssl.key this is the plain way to set up a TLS listener; ssl.keystore.* is Kafka's.",
    )
    ssl_key: str | None = key(
        "ssl.key",
        None,
        Kind.STRING,
        update=PER_BROKER,
        doc="A PEM file with the private key of ssl.certificate. If it is encrypted,"
        " ssl.key.password opens it.",
    )
    ssl_keystore_type: str = key(
        "ssl.keystore.type",
        "JKS",
        Kind.STRING,
        check=one_of(*STORE_TYPES),
        update=PER_BROKER,
        doc="The format of ssl.keystore.location: PEM, or PKCS12, which needs the extra"
        " barnabas[security]. JKS may name a PKCS12 file too; real JKS files are refused.",
    )
    ssl_keystore_location: str | None = key(
        "ssl.keystore.location",
        None,
        Kind.STRING,
        update=PER_BROKER,
        doc="A file with the broker's private key and certificate chain.",
    )
    ssl_keystore_password: str | None = key(
        "ssl.keystore.password",
        None,
        Kind.PASSWORD,
        sensitive=True,
        update=PER_BROKER,
        doc="The password of a PKCS12 key store.",
    )
    ssl_keystore_key: str | None = key(
        "ssl.keystore.key",
        None,
        Kind.PASSWORD,
        sensitive=True,
        update=PER_BROKER,
        doc="The private key itself, as PEM; with ssl.keystore.type=PEM.",
    )
    ssl_keystore_certificate_chain: str | None = key(
        "ssl.keystore.certificate.chain",
        None,
        Kind.PASSWORD,
        sensitive=True,
        update=PER_BROKER,
        doc="The certificate chain itself, as PEM; with ssl.keystore.key.",
    )
    ssl_key_password: str | None = key(
        "ssl.key.password",
        None,
        Kind.PASSWORD,
        sensitive=True,
        update=PER_BROKER,
        doc="The password of an encrypted private key.",
    )
    ssl_truststore_type: str = key(
        "ssl.truststore.type",
        "JKS",
        Kind.STRING,
        check=one_of(*STORE_TYPES),
        update=PER_BROKER,
        doc="The format of ssl.truststore.location, as for ssl.keystore.type.",
    )
    ssl_truststore_location: str | None = key(
        "ssl.truststore.location",
        None,
        Kind.STRING,
        update=PER_BROKER,
        doc="A file with the certificates that issue those of clients.",
    )
    ssl_truststore_password: str | None = key(
        "ssl.truststore.password",
        None,
        Kind.PASSWORD,
        sensitive=True,
        update=PER_BROKER,
        doc="The password of a PKCS12 trust store.",
    )
    ssl_truststore_certificates: str | None = key(
        "ssl.truststore.certificates",
        None,
        Kind.PASSWORD,
        sensitive=True,
        update=PER_BROKER,
        doc="The trusted certificates themselves, as PEM; with ssl.truststore.type=PEM.",
    )
    ssl_client_auth: str = key(
        "ssl.client.auth",
        "none",
        Kind.STRING,
        check=one_of(*CLIENT_AUTH),
        update=PER_BROKER,
        doc="Whether clients present a certificate: required, requested (a client without one is"
        " User:ANONYMOUS), or none.",
    )
    ssl_principal_mapping_rules: str = key(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        Kind.STRING,
        importance=LOW,
        doc="How the distinguished name of a client's certificate becomes its principal: a list of"
        " RULE:pattern/replacement/[LU] and DEFAULT. The first rule that matches the whole name"
        " decides.",
    )
    ssl_enabled_protocols: tuple[str, ...] = key(
        "ssl.enabled.protocols",
        TLS_VERSIONS,
        Kind.LIST,
        check=some_of(*TLS_VERSIONS),
        update=PER_BROKER,
        doc="The versions of TLS that clients may use.",
    )
    ssl_cipher_suites: tuple[str, ...] = key(
        "ssl.cipher.suites",
        (),
        Kind.LIST,
        update=PER_BROKER,
        doc="The cipher suites that clients may use, by Java's names; empty: OpenSSL's choice. The"
        " suites of TLS 1.3 can only be allowed together.",
    )
    ssl_allow_dn_changes: bool = key(
        "ssl.allow.dn.changes",
        default=False,
        kind=Kind.BOOLEAN,
        importance=LOW,
        doc="Whether a certificate that replaces the current one may have another distinguished"
        " name.",
    )
    ssl_allow_san_changes: bool = key(
        "ssl.allow.san.changes",
        default=False,
        kind=Kind.BOOLEAN,
        importance=LOW,
        doc="Whether a certificate that replaces the current one may lack some of its alternative"
        " names.",
    )
