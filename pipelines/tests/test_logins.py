"""Logins of the data source on a real broker, and servers that cannot be trusted."""

import os
import subprocess

import pytest
from broker_process import BARNABAS, ROOT, BrokerProcess, free_port

from pyspark_barnabas.wire.connection import Connection
from pyspark_barnabas.wire.errors import BrokerRefused
from pyspark_barnabas.wire.logins import MECHANISMS, begin
from pyspark_barnabas.wire.protocol import METADATA, metadata_request
from pyspark_barnabas.wire.security import Security

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "pass,=word"


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    directory, port = tmp_path_factory.mktemp("logins"), free_port()
    broker = BrokerProcess(
        directory / "data",
        {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{MODULE} required user_alice="{PASSWORD}";'
            ),
        },
    )
    broker.settings["listeners"] += f",SASL_PLAINTEXT://127.0.0.1:{port}"
    with broker:
        words = ["--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512"]
        subprocess.run(
            [*BARNABAS, "users", "add", "alice", *words, "--password-file", "-",
             "--bootstrap", broker.address],
            input=PASSWORD.encode(),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
        )  # fmt: skip
        yield port


def connect(port, mechanism, password=PASSWORD):
    security = Security(mechanism=mechanism, username="alice", password=password)
    return Connection("127.0.0.1", port, "test", 10_000, security)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_lets_the_source_in(port, mechanism):
    connection = connect(port, mechanism)
    assert connection.call(METADATA, metadata_request(None))
    connection.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told(port, mechanism):
    with pytest.raises(BrokerRefused, match="refuses the login of 'alice'") as caught:
        connect(port, mechanism, "wrong")
    assert caught.value.code == 58


def test_a_mechanism_that_is_not_offered(port):
    with pytest.raises(BrokerRefused, match="does not offer OTHER, but PLAIN"):
        connect(port, "OTHER")


@pytest.mark.parametrize("answer", [b"", b"r=other,s=AAAA,i=1", b"\xff"])
def test_a_server_that_answers_nonsense_is_not_trusted(answer):
    tokens = begin("SCRAM-SHA-256", "alice", PASSWORD)
    next(tokens)
    with pytest.raises(BrokerRefused, match="cannot be trusted"):
        tokens.send(answer)


def test_a_server_that_does_not_know_the_user_is_not_trusted():
    tokens = begin("SCRAM-SHA-256", "alice", PASSWORD)
    nonce = next(tokens).rpartition(b"r=")[2]
    tokens.send(b"r=" + nonce + b"x,s=AAAA,i=1")
    with pytest.raises(BrokerRefused, match="does not know"):
        tokens.send(b"v=AAAA")


def test_a_connection_without_a_login_is_closed(port):
    connection = Connection("127.0.0.1", port, "test", 10_000)
    with pytest.raises(OSError, match="closed"):
        connection.call(METADATA, metadata_request(None))
    connection.close()
