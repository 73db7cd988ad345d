"""The options `kafka.security.protocol`, `kafka.ssl.*` and `kafka.sasl.*`, as Kafka's clients have.

Trust and key stores are PEM files. librdkafka's `kafka.sasl.username` and `kafka.sasl.password` are
read like the user of a JAAS string. An option that would be ignored is refused: it promises safety.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark_barnabas.settings import Settings
from pyspark_barnabas.wire.errors import BadOption
from pyspark_barnabas.wire.logins import MECHANISMS
from pyspark_barnabas.wire.security import PLAINTEXT, Security

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_KNOWN: Final = {
    "kafka.ssl.truststore.type",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.certificates",
    "kafka.ssl.ca.location",
    "kafka.ssl.keystore.type",
    "kafka.ssl.keystore.location",
    "kafka.ssl.key.password",
    "kafka.ssl.endpoint.identification.algorithm",
    "kafka.sasl.mechanism",
    "kafka.sasl.jaas.config",
    "kafka.sasl.username",
    "kafka.sasl.password",
}
_OPTION = re.compile(r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""")


def security_options(settings: Settings) -> Security:
    """Read how to protect the connections. Raises BadOption."""
    protocol = (settings.get("kafka.security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadOption(
            f"kafka.security.protocol is {protocol}, expected one of {', '.join(PROTOCOLS)}"
        )
    for name in settings.names():
        if not name.startswith(("kafka.ssl.", "kafka.sasl.")):
            continue
        if name not in _KNOWN:
            known = ", ".join(sorted(_KNOWN))
            raise BadOption(f"{name} is not supported by this source; supported: {known}")
        if ("SASL" if name.startswith("kafka.sasl.") else "SSL") not in protocol.split("_"):
            raise BadOption(f"{name} is given, but kafka.security.protocol is {protocol}")
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    for name in ("kafka.ssl.truststore.type", "kafka.ssl.keystore.type"):
        if (settings.get(name) or "PEM").upper() != "PEM":
            raise BadOption(f"{name} is {settings.get(name)}, expected PEM")
    mechanism, username, password = ("", "", "")
    if "SASL" in protocol:
        mechanism, username, password = _login(settings)
    trusted = settings.get("kafka.ssl.truststore.location") or settings.get("kafka.ssl.ca.location")
    algorithm = settings.get("kafka.ssl.endpoint.identification.algorithm")
    return Security(
        is_encrypted=protocol.endswith("SSL"),
        trusted_file=trusted or "",
        trusted=settings.get("kafka.ssl.truststore.certificates") or "",
        own_file=settings.get("kafka.ssl.keystore.location") or "",
        own_password=settings.get("kafka.ssl.key.password") or "",
        checks_host=algorithm is None or algorithm != "",
        mechanism=mechanism,
        username=username,
        password=password,
    )


def _login(settings: Settings) -> tuple[str, str, str]:
    mechanism = settings.get("kafka.sasl.mechanism") or "GSSAPI"
    if mechanism not in MECHANISMS:
        raise BadOption(
            f"kafka.sasl.mechanism is {mechanism}, expected one of {', '.join(MECHANISMS)}"
        )
    jaas = settings.get("kafka.sasl.jaas.config")
    if jaas is None:
        user = settings.get("kafka.sasl.username")
        password = settings.get("kafka.sasl.password")
    else:
        found = {
            name: re.sub(r"\\(.)", r"\1", double or single)
            for name, double, single in _OPTION.findall(jaas)
        }
        user, password = found.get("username"), found.get("password")
    if not user or not password:
        raise BadOption('kafka.sasl.jaas.config names no user: expected username="…" password="…"')
    return mechanism, user, password
