"""The programs of docs/msgpack.md, as they stand there, against a broker."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "msgpack.md"


def programs(language: str, port: int) -> list[str]:
    """The page's programs in one language, for this broker's port."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert all("9094" in program for program in found)
    return [program.replace("9094", str(port)) for program in found]


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_programs_produce_and_consume(broker: Any) -> None:
    producer, consumer = programs("python", broker.msgpack_port)
    for offset in (0, 2):
        said = run([sys.executable, "-W", "ignore", "-c", producer])
        assert said == f"stored at offset {offset} error 0\n"
    lines = run([sys.executable, "-W", "ignore", "-c", consumer]).splitlines()
    assert lines[:2] == ["0 b'k' b'hello' []", "1 None b'world' [['lang', b'en']]"]
    assert len(lines) == 4


def test_a_program_is_short() -> None:
    for program in programs("python", 9094):
        assert len([line for line in program.splitlines() if line.strip()]) <= 25
