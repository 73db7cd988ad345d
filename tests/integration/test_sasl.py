"""Logins by SASL on a running broker: our own clients, hostile ones, and what is left of them."""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from tests.support import warm_process
from tests.support.broker_process import BARNABAS, BrokerProcess, free_port
from tests.support.certificates import Authority
from tests.support.raw_client import RawClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PASSWORD = "marked-password"
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL", "MSGPACK_SASL", "MSGPACK_SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PATIENCE_S = 30.0


class SaslBroker(BrokerProcess):
    """A broker with a plain listener, and one of each protocol with SASL."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "certificates")
        own = self.authority.issue("broker")
        self.ports = {name: free_port() for name in PROTOCOLS}
        super().__init__(
            directory / "data",
            {
                "ssl.certificate": own.chain_file,
                "ssl.key": own.key_file,
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                **{
                    f"listener.name.{name.lower()}.plain.sasl.jaas.config": (
                        f'{MODULE} required user_alice="{PASSWORD}";'
                    )
                    for name in PROTOCOLS
                },
            },
        )
        named = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        self.settings["listeners"] = ",".join([f"PLAINTEXT://{self.address}", *named])


def barnabas(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    only = {"PATH": str(Path(sys.executable).parent)}
    return warm_process.run([*BARNABAS, *words], given=stdin, environment=only)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    broker = SaslBroker(tmp_path_factory.mktemp("sasl"))
    with broker:
        added = barnabas(
            "users", "add", "alice", "--mechanism", "SCRAM-SHA-256", "--mechanism",
            "SCRAM-SHA-512", "--password-file", "-", "--bootstrap", broker.address,
            stdin=PASSWORD.encode(),
        )  # fmt: skip
        assert added.returncode == 0, added.stderr
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("t") == 0
        yield broker


def properties(
    broker: SaslBroker, directory: Path, protocol: str, mechanism: str, password: str = PASSWORD
) -> list[str]:
    path = directory / "client.properties"
    path.write_text(
        f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n"
        f"sasl.username=alice\nsasl.password={password}\n"
        f"ssl.ca.location={broker.authority.file}\n"
    )
    address = f"127.0.0.1:{broker.ports[protocol]}"
    return ["--command-config", str(path), "--bootstrap", address]


# -- our own clients -------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_our_clients_log_in(
    broker: SaslBroker, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    where = properties(broker, tmp_path, protocol, mechanism)
    if protocol.startswith("MSGPACK"):
        done = barnabas("produce", "t", *where, stdin=b"x\n")
    else:
        done = barnabas("topics", "list", *where)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "MSGPACK_SASL"])
def test_a_wrong_password_is_told(
    broker: SaslBroker, tmp_path: Path, protocol: str, mechanism: str
) -> None:
    where = properties(broker, tmp_path, protocol, mechanism, "wrong-marked")
    command = ["produce", "t"] if protocol.startswith("MSGPACK") else ["topics", "list"]
    done = barnabas(*command, *where, stdin=b"x\n")
    assert done.returncode != 0
    said = b"Invalid username or password" if mechanism == "PLAIN" else b"invalid credentials"
    assert said in done.stderr, done.stderr
    assert b"marked" not in done.stderr


def test_no_secret_is_in_the_log(broker: SaslBroker) -> None:
    assert "marked" not in broker.output()


# -- strangers -------------------------------------------------------------------------------------


def connect(broker: SaslBroker, protocol: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.ports[protocol]), PATIENCE_S)


def frame(api_key: int, version: int, body: bytes) -> bytes:
    data = struct.pack(">hhih", api_key, version, 7, -1) + body
    return struct.pack(">i", len(data)) + data


HANDSHAKE = frame(17, 1, b"\0\5PLAIN")
METADATA = frame(3, 1, b"\0\0\0\0")


def until_closed(sock: socket.socket) -> bytes:
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize(
    "data",
    [
        METADATA,
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        struct.pack(">i", 65537),
        b"\0\0\0\0",
        frame(36, 1, b"\0\0\0\x04\0a\0b"),
        os.urandom(300),
    ],
)
def test_a_stranger_is_closed_without_a_byte(broker: SaslBroker, data: bytes) -> None:
    with connect(broker, "SASL_PLAINTEXT") as sock:
        sock.sendall(data)
        assert until_closed(sock) == b""


def test_the_answer_comes_late_and_before_the_close(broker: SaslBroker) -> None:
    with connect(broker, "SASL_PLAINTEXT") as sock:
        sock.sendall(HANDSHAKE)
        sock.recv(4096)
        began = time.monotonic()
        sock.sendall(frame(36, 1, b"\0\0\0\x05\0a\0bc"))
        answer = until_closed(sock)
        assert time.monotonic() - began >= 0.09
        assert b"Invalid username or password" in answer


def test_msgpack_has_the_two_calls_like_any_other(broker: SaslBroker) -> None:
    def ask(sock: socket.socket, api: str, body: dict[str, object]) -> dict[str, object]:
        packed = msgpack.packb([api, 1, "test", body])
        sock.sendall(struct.pack(">I", len(packed)) + packed)
        size = struct.unpack(">I", sock.recv(4, socket.MSG_WAITALL))[0]
        number, answer = msgpack.unpackb(sock.recv(size, socket.MSG_WAITALL))
        assert number == 1
        assert isinstance(answer, dict)
        return answer

    with connect(broker, "MSGPACK_SASL") as sock:
        assert ask(sock, "sasl_handshake", {"mechanism": "PLAIN"})["mechanisms"] == [*MECHANISMS]
        token = f"\0alice\0{PASSWORD}".encode()
        assert ask(sock, "sasl_authenticate", {"auth_bytes": token})["error_code"] == 0
        assert ask(sock, "metadata", {"topics": []})["controller_id"] == 1
    with connect(broker, "MSGPACK_SASL") as sock:
        packed = msgpack.packb(["metadata", 1, "test", {"topics": []}])
        sock.sendall(struct.pack(">I", len(packed)) + packed)
        assert until_closed(sock) == b""
    with connect(broker, "MSGPACK_SASL") as sock:
        assert "mechanism" in str(ask(sock, "sasl_handshake", {"mechanism": 5})["error_message"])
        assert until_closed(sock) == b""


def test_a_crowd_of_strangers_delays_nobody_and_leaves_nothing(broker: SaslBroker) -> None:
    crowd = [connect(broker, "SASL_PLAINTEXT") for _ in range(300)]
    for number, sock in enumerate(crowd):
        if number % 3 == 1:
            sock.sendall(HANDSHAKE + frame(36, 1, b"\0\0\0\x05\0a\0bc"))
        elif number % 3 == 2:
            sock.sendall(HANDSHAKE[:9])
    began = time.monotonic()
    with RawClient(broker.host, broker.port) as client:
        assert client.create_topic("among-strangers") == 0
    assert time.monotonic() - began < PATIENCE_S
    for sock in crowd:
        sock.close()


def test_silence_ends_after_ten_seconds(broker: SaslBroker) -> None:
    with connect(broker, "SASL_PLAINTEXT") as sock:
        began = time.monotonic()
        assert until_closed(sock) == b""
        assert 9 < time.monotonic() - began < 25
