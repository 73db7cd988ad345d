"""Settings of a broker from every source, as the command line shows and resets them."""

import subprocess
from pathlib import Path

import pytest

from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess
from tests.support.raw_client import Closed, RawClient

LOCKED_OUT = "max.connections.per.ip.overrides=127.0.0.1:0"


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*BARNABAS, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def barnabas(*words: str) -> str:
    """Run a command that must succeed; return what it prints."""
    done = command(*words)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def test_only_settings_given_at_the_start_are_shown(tmp_path: Path) -> None:
    environment = {"KAFKA_NUM_IO_THREADS": "5"}
    with BrokerProcess(
        tmp_path / "data", {"num.partitions": "3"}, environment=environment
    ) as broker:
        bootstrap = f"{broker.host}:{broker.port}"
        barnabas("config", "set", "--broker", "1", "max.connections=77", "--bootstrap", bootstrap)
        lines = barnabas("config", "get", "--broker", "1", "--bootstrap", bootstrap).splitlines()
    shown = {line.split()[0]: line for line in lines[1:]}
    assert shown["num.partitions"].endswith("broker, at start")
    assert shown["num.io.threads"].split()[1] == "5"
    assert shown["max.connections"].endswith("broker, dynamic")
    assert "min.insync.replicas" not in shown
    assert "node.id" not in shown


def test_a_broker_that_refuses_all_connections_is_reset_in_its_directory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {}) as broker:
        bootstrap = f"{broker.host}:{broker.port}"
        change = ("config", "set", "--bootstrap", bootstrap, "--all-brokers")
        refused = command(*change, "max.connections=0")
        assert refused.returncode == 1, refused
        assert "1 or more" in refused.stderr
        command(*change, LOCKED_OUT)  # it takes effect, even if the command cannot reconnect
        assert broker.stop() == 0
        broker.start()
        with pytest.raises((Closed, OSError)), RawClient(broker.host, broker.port) as client:
            client.api_versions()
        assert broker.stop() == 0
        key = LOCKED_OUT.partition("=")[0]
        data = str(broker.data)
        said = barnabas("config", "unset", "--data", data, "--all-brokers", key)
        assert "it was 127.0.0.1:0" in said
        broker.start()
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("t") == 0
        assert broker.stop() == 0
