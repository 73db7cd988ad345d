"""Log lines: text for people, JSON for programs, and a limit per second."""

import json
import logging
import re
import time
from pathlib import Path

import pytest

from broker.runtime import log_lines
from broker.runtime.clock import ManualClock


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
        raise ValueError("found 3, expected 4")
    except ValueError:
        logging.getLogger("barnabas.x").exception("line\nbreak %d", 7)
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    parsed = json.loads(line)
    assert parsed["level"] == "ERROR"
    assert parsed["logger"] == "barnabas.x"
    assert parsed["message"] == "line\nbreak 7"
    assert "found 3, expected 4" in parsed["trace"]


@pytest.mark.usefixtures("_restored_logger")
def test_text_lines_carry_level_and_message(capsys: pytest.CaptureFixture[str]) -> None:
    log_lines.configure("text", "WARNING")
    logger = logging.getLogger("barnabas.y")
    logger.info("not this")
    logger.warning("but this")
    out = capsys.readouterr().err
    assert "not this" not in out
    assert "WARNING but this" in out


@pytest.mark.usefixtures("_restored_logger")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_times_in_log_lines_name_their_zone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    log_lines.configure("text")
    logging.getLogger("barnabas.t").info("text")
    log_lines.configure("json")
    logging.getLogger("barnabas.t").info("json")
    monkeypatch.undo()
    time.tzset()
    text, as_json = capsys.readouterr().err.splitlines()
    offset = {"UTC": "+00:00", "Asia/Kolkata": "+05:30"}[zone]
    wanted = r"\d{4}-\d\d-\d\d%s\d\d:\d\d:\d\d\.\d{3}" + re.escape(offset)
    assert re.fullmatch(wanted % " " + " INFO    text", text), text
    assert re.fullmatch(wanted % "T", json.loads(as_json)["time"]), as_json


HOSTILE = "id\n2026-01-01 00:00:00.000 ERROR   forged\r\x1b[2J\u2028\u202e\x85\U000e0001"


@pytest.mark.usefixtures("_restored_logger")
@pytest.mark.parametrize("line_format", ["text", "json"])
def test_client_input_cannot_end_a_log_line_or_control_the_terminal(
    capsys: pytest.CaptureFixture[str], line_format: str
) -> None:
    log_lines.configure(line_format)
    try:
        raise ValueError(f"unknown member {HOSTILE}")
    except ValueError as error:
        logging.getLogger("barnabas.z").warning("of %s: %s", HOSTILE, error, exc_info=error)
    logging.getLogger("barnabas.z").info("printable: é ☃")
    first, *trace, last = capsys.readouterr().err.removesuffix("\n").split("\n")
    for line in (first, *trace, last):
        assert line.isprintable()
    assert "é ☃" in last
    assert first.count("forged") == (5 if line_format == "json" else 2)
    assert all(line.startswith("    ") for line in trace)
    if line_format == "json":
        assert json.loads(first)["message"].count(HOSTILE) == 2
        assert trace == []
    else:
        assert "id\\n2026-01-01 00:00:00.000 ERROR   forged\\r\\x1b[2J\\u2028\\u202e\\x85" in first
        assert trace[0] == "    Traceback (most recent call last):"
        assert "forged" in trace[-1]


@pytest.mark.usefixtures("_restored_logger")
def test_named_arguments_are_fields_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    log_lines.configure("json")
    path = Path("/data/t-0")
    fields = {"topic": "t", "count": 3, "rate": 1.5, "ratio": float("nan"), "path": path}
    logging.getLogger("barnabas.f").info("%(topic)s has %(count)d", fields)
    logging.getLogger("barnabas.f").info("%s has %d", "t", 3)
    named, positional = map(json.loads, capsys.readouterr().err.splitlines())
    assert named["message"] == positional["message"] == "t has 3"
    assert named["template"] == "%(topic)s has %(count)d"
    assert named["fields"] == {**fields, "ratio": "nan", "path": "/data/t-0"}
    assert "fields" not in positional
    assert positional["values"] == ["t", 3]
    assert "values" not in named


@pytest.mark.usefixtures("_restored_logger")
def test_the_level_changes(capsys: pytest.CaptureFixture[str]) -> None:
    log_lines.configure("text")
    log_lines.set_level("DEBUG")
    logging.getLogger("barnabas.l").debug("now seen")
    assert "now seen" in capsys.readouterr().err
