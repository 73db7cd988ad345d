"""A broker process with a listener of each dialect, and the product's commands against it."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import warm_process
from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess, free_port

WAIT_S = 240  # for a busy machine; a correct run takes seconds


class TwoDialects(BrokerProcess):
    """A broker whose `msgpack` is the address of its other listener."""

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(data, settings)
        self.msgpack = f"{self.host}:{free_port()}"
        self.settings["listeners"] += f",MSGPACK://{self.msgpack}"


def where(broker: TwoDialects) -> dict[str, str]:
    """Return the variables by which commands find the broker."""
    return {
        "BARNABAS_BOOTSTRAP": broker.address,
        "BARNABAS_MSGPACK_BOOTSTRAP": broker.msgpack,
    }


def command(broker: TwoDialects, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    """Start a `barnabas` command against the broker."""
    environment = {**os.environ, **where(broker)}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen([*BARNABAS, *arguments], cwd=ROOT, env=environment, **streams)


def run(broker: TwoDialects, *arguments: str, data: bytes = b"") -> bytes:
    """Run a command to its end and return what it wrote."""
    environment = {**os.environ, **where(broker)}
    done = warm_process.run([*BARNABAS, *arguments], given=data, environment=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
