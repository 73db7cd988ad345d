"""Distributed workers of Kafka Connect, with exactly-once sources, and their REST API.

A `Worker` is one process on loopback, with our connector `Counting` (`programs/java`) beside
Kafka's own jars; `build` compiles that. Workers with the same broker are one cluster. The REST API
is asked until the worker can answer: it says 409 during a rebalance, 404 or 500 while it starts.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from tests.interop.oracle.kafka import free_ports, java, libs

SOURCE: Final = Path(__file__).parent / "programs" / "java" / "Counting.java"
CONNECTOR: Final = "Counting"
GROUP: Final = "connect"
SESSION_MS: Final = 2_000  # a killed worker is a member for so long; the broker must allow it
PATIENCE_S: Final = 120.0
ANSWER_S: Final = 30
POLL_S: Final = 0.05
FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
SETTINGS: Final = {
    "group.id": GROUP,
    "exactly.once.source.support": "enabled",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "service_load",
    "session.timeout.ms": str(SESSION_MS),
    "heartbeat.interval.ms": "500",
    "rebalance.timeout.ms": "10000",
    "scheduled.rebalance.max.delay.ms": "0",
    "task.shutdown.graceful.timeout.ms": "2000",
}


def transactional_id(connector: str, task: int) -> str:
    """Return the transactional id that Connect gives to a task's producer."""
    return f"{GROUP}-{connector}-{task}"


def build(plugins: Path) -> None:
    """Compile the connector into a directory of plugins; needs javac and Kafka's jars."""
    directory = plugins / "counting"
    services = directory / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.kafka.connect.source.SourceConnector").write_text(f"{CONNECTOR}\n")
    compiler = shutil.which("javac")
    assert compiler, "needs javac (a JDK, 17 or later) on the PATH"
    command = [compiler, "-proc:none", "-cp", f"{libs()}/*", "-d", str(directory), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)


class Worker:
    """One worker; it may be started again after it has ended."""

    def __init__(self, directory: Path, plugins: Path, broker: str) -> None:
        directory.mkdir()
        (port,) = free_ports(1)
        self.worker_id = f"127.0.0.1:{port}"
        self.address = f"http://{self.worker_id}"
        self._output_path = directory / "output"
        self._properties = directory / "worker.properties"
        settings = {
            **SETTINGS,
            "bootstrap.servers": broker,
            "listeners": self.address,
            "plugin.path": str(plugins),
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start the process, and return at once."""
        command = java(
            "org.apache.kafka.connect.cli.ConnectDistributed", str(self._properties), flags=FLAGS
        )
        with self._output_path.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal by its process id."""
        assert self._process is not None, "the worker was never started"
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it, as a crash would, and wait until it is gone."""
        self.send_signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(PATIENCE_S)

    def end(self) -> None:
        """Kill it after its test, if it runs."""
        if self.running:
            self.kill()

    def output(self) -> str:
        """Return everything that it wrote, over all its starts."""
        return self._output_path.read_text(errors="replace")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of the REST API, asked again until it is a good one."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._asked(method, path, body)
            except (urllib.error.URLError, OSError) as error:
                said = error.read().decode() if isinstance(error, urllib.error.HTTPError) else error
                assert self.running, f"the worker has ended: {self.output()[-3000:]}"
                assert time.monotonic() < deadline, f"{method} {path}: {said}"
            time.sleep(POLL_S)

    def _asked(self, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            self.address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
            text = answer.read()
        return json.loads(text) if text else None
