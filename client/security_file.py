"""The file of `--command-config`: how to reach a listener, in the keys of Kafka's clients.

    security.protocol=SSL
    ssl.truststore.location=ca.pem          or ssl.ca.location, librdkafka's
    ssl.keystore.location=alice.pem         key and certificate, if the listener asks for them; or
                                            ssl.certificate.location and ssl.key.location

    security.protocol=SASL_SSL              or SASL_PLAINTEXT
    sasl.mechanism=SCRAM-SHA-512            or SCRAM-SHA-256, PLAIN
    sasl.username=alice                     librdkafka's; or Kafka's sasl.jaas.config with
    sasl.password=…                         username="alice" password="…"

    sasl.mechanism=OAUTHBEARER
    sasl.oauthbearer.token.endpoint.url=file:///run/token   a file with a JSON Web Token

All files are PEM. Without a trust store the system's certificates are trusted, as for Kafka's own
clients. Keys for other purposes are ignored, since such files are shared with other programs.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import NamedTuple

import click

from client.logins import MECHANISMS, OAUTHBEARER, Login

PLAIN_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PROTOCOLS = (*PLAIN_PROTOCOLS, "MSGPACK", "MSGPACK_SSL", "MSGPACK_SASL", "MSGPACK_SASL_SSL")
DEFAULT_MECHANISM = "GSSAPI"  # Kafka's clients'
ENDPOINT_KEY = "sasl.oauthbearer.token.endpoint.url"
FILE_SCHEME = "file://"
NEEDS = "sasl.username and sasl.password, or sasl.jaas.config with username and password"


class Security(NamedTuple):
    """The TLS and the login that a file asks for, if it does."""

    tls: ssl.SSLContext | None
    login: Login | None


def read_security(path: str) -> Security:
    """Return the TLS and the login that a file asks for. Raises click.UsageError."""
    from config.properties import decode, parse_properties

    try:
        with open(path, "rb") as stream:
            entries = parse_properties(decode(stream.read()), path)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}") from None
    values = {entry.key: entry.value.strip() for entry in entries}
    protocol = values.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise click.UsageError(
            f"{path}: security.protocol={protocol} is not known here; expected"
            f" {', '.join(PLAIN_PROTOCOLS)}"
        )
    return Security(
        _tls(values, path) if protocol.endswith("SSL") else None,
        _login(values, path) if "SASL" in protocol else None,
    )


def _login(values: Mapping[str, str], path: str) -> Login:
    mechanism = values.get("sasl.mechanism") or values.get("sasl.mechanisms") or DEFAULT_MECHANISM
    if mechanism not in MECHANISMS:
        raise click.UsageError(
            f"{path}: sasl.mechanism={mechanism} is not known here; expected"
            f" {', '.join(MECHANISMS)}"
        )
    if mechanism == OAUTHBEARER:
        return Login(mechanism, _token_file(values.get(ENDPOINT_KEY, ""), path), "")
    username, password = values.get("sasl.username"), values.get("sasl.password")
    if "sasl.jaas.config" in values:
        from config.jaas import JaasError, parse_jaas

        try:
            options = parse_jaas(values["sasl.jaas.config"]).options
        except JaasError as error:
            raise click.UsageError(f"{path}: sasl.jaas.config cannot be read: {error}") from None
        username, password = options.get("username"), options.get("password")
    if not username or not password:
        raise click.UsageError(f"{path} has no user for {mechanism}; expected {NEEDS}")
    return Login(mechanism, username, password)


def _token_file(url: str, path: str) -> str:
    if not url.startswith(FILE_SCHEME):
        raise click.UsageError(
            f"{path}: {ENDPOINT_KEY}={url} is not read here; expected file:///PATH, a file with a"
            " token. Have the provider's tool write it"
        )
    return url.removeprefix(FILE_SCHEME)


def _tls(values: Mapping[str, str], path: str) -> ssl.SSLContext:
    for kind in ("ssl.truststore.type", "ssl.keystore.type"):
        if values.get(kind, "PEM") != "PEM":
            raise click.UsageError(
                f"{path}: {kind}={values[kind]} is not read here; expected PEM. Convert the store:"
                " openssl pkcs12 -in STORE -nodes -out store.pem"
            )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = values.get("ssl.endpoint.identification.algorithm", "https") != ""
    trusted = values.get("ssl.truststore.location") or values.get("ssl.ca.location")
    _trust(context, trusted, values.get("ssl.truststore.certificates"), path)
    store = values.get("ssl.keystore.location") or values.get("ssl.certificate.location")
    if store:
        key = values.get("ssl.key.location", store)
        _load_key(context, store, key, values.get("ssl.key.password", ""), path)
    return context


def _trust(context: ssl.SSLContext, file: str | None, inline: str | None, path: str) -> None:
    try:
        if file:
            context.load_verify_locations(cafile=file)
        elif inline:
            context.load_verify_locations(cadata=inline.replace("\\n", "\n"))
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:  # SSLError is an OSError, and names no file
        place = f"ssl.truststore.location={file}" if file else "ssl.truststore.certificates"
        raise click.UsageError(
            f"{path}: {place} cannot be used: {_reason(error)}; expected certificates as PEM"
        ) from None


def _load_key(context: ssl.SSLContext, chain: str, key: str, password: str, path: str) -> None:
    try:
        # A function: OpenSSL would ask at the terminal for a password that is not given.
        context.load_cert_chain(chain, key, password=lambda: password)
    except (OSError, ValueError) as error:
        raise click.UsageError(
            f"{path}: the key and certificate in {chain} and {key} cannot be used:"
            f" {_reason(error)}; expected PEM, and the right ssl.key.password"
        ) from None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "not PEM"
    return getattr(error, "strerror", None) or str(error)
