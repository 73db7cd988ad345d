"""Requests and answers that are maps, in frames of both dialects; commands on either listener."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.addresses import Address
from client.dialects import DialectError, KafkaFrames, MsgpackFrames, classes_of, from_map, to_map
from client.kafka.connection import BrokerError, Connection
from client.msgpack.transport import RequestRefused, Transport
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.wire import message_spec
from tests.support import warm_process
from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess, free_port

APIS = sorted(path.stem for path in (ROOT / "protocol" / "messages").glob("[a-z]*.py"))
VERSIONS = {"error_code": 0, "api_keys": [{"api_key": 3, "min_version": 0, "max_version": 13}]}


@pytest.mark.parametrize("api", APIS)
def test_each_message_is_found_by_its_name_and_survives_as_a_map(api: str) -> None:
    for cls in classes_of(api):
        version = message_spec(cls).version_max
        try:
            message = cls()
        except TypeError:  # fields without defaults
            continue
        import msgpack

        assert from_map(cls, version, msgpack.packb(to_map(message, version))) == message


def test_what_kafka_would_not_understand_is_refused() -> None:
    frames = KafkaFrames()
    frames.learn(VERSIONS)
    assert frames.pack("metadata", 7, {"topics": None})[:8] == bytes([0, 3, 0, 13, 0, 0, 0, 7])
    with pytest.raises(DialectError, match="unknown field 'no_field'"):
        frames.pack("metadata", 7, {"no_field": 1})
    with pytest.raises(DialectError, match="does not serve produce"):
        frames.pack("produce", 7, {})
    with pytest.raises(DialectError, match="does not speak Kafka"):
        frames.unpack("metadata", b"\0\0\0\1\0\xff")
    with pytest.raises(DialectError, match="expected a map"):
        MsgpackFrames().unpack("metadata", b"\x92\x01\x02")


class Listeners:
    """A broker with a listener for each dialect."""

    def __init__(self, folder: Path) -> None:
        ports = free_port(), free_port()
        self.addresses = dict(
            zip(("kafka", "msgpack"), map("127.0.0.1:{}".format, ports), strict=True)
        )
        listeners = "PLAINTEXT://{kafka},MSGPACK://{msgpack}".format(**self.addresses)
        settings = {"listeners": listeners, "barnabas.http.listener": ""}
        self.process = BrokerProcess(folder / "data", settings)
        self.process.port = ports[0]


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    made = Listeners(tmp_path_factory.mktemp("dialects"))
    with made.process:
        yield made.addresses


@pytest.mark.parametrize("tried_first", [False, True])
@pytest.mark.parametrize("dialect", ["kafka", "msgpack"])
def test_a_connection_finds_the_dialect(
    listeners: dict[str, str], dialect: str, tried_first: bool
) -> None:
    with Connection(listeners[dialect], 10, is_msgpack=tried_first) as connection:
        assert connection.is_msgpack == (dialect == "msgpack")
        answer = connection.call(MetadataRequest(topics=None), MetadataResponse)
        assert answer.brokers[0].host == "127.0.0.1"


async def test_maps_reach_a_listener_of_kafkas_protocol(listeners: dict[str, str]) -> None:
    transport = Transport(Address(listeners["kafka"], None, is_kafka=True), 10)
    try:
        answer = await transport.call("metadata", {"topics": []})
        assert answer["brokers"][0]["host"] == "127.0.0.1"
        with pytest.raises(RequestRefused, match="unknown field"):
            await transport.call("metadata", {"no_field": 1})
        assert await transport.call("find_coordinator", {"coordinator_keys": ["g"]})
    finally:
        transport.close()


def test_a_server_of_neither_dialect_is_named() -> None:
    import socket
    import threading

    def hang_up(peer: socket.socket) -> None:
        for _ in range(2):
            peer.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as peer:
        serving = threading.Thread(target=hang_up, args=[peer])
        serving.start()
        with pytest.raises(BrokerError, match="API_VERSIONS"):
            Connection(f"127.0.0.1:{peer.getsockname()[1]}", 10).open()
        serving.join()


@pytest.mark.parametrize("dialect", ["kafka", "msgpack"])
def test_all_commands_take_either_listener(listeners: dict[str, str], dialect: str) -> None:
    def run(*words: str, given: str = "") -> Any:
        environment = {**os.environ, "BARNABAS_BOOTSTRAP": listeners[dialect]}
        command = [*BARNABAS, *words]
        done = warm_process.run(command, given=given.encode(), environment=environment)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout.decode()

    run("topics", "create", dialect, "--partitions", "1")
    run("produce", dialect, "--compression", "zstd", given="a\nb\nc\n")
    assert run("consume", dialect, "--tail", "2") == "b\nc\n"
    assert run("consume", dialect, "--group", f"g-{dialect}", "-n", "2") == "a\nb\n"
    found = json.loads(run("groups", "describe", f"g-{dialect}", "--json"))
    assert '"committed": 2' in json.dumps(found)
    run("groups", "reset-offsets", f"g-{dialect}", "--to-earliest")
    found = json.loads(run("groups", "describe", f"g-{dialect}", "--json"))
    assert '"committed": 0' in json.dumps(found)
    run("config", "set", "--topic", dialect, "retention.ms=7d")
    assert "604800000" in run("config", "get", "--topic", dialect)
    run("topics", "delete", dialect, "--yes")
