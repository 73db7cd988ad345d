"""A broker as a user runs it: `barnabas serve` in a process of its own.

Nothing of the product is imported here. The process is started on a free port of loopback and a
data directory of the caller's, awaited until it accepts, and ended by its process id:
`stop` asks (SIGTERM), `kill` does not (SIGKILL). What it writes goes to a file beside its data
directory, which `output()` reads and which is shown when it does not start.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "client.cli", "serve")
POLL_S = 0.005


class BrokerNotReady(Exception):
    """The broker ended, or did not accept in time; carries what it wrote."""


def free_port() -> int:
    """Return a port of loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.running:
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

    def start(self, timeout_s: float = 20.0) -> Self:
        """Start the broker and return when it accepts connections."""
        assert not self.running, "the broker is running already"
        with self.output_path.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.wait_until_ready(timeout_s)
        return self

    def wait_until_ready(self, timeout_s: float = 20.0) -> None:
        """Return when the broker accepts a connection; BrokerNotReady when it will not."""
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.running:
                code = self.process.returncode if self.process else None
                raise BrokerNotReady(f"the broker ended with {code}:\n{self.output()}")
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
            except OSError as error:
                if time.monotonic() > deadline:
                    self.kill()
                    raise BrokerNotReady(
                        f"not ready in {timeout_s} s ({error}):\n{self.output()}"
                    ) from None
            else:
                return
            time.sleep(POLL_S)

    def stop(self, timeout_s: float = 20.0) -> int:
        """Ask the broker to end, wait for it, and return its exit code."""
        return self.send_signal(signal.SIGTERM).wait(timeout_s)

    def kill(self) -> None:
        """End the broker as a crash would, and wait until it is gone."""
        self.send_signal(signal.SIGKILL).wait(20)

    def send_signal(self, number: signal.Signals) -> subprocess.Popen[bytes]:
        """Send a signal to the broker by its process id."""
        assert self.process is not None, "the broker was never started"
        self.process.send_signal(number)
        return self.process

    def output(self) -> str:
        """All that the broker has written to stdout and stderr, over all its starts."""
        if not self.output_path.exists():
            return ""
        return self.output_path.read_text(errors="replace")

    def resident_bytes(self) -> int:
        """The memory the broker has in RAM without the files it has mapped."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no RssAnon in /proc: is this Linux?")

    def cpu_seconds(self) -> float:
        """The processor time, user and system, that the broker has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptor_count(self) -> int:
        """How many file descriptors the broker has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))
