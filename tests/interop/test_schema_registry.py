"""A schema registry that keeps its schemas in a topic, with an Avro producer and consumer.

The registry is Karapace, which no package index has: BARNABAS_KARAPACE names a checkout with an
environment `env` in it (docs/conformance.md, "A schema registry"). Its instances elect a master as
a group of their own protocol, and it reads its compacted topic at each start. With
BARNABAS_TEST_AGAINST=kafka the broker is an Apache Kafka.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.under_test import broker_on

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        "BARNABAS_KARAPACE" not in os.environ or "BARNABAS_NEIGHBOURS" not in os.environ,
        reason="BARNABAS_KARAPACE and BARNABAS_NEIGHBOURS name no checkout of Karapace and no"
        " directory with Python's neighbours (docs/conformance.md)",
    ),
]

PROGRAM = Path(__file__).parent / "programs" / "python" / "avro_orders.py"
PATIENCE_S = 240.0
ID = {"name": "id", "type": "int"}
CUSTOMER = {"name": "customer", "type": "string", "default": "none"}


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return json.load(answer)


@contextmanager
def registry(address: str, port: int, directory: Path) -> Iterator[str]:
    """Run Karapace until the end, which kills it; return its URL once it is the master."""
    home = Path(os.environ["BARNABAS_KARAPACE"])
    settings = {
        "BOOTSTRAP_URI": address, "PORT": str(port), "HOST": "127.0.0.1", "LOG_LEVEL": "WARNING",
        "ADVERTISED_HOSTNAME": "127.0.0.1", "KARAPACE_REGISTRY": "true", "REPLICATION_FACTOR": "1",
    }  # fmt: skip
    with (directory / "karapace.log").open("ab") as output:
        process = subprocess.Popen(
            [home / "env/bin/python", "-m", "karapace"], cwd=home, stdout=output, stderr=output,
            env={**os.environ, "PYTHONPATH": str(home / "src")}
            | {f"KARAPACE_{key}": value for key, value in settings.items()},
        )  # fmt: skip
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE_S
    try:
        while True:
            assert process.poll() is None, (directory / "karapace.log").read_text()[-5_000:]
            assert time.monotonic() < deadline, "Karapace is not ready"
            try:
                if asked(f"{url}/master_available")["master_available"]:
                    break
            except OSError:
                pass
            time.sleep(0.2)
        yield url
    finally:
        process.kill()
        process.wait()


def orders(broker: str, url: str, *words: object) -> subprocess.CompletedProcess[str]:
    environment = {"BROKER": broker, "REGISTRY": url}
    return subprocess.run(
        [sys.executable, PROGRAM, *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.environ["BARNABAS_NEIGHBOURS"], **environment},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip


def test_a_registry_keeps_its_schemas_over_its_own_kill_and_the_brokers(tmp_path: Path) -> None:
    broker = broker_on(tmp_path / "broker")
    broker.start()
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    try:
        address = broker.address
        with registry(address, port, tmp_path) as url:
            done = orders(address, url, "write", json.dumps([ID]), 0, 100)
            assert done.returncode == 0, done.stderr
        broker.kill()
        broker.start()
        address = broker.address
        with registry(address, port, tmp_path) as url:
            assert asked(f"{url}/subjects") == ["orders-value"]
            refused = orders(address, url, "write", json.dumps([ID | {"type": "string"}]), 0, 1)
            assert "Incompatible schema" in refused.stderr
            done = orders(address, url, "write", json.dumps([ID, CUSTOMER]), 100, 1)
            assert done.returncode == 0, done.stderr
            assert asked(f"{url}/subjects/orders-value/versions") == [1, 2]
            done = orders(address, url, "read", 101)
            assert done.returncode == 0, done.stderr
        wanted = [{"id": number} for number in range(100)] + [{"id": 100, "customer": "ann"}]
        assert json.loads(done.stdout) == wanted
    finally:
        broker.kill()
