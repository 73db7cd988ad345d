"""The commands produce and consume: lines in, lines out, and invalid lines."""

from __future__ import annotations

import io
import json
import os

import click
import pytest

from client.commands import produce
from client.commands.produce import ProgressBar, Reader, Trouble, lines_of, parse_header, send_lines
from client.commands.reading_places import parse_start
from client.commands.written_records import RecordFormat, written_as
from client.msgpack.delivery import Tally
from client.msgpack.producer import Producer
from client.msgpack.unacknowledged import ProducerSettings
from protocol.records import Record
from tests.support.msgpack_peer import MsgpackPeer
from tests.unit.client.msgpack.test_producer import Script


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
async def test_input_is_split_at_newlines(data, lines):
    assert [line async for line in lines_of(io.BytesIO(data))] == lines


async def test_a_line_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(produce, "LINE_BYTES_MAX", 1_000_000)
    lines = lines_of(io.BytesIO(b"first\n" + bytes(2_000_000)))
    assert await anext(lines) == b"first"
    with pytest.raises(ValueError, match="longer than 1000000 bytes"):
        await anext(lines)


class Acknowledging:
    """A producer with nothing but a tally."""

    def __init__(self):
        self.tally = Tally()


def test_progress_counts_acknowledged_records_not_lines_read():
    producer = Acknowledging()
    progress = ProgressBar("t", 100, producer)
    assert progress.acknowledged_bytes == 0
    for _ in range(10):
        progress.sent(10)
    assert progress.acknowledged_bytes == 0
    producer.tally.acknowledged_count = 5
    assert progress.acknowledged_bytes == 50
    producer.tally.acknowledged_count = 10
    assert progress.acknowledged_bytes == 100


def test_the_reason_of_a_retry_is_printed_once(capsys):
    said = Trouble()
    for reason in ("full", "full", "gone", "full"):
        said(reason)
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "Retrying" not in line] == ["full", "gone", "full"]


async def test_reading_stops_when_the_broker_accepts_no_more(tmp_path):
    brief = ProducerSettings(linger_ms=0, delivery_ms=50, buffer_bytes=200)
    path = tmp_path / "lines"
    path.write_bytes(b"line\n" * 1_000)
    read = Reader(None, [], as_json=False)
    async with (
        MsgpackPeer(Script(*[56] * 999)) as peer,
        Producer(peer.address, settings=brief) as producer,
    ):
        with path.open("rb") as file:
            bad = await send_lines(producer, "t", (file,), read, None)
    assert bad.reason == "the broker takes no more records"
    assert 1 < bad.number < 1_000
    assert producer.tally.acknowledged_count == 0


def test_json_that_is_nested_too_deeply_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="nested too deeply"):
        Reader(None, [], as_json=True).record(b"[" * 100_000)


def test_a_line_becomes_key_and_value():
    read = Reader("::", [("h", b"1")], as_json=False).record
    assert read(b"k::v::w") == {"key": b"k", "value": b"v::w", "headers": [("h", b"1")]}
    with pytest.raises(ValueError, match="no separator"):
        read(b"k:v")


def test_json_out_is_json_in():
    record = Record(4, 99, b"k\xff", None, (("h", b"1"), ("n", None)))
    line = RecordFormat("json", "t", b"").line(2, record)
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
     b'{"value": {"base64": "?"}}', b'{"value": 1, "partition": true}', b"\xff",
     b'{"value": NaN}', b'{"value": {"a": [-Infinity]}}'],
)  # fmt: skip
def test_an_invalid_record_is_refused(line):
    with pytest.raises(ValueError):
        Reader(None, [], as_json=True).record(line)


@pytest.mark.parametrize("number", ["1e999", "-1e400", "0.12345678901234567890", "1e-400"])
def test_a_number_that_no_float_is_equal_to_is_refused(number):
    """Else the record would have another number than the line."""
    line = b'{"value": {"price": [%s]}}' % number.encode()
    with pytest.raises(ValueError, match=f"^the number {number} would be altered: write it"):
        Reader(None, [], as_json=True).record(line)


def test_other_numbers_are_in_the_record_as_in_the_line():
    value = b"[0.1, 1e+22, -0.0, 123456789012345678901234567890, 1.7976931348623157e+308]"
    line = b'{"value": %s}' % value
    assert Reader(None, [], as_json=True).record(line)["value"] == value


@pytest.mark.parametrize(
    ("shape", "line"), [("value", b"v\n"), ("key-value", b"k=v\n"), ("raw", b"v")]
)
def test_formats(shape, line):
    assert RecordFormat(shape, "t", b"=").line(0, Record(0, 0, b"k", b"v")) == line


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


def test_an_invalid_position_or_header_is_a_usage_error():
    for call in (lambda: parse_start("soon", None), lambda: parse_header("x")):
        with pytest.raises(click.UsageError):
            call()


@pytest.mark.parametrize("value", [5, None, ["YQ=="], {}])
def test_base64_that_is_no_text_is_refused_in_one_sentence(value):
    line = json.dumps({"value": {"base64": value}}).encode()
    with pytest.raises(ValueError, match="base64 is not a text"):
        Reader(None, [], as_json=True).record(line)


def test_bytes_of_the_command_line_that_are_no_text_are_sent_and_written_as_they_are():
    word = os.fsdecode(b"\xff|")
    assert parse_header(f"h={word}") == ("h", b"\xff|")
    read = Reader(word, [], as_json=False).record(b"k\xff|v")
    assert (read["key"], read["value"]) == (b"k", b"v")
    record = Record(0, 1, b"k", b"v", ())
    assert written_as("key-value", "t", word).line(0, record) == b"k\xff|v\n"
    assert written_as(f"%k{word}%s", "t", "").line(0, record) == b"k\xff|v\n"
