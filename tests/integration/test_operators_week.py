"""Trimming, configs of groups, what differs from the defaults, and completion, on a real broker."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support import warm_process
from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess
from tests.support.raw_batches import batch
from tests.support.raw_client import RawClient

TOPIC = "trimmed"


class FileBroker(BrokerProcess):
    """A broker with a properties file."""

    def command(self) -> list[str]:
        return [*super().command(), "--config", str(self.data.parent / "server.properties")]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileBroker]:
    folder = tmp_path_factory.mktemp("week")
    (folder / "server.properties").write_text("\nlog.retention.ms=1234567\nnum.io.threads=8\n")
    settings = {"barnabas.http.listener": "", "num.partitions": "2"}
    environment = {"KAFKA_MESSAGE_MAX_BYTES": "999999"}
    with FileBroker(folder / "data", settings, environment=environment) as made:
        yield made


# As the installed command is called, whose name completion goes by.
COMMAND = (sys.executable, "-c", "from client.cli import main; main(prog_name='barnabas')")


def installed(broker: BrokerProcess, *words: str, **more: str) -> str:
    done = subprocess.run(
        [*COMMAND, *words], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "BARNABAS_BOOTSTRAP": broker.address, **more},
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def run(broker: BrokerProcess, *words: str, code: int = 0, **more: str) -> str:
    environment = {**os.environ, "BARNABAS_BOOTSTRAP": broker.address, **more}
    done = warm_process.run([*BARNABAS, *words], environment=environment)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout.decode()


def test_each_value_is_traced_to_where_it_was_given(broker: FileBroker) -> None:
    run(broker, "config", "set", "--all-brokers", "log.segment.bytes=2MiB")
    rows = {one["key"]: one for one in json.loads(run(broker, "config", "diff", "--json"))}
    file = broker.data.parent / "server.properties"
    assert {key: rows[key]["from"] for key in rows if key != "log.dirs"} == {
        "barnabas.http.listener": "command line, --set",
        "listeners": "command line, --set",
        "num.partitions": "command line, --set",
        "message.max.bytes": "environment, KAFKA_MESSAGE_MAX_BYTES",
        "log.retention.ms": f"file, {file}:2",
        "log.segment.bytes": "all brokers, dynamic",
    }
    assert rows["log.segment.bytes"]["value"] == "2097152"
    assert rows["num.partitions"]["default"] == "1"


def test_the_oldest_records_are_trimmed(broker: FileBroker) -> None:
    run(broker, "topics", "create", TOPIC, "--config", "retention.ms=7d")
    diff = json.loads(run(broker, "config", "diff", "--topic", TOPIC, "--json"))
    assert ("retention.ms", "604800000", "topic") in [
        (one["key"], one["value"], one["from"]) for one in diff
    ]
    with RawClient(broker.host, broker.port) as client:
        for timestamp in (1_000, 2_000_000, 3_000_000):
            assert client.produce(TOPIC, batch([b"a", b"b"], timestamp=timestamp)).error == 0
    would = run(broker, "topics", "trim", TOPIC, "--before", "2000000", "--dry-run")
    assert "about 2 records of trimmed-0: offsets 0 to 2 of 6" in would
    run(broker, "topics", "trim", TOPIC, "--before", "2000000", code=2)  # nobody can be asked
    run(broker, "topics", "trim", TOPIC, "--before", "2000000", "--yes")
    found = json.loads(run(broker, "topics", "trim", TOPIC, "--to-offset", "3", "--yes", "--json"))
    assert [(one["start"], one["to"]) for one in found["partitions"]] == [(2, 3), (0, 0)]
    run(broker, "topics", "trim", TOPIC, "--older-than", "1d", "--yes")
    found = json.loads(run(broker, "topics", "describe", TOPIC, "--json"))
    assert '"start_offset": 6' in json.dumps(found)
    run(broker, "topics", "trim", TOPIC, "--all", "--to-offset", "3", code=2)


def test_a_group_is_configured(broker: FileBroker) -> None:
    key = "consumer.session.timeout.ms"
    run(broker, "groups", "config", "g", f"{key}=46s", "--dry-run")
    assert _settings(broker)[key][1] != "group"
    run(broker, "groups", "config", "g", f"{key}=46s")
    assert _settings(broker)[key] == ("46000", "group")
    run(broker, "groups", "config", "g", "--unset", key)
    assert _settings(broker)[key][1] != "group"
    run(broker, "groups", "config", "g", "consumer.sesion.timeout.ms=1", code=1)


def _settings(broker: BrokerProcess) -> dict[str, tuple[str, str]]:
    found = json.loads(run(broker, "groups", "config", "g", "--json"))
    return {one["key"]: (one["value"], one["source"]) for one in found["settings"]}


def completed(broker: BrokerProcess, *words: str) -> list[str]:
    more = {"COMP_WORDS": " ".join(["barnabas", *words]), "COMP_CWORD": str(len(words))}
    said = installed(broker, _BARNABAS_COMPLETE="bash_complete", **more)
    return [line.partition(",")[2] for line in said.splitlines()]


def test_topics_groups_and_keys_are_completed(broker: FileBroker) -> None:
    run(broker, "topics", "create", "completed-topic")
    assert completed(broker, "topics", "describe", "comp") == ["completed-topic"]
    assert completed(broker, "consume", "comp") == ["completed-topic"]
    keys = completed(broker, "config", "set", "--topic", "x", "retention.")
    assert keys == ["retention.bytes=", "retention.ms="]
    assert "unit" in completed(broker, "un")
    assert "_BARNABAS_COMPLETE=bash_complete" in installed(broker, "completion", "bash")
    gone = {"BARNABAS_BOOTSTRAP": "127.0.0.1:1", "COMP_WORDS": "barnabas consume c"}
    assert installed(broker, _BARNABAS_COMPLETE="bash_complete", COMP_CWORD="2", **gone) == "\n"
