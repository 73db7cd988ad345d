"""`barnabas produce` when it is ended: the topic holds as many records as it says it stored."""

import json
import re
import signal
import subprocess
import time
from typing import Any

import pytest

from tests.support.two_dialects import TwoDialects, command, run

DEADLINE_S = 240


@pytest.fixture
def broker(tmp_path: Any) -> Any:
    with TwoDialects(tmp_path / "data") as running:
        yield running
        assert running.stop() == 0


def stored(broker: TwoDialects, topic: str) -> int:
    (found,) = json.loads(run(broker, "topics", "describe", topic, "--json"))
    return int(sum(one["end_offset"] for one in found["partitions"]))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_reading_and_the_lines_read_are_counted(
    broker: TwoDialects, number: signal.Signals, code: int
) -> None:
    run(broker, "topics", "create", "words")
    with command(broker, "produce", "words", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"word\n" * 9_399)
        process.stdin.flush()  # stdin stays open: the next line never comes
        until = time.monotonic() + DEADLINE_S
        while not stored(broker, "words"):
            assert time.monotonic() < until, "nothing was stored"
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == code
        told = process.stderr.read().decode()
    wanted = r"(\d+) records acknowledged; the input after that was not read\.\n"
    counted = re.fullmatch(wanted, told)
    assert counted is not None, told
    assert int(counted[1]) == stored(broker, "words")
