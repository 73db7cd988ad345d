"""The meaning of the broker's keys together, and every refused combination."""

import dataclasses

import pytest

from config.broker import BrokerConfig
from config.errors import ConfigError
from config.listeners import Listener

KAFKAS_OWN = {
    "process_roles": ("broker", "controller"),
    "listeners": ("PLAINTEXT://:9092", "CONTROLLER://:9093"),
    "advertised_listeners": ("PLAINTEXT://localhost:9092", "CONTROLLER://localhost:9093"),
    "controller_listener_names": ("CONTROLLER",),
}


def test_the_defaults_are_valid():
    config = BrokerConfig()
    assert config.served_listeners == (
        Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),
        Listener("MSGPACK", "MSGPACK", "127.0.0.1", 9094),
    )
    assert config.advertised == {}
    assert config.data_directory == "data"
    assert config.connection_limits == {}
    assert config.node_id is None


def test_one_configured_listener_is_one_listener():
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:19092",))
    assert [listener.port for listener in config.served_listeners] == [19092]


@pytest.mark.parametrize(
    ("listeners", "protocols"),
    [
        ("MSGPACK://:9094", "PLAINTEXT:PLAINTEXT,SSL:SSL"),  # a Kafka's own map
        ("FAST://:9094", "FAST:MSGPACK"),
    ],
)
def test_a_msgpack_listener_has_the_name_of_its_protocol_or_its_own(listeners, protocols):
    config = BrokerConfig(listeners=(listeners,), listener_security_protocol_map=protocols)
    assert [listener.protocol for listener in config.served_listeners] == ["MSGPACK"]


def test_a_kafkas_listeners_are_read_without_the_controllers():
    config = BrokerConfig(**KAFKAS_OWN)
    assert config.served_listeners == (Listener("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert config.advertised == {"PLAINTEXT": Listener("PLAINTEXT", "PLAINTEXT", "localhost", 9092)}


def test_exceptions_from_the_connection_limit_are_read_by_address():
    config = BrokerConfig(max_connections_per_ip_overrides=" 10.0.0.5:200, [::1]:7,")
    assert config.connection_limits == {"10.0.0.5": 200, "::1": 7}


def test_an_exception_from_the_connection_limit_is_an_address_that_can_match():
    """A host name used to be accepted, but it matched no client."""
    text = "localhost:2, 0:0:0:0:0:0:0:1 : 3,127.0.0.2: 4"
    config = BrokerConfig(max_connections_per_ip_overrides=text)
    assert config.connection_limits == {"127.0.0.1": 2, "::1": 3, "127.0.0.2": 4}
    with pytest.raises(ConfigError, match="names are not looked up"):
        BrokerConfig(max_connections_per_ip_overrides="example.com:2")


def test_the_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        BrokerConfig().num_partitions = 2


ACCEPTED = [
    {"queued_max_request_bytes": 0},
    {"queued_max_request_bytes": -1},
    {"queued_max_request_bytes": 100, "socket_request_max_bytes": 100},
    {"max_connections_per_ip": 0, "max_connections_per_ip_overrides": "127.0.0.1:5"},
    {"process_roles": ("broker",)},
    {"advertised_listeners": ("PLAINTEXT://:9092",)},
    {"barnabas_create_topics": ("a", "b:3", "c:1:1", "d:1:1:", "e:1:1:compact", "...")},
    {"barnabas_create_topics": ("a:1:3",), "barnabas_replication_factor_clamp": True},
]
REFUSED = [
    ({"log_dirs": ("a", "b")}, "log.dirs"),
    ({"log_dirs": ("",)}, "log.dirs"),
    ({"log_dirs": ()}, "log.dirs"),
    ({"queued_max_request_bytes": 99, "socket_request_max_bytes": 100}, "queued.max.request.bytes"),
    ({"max_connections_per_ip": 0}, "max.connections.per.ip"),
    ({"max_connections_per_ip_overrides": "1.2.3.4"}, "max.connections.per.ip.overrides"),
    ({"max_connections_per_ip_overrides": ":4"}, "max.connections.per.ip.overrides"),
    ({"max_connections_per_ip_overrides": "1.2.3.4:-1"}, "max.connections.per.ip.overrides"),
    ({"process_roles": ("controller",)}, "process.roles"),
    ({"barnabas_create_topics": ("a", "b:1:2")}, "barnabas.create.topics"),
    ({"listeners": ("SASL_TLS://:9092",)}, "listeners"),
    ({"listeners": ("INSIDE://:9092",)}, "listeners"),
    ({"listener_security_protocol_map": "PLAINTEXT"}, "listener.security.protocol.map"),
    ({"controller_listener_names": ("PLAINTEXT", "MSGPACK")}, "listeners"),
    ({"advertised_listeners": ("PLAINTEXT://0.0.0.0:9092",)}, "advertised.listeners"),
    ({"advertised_listeners": ("PLAINTEXT://[::]:9092",)}, "advertised.listeners"),
    (
        {
            "advertised_listeners": ("OUT://h:9092",),
            "listener_security_protocol_map": "OUT:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        },
        "advertised.listeners",
    ),
]


@pytest.mark.parametrize("values", ACCEPTED)
def test_a_combination_is_accepted(values):
    assert BrokerConfig(**values).served_listeners


@pytest.mark.parametrize(("values", "key"), REFUSED)
def test_a_combination_is_refused_with_its_key_and_what_is_allowed(values, key):
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(**values)
    assert caught.value.key == key
    assert caught.value.allowed
