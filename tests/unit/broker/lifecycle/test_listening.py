"""What the broker says of its listeners, and which doors it warns of."""

import logging

import pytest

from broker.lifecycle.listening import say_that_it_listens, warnings_of
from config.broker import BrokerConfig
from config.load import load

TLS = ("ssl.certificate=c", "ssl.key=k")
SASL = ("sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",)
TRUST = ("ssl.truststore.location=t",)


def config(listeners: str, *settings: str) -> BrokerConfig:
    return load(set_values=[f"listeners={listeners}", *settings]).config


def test_a_line_names_the_protocol_and_the_mechanisms(caplog: pytest.LogCaptureFixture) -> None:
    found = config("SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:1", *TLS, *SASL)
    described = "TLSv1.2, TLSv1.3; client certificates: none; SASL: SCRAM-SHA-256, SCRAM-SHA-512"
    with caplog.at_level(logging.INFO, "barnabas.server"):
        say_that_it_listens(found, [(one, 9) for one in found.served_listeners])
    assert [record.message for record in caplog.records] == [
        f"listening on SASL_SSL://127.0.0.1:9 ({described})",
        "listening on PLAINTEXT://127.0.0.1:9",
    ]


WARNED = [
    ("PLAINTEXT://127.0.0.1:1,MSGPACK://127.0.0.1:2", (), []),
    ("PLAINTEXT://:1", (), ["without encryption or authentication"]),
    ("SSL://:1", TLS, ["open to the network without authentication"]),
    ("SSL://:1", (*TLS, *TRUST, "ssl.client.auth=required"), []),
    ("SASL_PLAINTEXT://127.0.0.1:1", SASL, []),
    ("SASL_PLAINTEXT://:1", SASL, ["but without encryption"]),
    ("MSGPACK_SASL://:1", SASL, ["use MSGPACK_SASL_SSL"]),
    ("SASL_SSL://:1,MSGPACK_SASL_SSL://:2", (*TLS, *SASL), []),
    ("SASL_SSL://:1,MSGPACK://127.0.0.1:2", (*TLS, *SASL), ["MSGPACK takes clients"]),
    (
        "SASL_SSL://:1,MSGPACK_SSL://:2",
        (*TLS, *SASL),
        ["MSGPACK_SSL is open to the network", "MSGPACK_SSL takes clients"],
    ),
    ("SASL_PLAINTEXT://127.0.0.1:1,MSGPACK_SASL://127.0.0.1:2", SASL, []),
]


@pytest.mark.parametrize(("listeners", "settings", "words"), WARNED)
def test_open_doors_are_named(listeners: str, settings: tuple[str, ...], words: list[str]) -> None:
    found = warnings_of(config(listeners, *settings))
    assert len(found) == len(words)
    assert all(word in warning for word, warning in zip(words, found, strict=True)), found
