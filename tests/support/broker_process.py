"""A broker as a user runs it: `barnabas serve` in its own process.

This module imports nothing of the product. It starts the process on a free loopback port and the
caller's data directory, waits until it accepts connections, and ends it by its process id: `stop`
sends SIGTERM, `kill` SIGKILL. The process writes to a file beside its data directory, which
`output()` reads and which is shown if the broker does not start. Its file calls are watched
(`tests.support.guarded_broker`): `take_complaints` returns the calls that are not allowed.

It is forked from a process that has imported the broker already (`tests.support.warm_process`),
which takes a tenth of the time of a start; if that cannot be, it is started by its command.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Self

try:
    from tests.support.patience import Limit, stretch
    from tests.support.warm_process import ForkedProcess, can_fork, warm_process
except ModuleNotFoundError:  # the tests of pipelines/ have a `tests` of their own: see their path
    from patience import Limit, stretch
    from warm_process import ForkedProcess, can_fork, warm_process

ROOT = Path(__file__).resolve().parents[2]
BARNABAS = (sys.executable, "-m", "client.cli")
COMMAND = (sys.executable, "-m", "tests.support.guarded_broker", "serve")
POLL_S = 0.005
PATIENCE_S = 120.0  # for a process on a busy machine
BELOW_THE_PORTS_OF_CLIENTS = range(10_000, 32_000)
PORTS = random.SystemRandom()  # parallel tests draw different ones

# Log lines by which a broker reports that a part of it broke a rule.
COMPLAINTS = (
    "FILE CALL ON THE LOOP",
    "unexpected failure of",
    "answered UNKNOWN_SERVER_ERROR: ",
    "not at rest at the stop",
)
COMPLAINT_LINES = 60
STOP_S = 60.0  # on a busy machine
_watched: list["BrokerProcess"] = []


class BrokerNotReady(Exception):
    """The broker ended, or did not accept in time; carries what it wrote."""


def take_complaints() -> list[str]:
    """Return the complaints of this process's brokers since the last call, with their traces."""
    found = []
    for broker in tuple(_watched):
        found += broker.complaints()
        if not broker.running:
            _watched.remove(broker)
    return found


def free_port() -> int:
    """Return a loopback port that was free a moment ago.

    It is below the range that the kernel gives to clients: a port in that range could become a
    connection's, of this test or a parallel one, before the broker binds it or binds it again.
    """
    while True:
        port = PORTS.choice(BELOW_THE_PORTS_OF_CLIENTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class BrokerProcess:
    """One broker on one data directory; it may be started again after it has ended."""

    host = "127.0.0.1"

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.port = port or free_port()
        self.settings = {"listeners": f"PLAINTEXT://{self.host}:{self.port}", **(settings or {})}
        self.environment = dict(environment or {})
        self.output_path = data.parent / f"{data.name}.output"
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._searched_bytes = 0  # of its output

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.end()
        elif self.running:
            self.kill()

    @property
    def running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self.process is not None, "the broker was never started"
        return self.process.pid

    @property
    def address(self) -> str:
        """host:port, as clients want it."""
        return f"{self.host}:{self.port}"

    def command(self) -> list[str]:
        """The command line, as a user would type it."""
        command = [*COMMAND, "--data", str(self.data)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def start(self, timeout_s: float = PATIENCE_S) -> Self:
        """Start the broker and return when it accepts connections."""
        assert not self.running, "the broker is running already"
        if self not in _watched:
            _watched.append(self)
        with self.output_path.open("ab") as output:
            self.process = self._process(self.command(), output)
        self.wait_until_ready(timeout_s)
        return self

    def _process(
        self, command: list[str], output: BinaryIO
    ) -> subprocess.Popen[bytes] | ForkedProcess:
        environment = {**os.environ, **self.environment}
        if can_fork(command, self.environment):
            with open(os.devnull, "rb") as nothing:
                streams = (nothing.fileno(), output.fileno(), output.fileno())
                return warm_process().start(command, environment, *streams)
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def wait_until_ready(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the broker accepts a connection. Raises BrokerNotReady if it does not.

        `timeout_s` is stretched on a busy machine.
        """
        limit = Limit(timeout_s)
        while True:
            if not self.running:
                code = self.process.returncode if self.process else None
                raise BrokerNotReady(f"the broker ended with {code}:\n{self.output()}")
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
            except OSError as error:
                if limit.is_over:
                    self.kill()
                    raise BrokerNotReady(
                        f"not ready in {timeout_s} s ({error}):\n{self.output()}"
                    ) from None
            else:
                return
            time.sleep(POLL_S)

    def stop(self, timeout_s: float = PATIENCE_S) -> int:
        """Ask the broker to end, wait for it, and return its exit code.

        `timeout_s` is stretched on a busy machine.
        """
        return self.send_signal(signal.SIGTERM).wait(timeout_s * stretch())

    def end(self) -> None:
        """Stop the broker after its test, if it runs, so that it reports what it still holds.

        `take_complaints` returns the report.
        """
        if not self.running:
            return
        try:
            self.stop(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not stop in {STOP_S} s:\n{self.output()}") from None

    def kill(self) -> None:
        """Kill the broker, as a crash would, and wait until the process is gone."""
        self.send_signal(signal.SIGKILL).wait(PATIENCE_S)

    def send_signal(self, number: signal.Signals) -> subprocess.Popen[bytes] | ForkedProcess:
        """Send a signal to the broker by its process id."""
        assert self.process is not None, "the broker was never started"
        self.process.send_signal(number)
        return self.process

    def output(self) -> str:
        """Return everything the broker wrote to stdout and stderr, over all its starts."""
        if not self.output_path.exists():
            return ""
        return self.output_path.read_text(errors="replace")

    def complaints(self) -> list[str]:
        """Return its complaints since the last call, each with the lines of its trace."""
        if not self.output_path.exists():
            return []
        with self.output_path.open("rb") as file:
            file.seek(self._searched_bytes)
            text = file.read()
        self._searched_bytes += len(text)
        lines = text.decode(errors="replace").splitlines()
        return [
            "\n".join(lines[number : number + COMPLAINT_LINES])
            for number, line in enumerate(lines)
            if any(mark in line for mark in COMPLAINTS)
        ]

    def resident_bytes(self) -> int:
        """Return the broker's resident memory in bytes, without mapped files."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no RssAnon in /proc: is this Linux?")

    def cpu_seconds(self) -> float:
        """Return the user and system CPU time that the broker has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptor_count(self) -> int:
        """Return how many file descriptors the broker has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))
