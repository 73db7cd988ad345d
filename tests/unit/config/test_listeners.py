"""Listener texts: those that are opened, those that are skipped, and each refusal with its key."""

import pytest

from config.errors import ConfigError
from config.listeners import Listener, parse_listeners, parse_protocol_map

PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "INSIDE": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_SSL": "SASL_TLS",
    "ODD": "CARRIER",
}

READ = [
    ("PLAINTEXT://127.0.0.1:9092", ("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)),
    ("plaintext://localhost:1", ("PLAINTEXT", "PLAINTEXT", "localhost", 1)),
    ("INSIDE://:9092", ("INSIDE", "PLAINTEXT", "", 9092)),
    ("PLAINTEXT://0.0.0.0:0", ("PLAINTEXT", "PLAINTEXT", "0.0.0.0", 0)),
    ("PLAINTEXT://[::1]:9092", ("PLAINTEXT", "PLAINTEXT", "::1", 9092)),
    ("PLAINTEXT://[::]:65535", ("PLAINTEXT", "PLAINTEXT", "::", 65535)),
    ("PLAINTEXT://my-host.example:9092", ("PLAINTEXT", "PLAINTEXT", "my-host.example", 9092)),
]
REFUSED = [
    ("127.0.0.1:9092", "not a listener"),
    ("PLAINTEXT://127.0.0.1", "not a listener"),
    ("PLAINTEXT://127.0.0.1:", "not a listener"),
    ("PLAINTEXT://::1:9092", "not a listener"),
    ("PLAINTEXT://h:65536", "not a listener"),
    ("PLAINTEXT://h:-1", "not a listener"),
    ("://h:1", "not a listener"),
    ("", "not a listener"),
    ("NOBODY://h:1", "no protocol is known for the listener name NOBODY"),
    ("SASL_SSL://h:1", "the protocol SASL_TLS is unknown"),
    ("ODD://h:1", "the protocol CARRIER is unknown"),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_a_listener_is_read(text, expected):
    (listener,) = parse_listeners("listeners", [text], PROTOCOLS)
    assert tuple(listener) == expected
    assert parse_listeners("listeners", [str(listener)], PROTOCOLS) == (listener,)


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_bad_listener_is_refused(text, reason):
    with pytest.raises(ConfigError) as caught:
        parse_listeners("listeners", [text], PROTOCOLS, source="f:1")
    assert caught.value.reason.startswith(reason)
    assert (caught.value.key, caught.value.value, caught.value.source) == ("listeners", text, "f:1")


@pytest.mark.parametrize(
    "entries",
    [
        ["PLAINTEXT://a:1", "PLAINTEXT://b:2"],
        ["PLAINTEXT://a:1", "INSIDE://a:1"],
    ],
)
def test_a_repeated_name_or_address_is_refused(entries):
    with pytest.raises(ConfigError, match="of its own"):
        parse_listeners("listeners", entries, PROTOCOLS)


def test_free_ports_and_advertised_addresses_may_repeat():
    free = parse_listeners("listeners", ["PLAINTEXT://a:0", "INSIDE://a:0"], PROTOCOLS)
    same = ["PLAINTEXT://a:1", "INSIDE://a:1"]
    assert [listener.port for listener in free] == [0, 0]
    assert len(parse_listeners("advertised.listeners", same, PROTOCOLS)) == 2


def test_a_controllers_listener_is_accepted_and_not_opened():
    entries = ["PLAINTEXT://:9092", "CONTROLLER://:9093", "SSL://:9094"]
    found = parse_listeners("listeners", entries, PROTOCOLS, not_opened=["controller", "SSL"])
    assert [listener.name for listener in found] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("host", "wildcard", "loopback"),
    [
        ("", True, False),
        ("0.0.0.0", True, False),
        ("::", True, False),
        ("127.0.0.1", False, True),
        ("127.9.9.9", False, True),
        ("::1", False, True),
        ("localhost", False, True),
        ("10.0.0.1", False, False),
    ],
)
def test_a_host_may_be_a_wildcard_or_loopback(host, wildcard, loopback):
    listener = Listener("A", "PLAINTEXT", host, 1)
    assert (listener.is_wildcard, listener.is_loopback) == (wildcard, loopback)


def test_the_protocol_map():
    assert parse_protocol_map("a:plaintext, B:SSL,") == {"A": "PLAINTEXT", "B": "SSL"}


@pytest.mark.parametrize("text", ["A", ":SSL", "A:", "A:SSL,a:PLAINTEXT"])
def test_a_bad_protocol_map_is_refused(text):
    with pytest.raises(ConfigError) as caught:
        parse_protocol_map(text)
    assert caught.value.key == "listener.security.protocol.map"
