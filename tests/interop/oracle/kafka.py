"""Apache Kafka 4.3 as an oracle: its jars, its tools, and one broker of it in KRaft mode.

Owns: finding or fetching the jars (`pom.xml` beside this file, copied by Maven into `.oracle/libs`
of the checkout, or whatever directory BARNABAS_ORACLE_LIBS names), running one of Kafka's tools as
a process, and the life of one broker: format, start, stop, kill. Everything listens on loopback.

Does not: check anything. Tests and benchmarks do that with what they find here. Where java, or the
jars and mvn, are missing, `libs()` raises `OracleMissingError` with what to install; a test that it
ends is skipped with that text (tests/interop/conftest.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[2]
LIBS_VARIABLE = "BARNABAS_ORACLE_LIBS"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
# The flags of bin/kafka-run-class.sh and bin/kafka-server-start.sh, Kafka 4.3.
JVM_FLAGS = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)  # fmt: skip


class OracleMissingError(Exception):
    """Apache Kafka cannot be run on this machine; the text says what is missing."""


def libs() -> Path:
    """Return the directory of Kafka's jars; Maven downloads them the first time.

    Raises OracleMissingError if there is no java, or no jars and no mvn to download them.
    """
    named = os.environ.get(LIBS_VARIABLE)
    if named is None:
        return _fetched("libs", HERE / "pom.xml", "kafka_2.13-*.jar")
    _need_java()
    if not any(Path(named).glob("kafka_2.13-*.jar")):
        raise OracleMissingError(f"{LIBS_VARIABLE}={named} holds no kafka_2.13-*.jar")
    return Path(named)


def older_clients() -> Path:
    """Return the directory of the Java client 3.9, which knows version 1 of transactions only.

    As `libs`, but always from Maven.
    """
    pom = HERE / "clients-3.9" / "pom.xml"
    return _fetched("clients-3.9", pom, "kafka-clients-3.9.*.jar")


def neighbour(name: str, pattern: str) -> Path:
    """Return the directory of the jars that `name`/pom.xml beside this file lists.

    One matches the pattern. As `libs`, but always from Maven.
    """
    return _fetched(name, HERE / name / "pom.xml", pattern)


def need_javac() -> None:
    """Raise OracleMissingError if there is no compiler of Java."""
    if shutil.which("javac") is None:
        raise OracleMissingError("needs javac (a JDK, 17 or later) on the PATH")


def _need_java() -> None:
    if shutil.which("java") is None:
        raise OracleMissingError("Apache Kafka needs java (17 or later) on the PATH")


def _fetched(name: str, pom: Path, pattern: str) -> Path:
    _need_java()
    directory = CHECKOUT / ".oracle" / name
    directory.parent.mkdir(exist_ok=True)
    with (directory.parent / f"{name}.lock").open("w") as lock:  # others may fetch them, too
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any(directory.glob(pattern)):
            return directory
        if shutil.which("mvn") is None:
            raise OracleMissingError(f"{pattern} needs mvn on the PATH, or {LIBS_VARIABLE}")
        done = subprocess.run(
            [
                *("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"),
                f"-DoutputDirectory={directory}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not any(directory.glob(pattern)):
            raise OracleMissingError(
                f"mvn could not fetch {pattern}: {(done.stdout + done.stderr)[-500:]}"
            )
    return directory


def java(
    class_name: str,
    *arguments: str,
    flags: Sequence[str] = (),
    plugins: Path | None = None,
    jars: Path | None = None,
) -> list[str]:
    """Return the command line that runs a class of Kafka's jars, with `plugins` beside them.

    `jars`: another directory of jars than Kafka's.
    """
    logging = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
    among = f"{jars or libs()}/*"
    if plugins is not None:
        among = f"{plugins}:{among}"
    return ["java", *flags, logging, "-cp", among, class_name, *arguments]


def tool(
    class_name: str,
    *arguments: str,
    stdin: bytes | None = None,
    timeout_seconds: float = 120,
    flags: Sequence[str] = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
) -> subprocess.CompletedProcess[bytes]:
    """Run one of Kafka's tools to its end; the caller judges exit code and output."""
    return subprocess.run(
        java(class_name, *arguments, flags=flags),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=timeout_seconds,
        check=False,
    )


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that were free a moment ago, without duplicates.

    They are below the kernel's range for client ports, which another test may be using.
    """
    found: set[int] = set()
    while len(found) < count:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return sorted(found)


class KafkaNode:
    """One broker-and-controller on a directory: format if new, start, stop, kill, restart."""

    host = "127.0.0.1"

    def __init__(
        self, directory: Path, *, settings: Mapping[str, str] | None = None, node_id: int = 1
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.output_path = directory / "kafka.out"
        self.process: subprocess.Popen[bytes] | None = None
        self.plugins: Path | None = None  # a directory of classes that the broker finds
        self._settings = dict(settings or {})
        self._node_id = node_id
        directory.mkdir(parents=True, exist_ok=True)
        self.port, self._controller_port = free_ports(2)

    @property
    def address(self) -> str:
        """host:port, for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The JVM's process id."""
        assert self.process is not None, "not started"
        return self.process.pid

    def add_listeners(self, listeners: str) -> None:
        """Open more listeners; the settings must map their names to protocols."""
        controller = f"CONTROLLER://127.0.0.1:{self._controller_port}"
        self._settings["listeners"] = f"PLAINTEXT://{self.address},{listeners},{controller}"

    def prepare(self) -> list[str]:
        """Format the data directory if it is new; return the command line of the broker."""
        properties = self._write_properties()
        if not (self.data / "meta.properties").exists():
            done = tool(
                "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)
            )
            if done.returncode != 0:
                raise RuntimeError(f"Kafka did not format {self.data}: {done.stderr.decode()}")
        return java("kafka.Kafka", str(properties), flags=JVM_FLAGS, plugins=self.plugins)

    def launch(self) -> None:
        """Start the process and return at once."""
        command = self.prepare()
        with self.output_path.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def start(self, timeout_seconds: float = 180) -> None:
        """Launch and wait until the port takes connections."""
        self.launch()
        assert self.process is not None
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        self.kill()
        raise RuntimeError(f"Kafka did not start: {self.output()[-2000:]}")

    def stop(self, timeout_seconds: float = 60) -> int:
        """Stop cleanly (SIGTERM) and return the exit code."""
        return self._end(signal.SIGTERM, timeout_seconds)

    def kill(self) -> int:
        """Kill it, as a crash would (SIGKILL)."""
        return self._end(signal.SIGKILL, 10)

    def end(self) -> None:
        """Stop it if it is running, at the end of a test."""
        if self.running:
            self.stop()

    def output(self) -> str:
        """Return the output of this broker on stdout and stderr, over all its starts."""
        return self.output_path.read_text(errors="replace") if self.output_path.exists() else ""

    def _end(self, signal_number: int, timeout_seconds: float) -> int:
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(signal_number)
        try:
            return process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait(10)

    def _write_properties(self) -> Path:
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(self._node_id),
            "controller.quorum.voters": f"{self._node_id}@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.address},"
            f"CONTROLLER://127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path


def errors_in(output: str) -> list[str]:
    """Return a broker's error lines about its input.

    Not those about the machine (what was slow was done), nor those of a coordinator that was
    still loading when it was asked to stop.
    """
    lines = [line for line in output.splitlines() if "[ERROR]" in line]
    harmless = ("EventPerformanceMonitor", "due to Stopped loading records from")
    return [line for line in lines if not any(words in line for words in harmless)]
