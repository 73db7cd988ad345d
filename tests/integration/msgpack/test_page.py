"""The programs of docs/msgpack.md, exactly as printed, against a broker."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.msgpack_client import MsgpackClient

PAGE = Path(__file__).parents[3] / "docs" / "msgpack.md"


def programs(language: str, port: int) -> list[str]:
    """Return the page's programs in one language, with this broker's port."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert all("9094" in program for program in found)
    return [program.replace("9094", str(port)) for program in found]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_programs_produce_and_consume(broker: Any) -> None:
    producer, consumer = programs("python", broker.msgpack_port)
    for offset in (0, 2):
        said = run([sys.executable, "-W", "ignore", "-c", producer])
        assert said == f"stored at offset {offset}\n"
    lines = run([sys.executable, "-W", "ignore", "-c", consumer]).splitlines()
    assert lines[:2] == ["0 b'k' b'hello' []", "1 None b'world' [['lang', b'en']]"]
    assert len(lines) == 4


def test_the_consumer_skips_deleted_first_records(broker: Any) -> None:
    producer, consumer = (
        program.replace("greetings", "beheaded")
        for program in programs("python", broker.msgpack_port)
    )
    for _ in range(2):
        run([sys.executable, "-W", "ignore", "-c", producer])
    with MsgpackClient(broker.msgpack_port) as client:
        topics = [{"name": "beheaded", "partitions": [{"partition_index": 0, "offset": 3}]}]
        client.ask("delete_records", {"topics": topics, "timeout_ms": 30_000})
    lines = run([sys.executable, "-W", "ignore", "-c", consumer]).splitlines()
    assert lines == ["3 None b'world' [['lang', b'en']]"]


def test_the_producer_reports_a_record_that_was_not_stored(broker: Any) -> None:
    producer, _ = programs("python", broker.msgpack_port)
    command = [sys.executable, "-W", "ignore", "-c", producer.replace('"index": 0', '"index": 9')]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("not stored: error 3, ")


def test_a_program_is_short() -> None:
    for program in programs("python", 9094):
        assert len([line for line in program.splitlines() if line.strip()]) <= 25
