"""The listeners: the addresses that the broker opens, and those that it advertises to clients.

A listener is `NAME://HOST:PORT`. Its name chooses its protocol by `listener.security.protocol.map`
(the name of a protocol needs no entry). An empty host means every local address; port 0 means any
free port. PLAINTEXT is Kafka's protocol, MSGPACK the msgpack dialect, both without encryption; SSL
and MSGPACK_SSL are the same over TLS. SASL_PLAINTEXT, SASL_SSL, MSGPACK_SASL and MSGPACK_SASL_SSL
are these four with a login by SASL before anything else. Listeners named in
`controller.listener.names` are accepted, but not opened: the only node is its own controller, which
needs no socket.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from config.errors import ConfigError

ENDPOINT = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<v6>[0-9A-Fa-f:.%a-z]*)\]|(?P<host>[^\s:/\[\]]*))"
    r":(?P<port>[0-9]{1,5})\Z"
)
ENCRYPTED = ("SSL", "MSGPACK_SSL", "SASL_SSL", "MSGPACK_SASL_SSL")
WITH_SASL = ("SASL_PLAINTEXT", "SASL_SSL", "MSGPACK_SASL", "MSGPACK_SASL_SSL")
SERVED = ("PLAINTEXT", "SSL", "MSGPACK", "MSGPACK_SSL", *WITH_SASL)
# Kafka's map, which a server.properties may repeat, has no entries for our own protocols.
OWN_PROTOCOLS = ("MSGPACK", "MSGPACK_SSL", "MSGPACK_SASL", "MSGPACK_SASL_SSL")
WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 -- names them, binds nothing
FORM = "a list of NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092 or PLAINTEXT://[::1]:9092"


class Listener(NamedTuple):
    """One address; `host` is "" for every local address, an IPv6 one stands without brackets."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Whether the host means every local address."""
        return self.host in WILDCARDS

    @property
    def is_encrypted(self) -> bool:
        """Whether its connections use TLS."""
        return self.protocol in ENCRYPTED

    @property
    def has_sasl(self) -> bool:
        """Whether its clients log in by SASL."""
        return self.protocol in WITH_SASL

    @property
    def is_msgpack(self) -> bool:
        """Whether its clients speak the msgpack dialect."""
        return self.protocol in OWN_PROTOCOLS

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host == "localhost" or self.host == "::1" or self.host.startswith("127.")

    def __str__(self) -> str:
        """Return the listener as it is written in a configuration."""
        return f"{self.name}://{address_text(self.host, self.port)}"


def address_text(host: str, port: int) -> str:
    """Return HOST:PORT; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_protocol_map(text: str, source: str = "") -> dict[str, str]:
    """Return listener name -> protocol from `NAME:PROTOCOL,…`; names in upper case."""
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = entry.partition(":")
        if not colon or not name or not protocol:
            raise ConfigError(
                "an entry without a colon or a name",
                key=key,
                value=entry,
                source=source,
                allowed="a list of NAME:PROTOCOL",
            )
        if name.upper() in protocols:
            raise ConfigError(f"{name} stands twice", key=key, value=text, source=source)
        protocols[name.upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(
    key: str,
    entries: Sequence[str],
    protocols: Mapping[str, str],
    *,
    not_opened: Sequence[str] = (),
    source: str = "",
) -> tuple[Listener, ...]:
    """Return the listeners of `entries`, without those whose name is in `not_opened`.

    Raises ConfigError for a malformed entry, an unknown name, a protocol that is not served, and
    for a name or an address that stands twice.
    """
    skipped = {name.upper() for name in not_opened}
    found: list[Listener] = []
    for entry in entries:
        listener = _parse_endpoint(key, entry, protocols, skipped, source)
        if listener.name not in skipped:
            found.append(listener)
    _refuse_doubles(key, found, ",".join(entries), source)
    return tuple(found)


def _parse_endpoint(
    key: str, entry: str, protocols: Mapping[str, str], skipped: set[str], source: str
) -> Listener:
    match = ENDPOINT.match(entry)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError("not a listener", key=key, value=entry, source=source, allowed=FORM)
    name = match["name"].upper()
    host = match["host"] if match["v6"] is None else match["v6"]
    if name in skipped:
        return Listener(name, "", host, int(match["port"]))
    protocol = protocols.get(name, "")
    if not protocol:
        raise ConfigError(
            f"no protocol is known for the listener name {name}",
            key=key,
            value=entry,
            source=source,
            allowed=f"names in listener.security.protocol.map: {', '.join(sorted(protocols))}",
        )
    if protocol not in SERVED:
        raise ConfigError(
            f"the protocol {protocol} is unknown",
            key=key,
            value=entry,
            source=source,
            allowed=", ".join(SERVED),
        )
    return Listener(name, protocol, host, int(match["port"]))


def _refuse_doubles(key: str, listeners: Sequence[Listener], value: str, source: str) -> None:
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError(
            "each listener needs a name of its own", key=key, value=value, source=source
        )
    if key == "listeners":
        addresses = [(listener.host, listener.port) for listener in listeners if listener.port]
        if len(set(addresses)) != len(addresses):
            raise ConfigError(
                "each listener needs an address of its own", key=key, value=value, source=source
            )
