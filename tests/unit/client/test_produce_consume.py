"""The commands produce and consume: lines in, lines out, and what is no such line."""

from __future__ import annotations

import io

import click
import pytest

from client.commands.consume import Show, parse_start
from client.commands.produce import Reader, lines_of, parse_header
from protocol.records import Record


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"\r\n", [b"\r"]),
        (b"x" * 700_000 + b"\ny\n", [b"x" * 700_000, b"y"]),
    ],
)
async def test_lines_are_what_stands_between_newlines(data, lines):
    assert [line async for line in lines_of(io.BytesIO(data))] == lines


def test_a_line_becomes_key_and_value():
    read = Reader("::", [("h", b"1")], as_json=False).record
    assert read(b"k::v::w") == {"key": b"k", "value": b"v::w", "headers": [("h", b"1")]}
    with pytest.raises(ValueError, match="no separator"):
        read(b"k:v")


def test_json_out_is_json_in():
    record = Record(4, 99, b"k\xff", None, (("h", b"1"), ("n", None)))
    line = Show("json", "t", b"").line(2, record)
    assert Reader(None, [], as_json=True).record(line) == {
        "key": b"k\xff",
        "value": None,
        "headers": [("h", b"1"), ("n", None)],
        "timestamp_ms": 99,
        "partition": 2,
    }


@pytest.mark.parametrize(
    "line",
    [b"", b"5", b"{}", b'{"value": 1, "timestamp": "now"}', b'{"value": 1, "headers": {"a": 1}}',
     b'{"value": 1, "headers": [["\\ud800", null]]}', b'{"value": "\\ud800"}',
     b'{"value": {"base64": "?"}}', b'{"value": 1, "partition": true}', b"\xff"],
)  # fmt: skip
def test_what_is_no_record_is_refused(line):
    with pytest.raises(ValueError):
        Reader(None, [], as_json=True).record(line)


@pytest.mark.parametrize(
    ("shape", "line"), [("value", b"v\n"), ("key-value", b"k=v\n"), ("raw", b"v")]
)
def test_formats(shape, line):
    assert Show(shape, "t", b"=").line(0, Record(0, 0, b"k", b"v")) == line


@pytest.mark.parametrize(
    ("start", "time", "place"),
    [
        ("beginning", None, ("time", -2)),
        ("end", None, ("time", -1)),
        ("42", None, ("offset", 42)),
        ("1970-01-01T00:00:01Z", None, ("time", 1_000)),
        ("beginning", "42", ("time", 42)),
    ],
)
def test_where_to_start(start, time, place):
    assert parse_start(start, time) == place


def test_what_is_no_place_or_header_is_a_usage_error():
    for call in (lambda: parse_start("soon", None), lambda: parse_header("x")):
        with pytest.raises(click.UsageError):
            call()
