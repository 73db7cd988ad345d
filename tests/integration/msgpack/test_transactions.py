"""Transactions of the asyncio producer on a broker, and the example of docs/transactions.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from client.msgpack.async_transactional_producer import AsyncTransactionalProducer
from client.places import Place
from client.transactions.errors import ProducerFenced
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


async def test_committed_records_and_offsets_are_seen_and_aborted_ones_are_not(broker: Any) -> None:
    address, port = f"127.0.0.1:{broker.msgpack_port}", broker.msgpack_port
    async with AsyncTransactionalProducer(address, "sums") as producer:
        async with producer.transaction():
            await producer.send("sums", b"one")
            await producer.flush()
            assert (read(port, "sums", 0), read(port, "sums", 1)) == ([b"one"], [])
            await producer.send_offsets("adders", {Place("sums", 0): 5})
        assert read(port, "sums", 1) == [b"one"]  # at once: the commit is answered
        assert committed_offset(port, "adders", "sums") == 5

        async def fails() -> None:
            async with producer.transaction():
                await producer.send("sums", b"two")
                await producer.send_offsets("adders", {Place("sums", 0): 9})
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fails()
        async with producer.transaction():
            await producer.send("sums", b"three")
    assert read(port, "sums", 1) == [b"one", b"three"]
    assert committed_offset(port, "adders", "sums") == 5


async def test_the_older_of_two_producers_is_fenced(broker: Any) -> None:
    address = f"127.0.0.1:{broker.msgpack_port}"

    async def write(producer: AsyncTransactionalProducer, value: bytes) -> None:
        async with producer.transaction():
            await producer.send("duel", value)

    async with (
        AsyncTransactionalProducer(address, "duel") as older,
        AsyncTransactionalProducer(address, "duel") as newer,
    ):
        await write(newer, b"new")
        with pytest.raises(ProducerFenced, match="a newer producer has taken over"):
            await write(older, b"old")
        await write(newer, b"newer")
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
