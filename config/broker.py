"""The broker's configuration: what its keys mean together.

The keys are declared in config/broker_keys.py and the modules `*_keys` beside it. `__post_init__`
checks the rules that span keys, so every BrokerConfig object is valid: its listeners can be opened,
and it has exactly one directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.authorizer_keys import parse_super_users
from config.checks import TopicAtStart
from config.errors import ConfigError
from config.http_address import parse_http_address
from config.keys import Key, keys_of
from config.listeners import (
    OWN_PROTOCOLS,
    WILDCARDS,
    Listener,
    parse_listeners,
    parse_protocol_map,
)
from config.sasl_keys import SaslKeys
from config.sasl_settings import SaslSettings, sasl_settings
from config.tls_settings import TlsSettings, tls_settings
from config.topic import TopicConfig
from config.values import Kind, Parsed, parse

NO_CERTIFICATES = {"ssl.client.auth": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(SaslKeys):
    """The configuration of one broker.

    `topic_defaults` is what a topic has that sets nothing itself. `served_listeners` are the
    listeners to open; `advertised` is what clients are told, by listener name (a name that is
    missing: the listener itself); `connection_limits` are the exceptions, by client address, from
    max.connections.per.ip; `data_directory` is the one directory. `listener_values` holds the
    values that listeners have for themselves, by name and key; `tls` the TLS of those that use it,
    `sasl` the SASL.
    `super_principals` are the principals in super.users.
    `http` is the HTTP listener, None if it is off.
    """

    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    listener_values: Mapping[str, Mapping[str, Parsed]] = field(default_factory=dict, repr=False)
    served_listeners: tuple[Listener, ...] = field(init=False)
    advertised: dict[str, Listener] = field(init=False)
    connection_limits: dict[str, int] = field(init=False)
    tls: dict[str, TlsSettings] = field(init=False)
    sasl: dict[str, SaslSettings] = field(init=False)
    super_principals: frozenset[str] = field(init=False)
    http: Listener | None = field(init=False)

    def __post_init__(self) -> None:
        """Check what concerns several keys at once, and read the listeners."""
        self._check_directory()
        self._check_limits()
        self._check_cleaner()
        self._check_topics_at_start()
        if "broker" not in self.process_roles:
            roles = ",".join(self.process_roles)
            raise ConfigError(
                "the node must be a broker",
                key="process.roles",
                value=roles,
                allowed="broker, or broker,controller",
            )
        set_once = object.__setattr__
        set_once(self, "served_listeners", self._read_listeners())
        set_once(self, "advertised", self._read_advertised())
        set_once(self, "connection_limits", self._read_overrides())
        set_once(self, "tls", self._read_tls())
        set_once(self, "sasl", self._read_sasl())
        set_once(self, "super_principals", parse_super_users(self.super_users))
        set_once(self, "http", parse_http_address(self.barnabas_http_listener))
        self._check_inter_broker_name()

    @property
    def data_directory(self) -> str:
        """The one directory that holds everything."""
        return self.log_dirs[0]

    def of_listeners(self, key: str) -> dict[str, int]:
        """Return the number that each listener has for itself as a key, if it has one."""
        found = {name: values.get(key) for name, values in self.listener_values.items()}
        return {name: value for name, value in found.items() if isinstance(value, int)}

    def _check_directory(self) -> None:
        if len(self.log_dirs) != 1 or not self.log_dirs[0]:
            raise ConfigError(
                "Barnabas keeps everything in one directory",
                key="log.dirs",
                value=",".join(self.log_dirs),
                allowed="exactly one directory; for several disks join them below the filesystem",
            )

    def _check_limits(self) -> None:
        limit = self.queued_max_request_bytes
        if 0 < limit < self.socket_request_max_bytes:
            raise ConfigError(
                f"one request of socket.request.max.bytes={self.socket_request_max_bytes} would"
                " not fit",
                key="queued.max.request.bytes",
                value=str(limit),
                allowed=f"-1, 0, or {self.socket_request_max_bytes} or more",
            )
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides:
            raise ConfigError(
                "no client could connect: max.connections.per.ip.overrides is empty",
                key="max.connections.per.ip",
                value="0",
                allowed="1 or more, or 0 with overrides",
            )

    def _check_topics_at_start(self) -> None:
        for entry in self.barnabas_create_topics:
            replicas = TopicAtStart(*entry.split(":")).replicas
            if replicas not in ("", "1") and not self.barnabas_replication_factor_clamp:
                raise ConfigError(
                    f"{entry} asks for {replicas} replicas, and one node keeps 1",
                    key="barnabas.create.topics",
                    value=",".join(self.barnabas_create_topics),
                    allowed="1 replica, or more with barnabas.replication.factor.clamp=true",
                )

    def _protocols(self) -> dict[str, str]:
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        for name in OWN_PROTOCOLS:
            protocols.setdefault(name, name)
        for name in self.controller_listener_names:
            protocols.setdefault(name.upper(), "PLAINTEXT")
        return protocols

    def _read_listeners(self) -> tuple[Listener, ...]:
        served = parse_listeners(
            "listeners",
            self.listeners,
            self._protocols(),
            not_opened=self.controller_listener_names,
        )
        if not served:
            raise ConfigError(
                "no listener is left to open: controller.listener.names"
                f"={','.join(self.controller_listener_names)}",
                key="listeners",
                value=",".join(self.listeners),
                allowed="at least one listener that is not the controller's",
            )
        return served

    def _read_advertised(self) -> dict[str, Listener]:
        if self.advertised_listeners is None:
            return {}
        found = {
            listener.name: listener
            for listener in parse_listeners(
                "advertised.listeners",
                self.advertised_listeners,
                self._protocols(),
                not_opened=self.controller_listener_names,
            )
        }
        names = {listener.name for listener in self.served_listeners}
        for listener in found.values():
            if listener.host in WILDCARDS[1:]:
                reason = "no client can connect to this address"
            elif listener.name not in names:
                reason = f"listeners has no {listener.name}"
            else:
                continue
            raise ConfigError(
                reason,
                key="advertised.listeners",
                value=str(listener),
                allowed="for each listener, an address that clients reach",
            )
        return found

    def _read_tls(self) -> dict[str, TlsSettings]:
        """Read the TLS of the listeners.

        A plain ssl.client.auth is for listeners without SASL only, as in Kafka (KIP-684).
        """
        return {
            one.name: tls_settings(
                self,
                one.name,
                {**(NO_CERTIFICATES if one.has_sasl else {}), **self._own_values(one)},
            )
            for one in self.served_listeners
            if one.is_encrypted
        }

    def _read_sasl(self) -> dict[str, SaslSettings]:
        return {
            one.name: sasl_settings(self, one.name, self._own_values(one))
            for one in self.served_listeners
            if one.has_sasl
        }

    def _own_values(self, listener: Listener) -> Mapping[str, Parsed]:
        return self.listener_values.get(listener.name, {})

    def _check_inter_broker_name(self) -> None:
        name = self.inter_broker_listener_name
        served = [listener.name for listener in self.served_listeners]
        if name is not None and name.upper() not in served:
            raise ConfigError(
                "there is no such listener",
                key="inter.broker.listener.name",
                value=name,
                allowed=", ".join(served),
            )

    def _read_overrides(self) -> dict[str, int]:
        limits: dict[str, int] = {}
        text = self.max_connections_per_ip_overrides
        for entry in filter(None, (part.strip() for part in text.split(","))):
            address, _, count = entry.rpartition(":")
            try:
                limits[_address(address.strip())] = _count(count)
            except ValueError as error:
                raise ConfigError(
                    f"{entry}: {error}",
                    key="max.connections.per.ip.overrides",
                    value=text,
                    allowed="a list such as 10.0.0.5:200,10.0.0.6:10",
                ) from None
        return limits


def _count(text: str) -> int:
    count = parse(Kind.INT, text)
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"{text} connections")
    return count


def _address(text: str) -> str:
    """Return an address as the connections of its clients show it. Raises ValueError.

    Kafka resolves host names once, which may take as long as the resolver does. This broker waits
    for no resolver, and an unresolved name would match no client.
    """
    import ipaddress  # few configurations name an address

    if text.lower() == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        raise ValueError(f"{text!r} is no IP address, and names are not looked up") from None


def broker_keys() -> dict[str, Key]:
    """Return the broker's own keys by name; the topics' defaults are config.topic's synonyms."""
    return keys_of(BrokerConfig)
