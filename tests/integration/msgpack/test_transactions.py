"""Transactions of the asyncio producer on a broker, and the example of docs/transactions.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.msgpack_client import MsgpackClient

ROOT = Path(__file__).parents[3]


def read(port: int, topic: str, isolation: int) -> list[bytes]:
    """Return the values in a topic's first partition that a consumer sees at an isolation level."""
    with MsgpackClient(port) as client:
        (found,) = client.ask("metadata", {"topics": [{"name": topic}]})["topics"]
        asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        answer = client.ask(
            "fetch",
            {
                "max_wait_ms": 0,
                "min_bytes": 0,
                "isolation_level": isolation,
                "topics": [{"topic_id": found["topic_id"], "partitions": [asked]}],
            },
        )
    (partition,) = answer["responses"][0]["partitions"]
    assert partition["error_code"] == 0
    return [record["value"] for record in partition["records"]]


def committed_offset(port: int, group: str, topic: str) -> int:
    with MsgpackClient(port) as client:
        (found,) = client.ask("metadata", {"topics": [{"name": topic}]})["topics"]
        topics = [{"topic_id": found["topic_id"], "partition_indexes": [0]}]
        body = {"groups": [{"group_id": group, "topics": topics}], "require_stable": True}
        (answer,) = client.ask("offset_fetch", body)["groups"]
    (partition,) = answer["topics"][0]["partitions"]
    offset: int = partition["committed_offset"]
    return offset


def start(name: str, port: int) -> subprocess.Popen[str]:
    """Run a program of `async_transactions`."""
    command = [sys.executable, "-m", "tests.support.async_transactions", name, f"127.0.0.1:{port}"]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_committed_records_and_offsets_are_seen_and_aborted_ones_are_not(broker: Any) -> None:
    port = broker.msgpack_port
    with start("sums", port) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "written\n"
        assert (read(port, "sums", 0), read(port, "sums", 1)) == ([b"one"], [])
        program.communicate("\n", timeout=120)
    assert program.returncode == 0
    assert read(port, "sums", 1) == [b"one", b"three"]
    assert committed_offset(port, "adders", "sums") == 5


def test_the_older_of_two_producers_is_fenced(broker: Any) -> None:
    with start("duel", broker.msgpack_port) as program:
        said, _ = program.communicate(timeout=120)
    assert program.returncode == 0
    assert said.startswith("ProducerFenced: a newer producer has taken over")
    assert read(broker.msgpack_port, "duel", 1) == [b"new", b"newer"]


def test_the_example_of_the_page_runs(broker: Any) -> None:
    page = (ROOT / "docs" / "transactions.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    (example,) = [one for one in examples if "import asyncio" in one]
    program = example.replace("9094", str(broker.msgpack_port))
    with MsgpackClient(broker.msgpack_port) as client:
        client.ask("metadata", {"topics": [{"name": "orders"}]})
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert read(broker.msgpack_port, "invoices", 1) == [b"12 EUR"]
    assert committed_offset(broker.msgpack_port, "billing", "orders") == 17
