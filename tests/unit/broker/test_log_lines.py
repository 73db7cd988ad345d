"""Log lines: text for people, JSON for programs, and no flood."""

import json
import logging

import pytest

from broker import log_lines
from broker.clock import ManualClock


def test_rate_limiter_counts_what_it_drops() -> None:
    clock = ManualClock()
    limiter = log_lines.RateLimiter(clock, per_second_max=2)
    assert [limiter.allow() for _ in range(5)] == [0, 0, None, None, None]
    clock.advance(1_000)
    assert limiter.allow() == 3
    assert limiter.allow() == 0


@pytest.fixture
def _restored_logger():
    root = logging.getLogger("barnabas")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])


@pytest.mark.usefixtures("_restored_logger")
def test_json_lines_are_one_object_each(capsys: pytest.CaptureFixture[str]) -> None:
    log_lines.configure("json")
    try:
        raise ValueError("found 3, wanted 4")
    except ValueError:
        logging.getLogger("barnabas.x").exception("line\nbreak %d", 7)
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    parsed = json.loads(line)
    assert parsed["level"] == "ERROR"
    assert parsed["logger"] == "barnabas.x"
    assert parsed["message"] == "line\nbreak 7"
    assert "found 3, wanted 4" in parsed["trace"]


@pytest.mark.usefixtures("_restored_logger")
def test_text_lines_carry_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    log_lines.configure("text", "WARNING")
    logger = logging.getLogger("barnabas.y")
    logger.info("not this")
    logger.warning("but this")
    out = capsys.readouterr().err
    assert "not this" not in out
    assert "WARNING but this" in out
