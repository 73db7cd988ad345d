"""`barnabas serve --test-control`, as programs in other languages use it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from confluent_kafka import KafkaError, Producer

from tests.support.broker_process import free_port
from tests.support.patience import Limit


class Controlled:
    """A broker with test control."""

    def __init__(self, directory, host="127.0.0.1", data="data"):
        self.host = host
        self.port = free_port()
        command = [
            sys.executable, "-P", "-m", "barnabas", "serve", "--data", str(directory / data),
            "--set", "listeners=PLAINTEXT://127.0.0.1:0,MSGPACK://127.0.0.1:0",
            "--set", "barnabas.http.listener=127.0.0.1:0",
            "--test-control", f"{host}:{self.port}",
        ]  # fmt: skip
        with (directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, start_new_session=True)
        limit = Limit(30)
        while True:
            try:
                self.state = self.ask()
            except OSError:
                assert not limit.is_over
                assert self.process.poll() is None
                time.sleep(0.05)
            else:
                return

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.state['listeners']['PLAINTEXT']['port']}"

    @property
    def http(self):
        return f"http://127.0.0.1:{self.state['http']['port']}"

    def ask(self, command=None, headers=None, **fields):
        request = urllib.request.Request(
            f"http://{self.host}:{self.port}/{command or 'state'}",
            data=None if command is None else json.dumps(fields).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def refusal(self, *arguments, **fields):
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.ask(*arguments, **fields)
        with refused.value as answer:
            assert answer.code == 400
            return json.load(answer)["refused"]


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    broker = Controlled(tmp_path_factory.mktemp("controlled"))
    yield broker
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(30) == 0


def produced(broker):
    seen = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "reconnect.backoff.ms": 10})
    producer.produce("t", b"v", callback=lambda error, _: seen.append(error))
    assert producer.flush(30) == 0
    return seen[0]


def test_another_program_has_the_same(controlled):
    rule = controlled.ask("add_rule", rule={"api": "produce", "error": "INVALID_RECORD"})
    assert produced(controlled).code() == KafkaError.INVALID_RECORD
    state = controlled.ask()
    assert state["rules"][0]["met"] == 1
    assert [one["api"] for one in state["requests"]].count("produce") == 1
    controlled.ask("remove_rule", number=rule["number"])
    assert produced(controlled) is None
    controlled.ask("snapshot", name="one")
    controlled.ask("kill")
    assert controlled.ask()["is_running"] is False
    controlled.ask("restart")
    before = controlled.ask("advance", seconds=0)["now_ms"]
    assert controlled.ask("advance", seconds=3_600)["now_ms"] - before >= 3_600_000
    controlled.ask("restore", name="one")
    assert produced(controlled) is None


def test_bad_commands_are_refused(controlled):
    assert "Did you mean add_rule" in controlled.refusal("addrule")
    assert "Did you mean produce" in controlled.refusal("add_rule", rule={"api": "prduce"})
    assert "leave Origin out" in controlled.refusal("kill", {"Origin": "http://a.example"})
    assert "expected localhost" in controlled.refusal("kill", {"Host": "a.example:9"})
    assert "the rule is 5" in controlled.refusal("add_rule", rule=5)
    assert "name of the snapshot is ''" in controlled.refusal("snapshot")
    assert "not application/json" in controlled.refusal("kill", {"Content-Type": "text/plain"})
    assert controlled.ask()["is_running"] is True


def test_a_body_may_come_in_chunks(controlled):
    rules = [
        controlled.ask("add_rule", rule={"api": api, "error": "REQUEST_TIMED_OUT"})["number"]
        for api in ("produce", "fetch")
    ]
    connection = http.client.HTTPConnection("127.0.0.1", controlled.port, timeout=60)
    pieces, json_type = (b'{"number":', b"%d}" % rules[0]), {"Content-Type": "application/json"}
    connection.request("POST", "/remove_rule", iter(pieces), json_type, encode_chunked=True)
    with connection.getresponse() as answer:
        assert answer.status == 200
    connection.close()
    assert [rule["number"] for rule in controlled.ask()["rules"]] == rules[1:]


def test_no_listener_of_the_broker_takes_commands(controlled):
    for command in ("kill", "add_rule", "state"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{controlled.http}/{command}", data=b"{}", timeout=10)
        with refused.value as answer:
            assert answer.code in (404, 405)
    assert controlled.ask()["is_running"] is True


def refused_at_start(place, directory):
    command = [sys.executable, "-P", "-m", "barnabas", "serve", "--data", str(directory)]
    ended = subprocess.run(
        [*command, "--test-control", place], stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_a_place_that_is_none_is_refused(tmp_path):
    for place in ("127.0.0.1:99999", "nowhere", "127.0.0.1:-1"):
        assert f"--test-control is '{place}', expected HOST:PORT" in refused_at_start(
            place, tmp_path
        )


def test_a_signal_is_heard_while_a_client_is_slow(tmp_path):
    broker = Controlled(tmp_path, "localhost")
    with socket.create_connection(("127.0.0.1", broker.port)):
        time.sleep(0.5)  # the server waits for this request now
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(30) == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_ctrl_c_stops_parent_and_broker_in_order(tmp_path):
    broker = Controlled(tmp_path)
    os.killpg(broker.process.pid, signal.SIGINT)
    assert broker.process.wait(30) == 0
    log = (tmp_path / "log").read_text()
    assert "everything is on disk" in log
    assert "Traceback" not in log
    assert "again" not in log


def test_neighbours_have_snapshots_of_their_own(tmp_path):
    brokers = []
    try:
        for name, host in (("one", "127.0.0.1"), ("other", "[::1]")):
            brokers.append(Controlled(tmp_path, host, name))
        brokers[0].ask("snapshot", name="same")
        assert "there are none" in brokers[1].refusal("restore", name="same")
    finally:
        for broker in brokers:
            broker.process.send_signal(signal.SIGTERM)
            assert broker.process.wait(30) == 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log", "one", "other"]


def test_a_broker_of_a_program_ends_with_it(tmp_path):
    """Port 0: free ports, told in a line of standard output, and a directory of its own."""
    barnabas = f"{sys.executable} -P -m barnabas serve --test-control 127.0.0.1:0"
    program = f"{barnabas} 2>log & wait"
    with subprocess.Popen(
        ["sh", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        told = json.loads(starter.stdout.readline())
        produced = Producer({"bootstrap.servers": told["bootstrap"]})
        produced.produce("orders", b"v")
        assert produced.flush(30) == 0
        (directory,) = tmp_path.glob("barnabas-*")
        assert (directory / "data" / "orders-0").is_dir()
        request = urllib.request.Request(
            f"http://{told['test_control']}/advance",
            data=b'{"seconds": 1}',
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200
        starter.kill()
        assert starter.stdout.read() == ""  # the broker, which had the pipe too, has ended
    limit = Limit(30)
    while directory.exists():
        assert not limit.is_over
        time.sleep(0.05)
    assert "everything is on disk" in (tmp_path / "log").read_text()


def test_settings_of_a_broker_of_a_program_are_kept(tmp_path):
    port = free_port()
    command = [
        sys.executable, "-P", "-m", "barnabas", "serve", "--data", str(tmp_path / "mine"),
        "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}", "--test-control", "127.0.0.1:0",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert json.loads(process.stdout.readline())["bootstrap"] == f"127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (tmp_path / "mine" / "meta.properties").exists()
