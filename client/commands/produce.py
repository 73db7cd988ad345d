"""`barnabas produce`: send lines, from standard input or files, as records.

A line is a record's value; with `--key-separator` the text before the separator is the key; with
`--json` a line is an object of key, value, headers, timestamp and partition, as `barnabas consume
--json` writes it. On a terminal, `rich` shows how much of the files is acknowledged.

Ctrl-C and SIGTERM stop the reading: what was read is still sent, and its answers are awaited for at
most --timeout. Why a record is not acknowledged yet is reported as soon as it is known.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import IO, Any, Final, NamedTuple, Self

import click

from client.commands.careful_command import CarefulCommand
from client.commands.completing import topic_names
from client.commands.detached import detached
from client.commands.output import INT32_MAX, fail, in_its_dialect, record_options
from client.commands.running import run_to_end

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ACKS: Final = {"0": 0, "1": 1, "all": -1}
READ_BYTES: Final = 256 * 1024
LINE_BYTES_MAX: Final = 256 * 1024 * 1024  # no broker takes such a record; memory is bounded


@click.command(cls=CarefulCommand)
@click.argument("topic", shell_complete=topic_names)
@click.argument("files", nargs=-1, type=click.File("rb"))
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True)
@click.option("--compression", type=click.Choice(list(CODECS)), default="none", show_default=True)
@click.option(
    "--partitioner",
    type=click.Choice(["random", "round_robin", "key_hash"]),
    default="key_hash",
    show_default=True,
)
@click.option(
    "--partition", type=click.IntRange(0, INT32_MAX), help="Send all records to this partition."
)
@click.option("--key-separator", metavar="TEXT", help="Text between key and value in a line.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="Repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Read each line as a JSON object.")
@record_options
def produce(
    *,
    topic: str,
    files: tuple[IO[bytes], ...],
    acks: str,
    compression: str,
    partitioner: str,
    partition: int | None,
    key_separator: str | None,
    headers: tuple[str, ...],
    as_json: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Send each line of FILES, or of standard input, to TOPIC as a record.

    With --acks all the producer is idempotent: a record that it resends after a lost connection
    is in the topic once. The last line on standard error says how many records were acknowledged.
    At a line that is not a record the command stops and sends only what came before; so it does
    on Ctrl-C.

    Exit code: 0 all records were acknowledged; 1 some were not, or a line was not a record; 130
    after Ctrl-C.
    """
    from client.msgpack.producer import Producer
    from client.msgpack.unacknowledged import ProducerSettings

    if as_json and key_separator is not None:
        raise click.UsageError(
            "--json lines contain their keys: do not combine it with --key-separator."
        )
    if key_separator == "":
        raise click.UsageError("--key-separator must not be empty.")
    read = Reader(key_separator, [parse_header(one) for one in headers], as_json=as_json)
    place = in_its_dialect(bootstrap, timeout_s)
    settings = ProducerSettings(codec=CODECS[compression], idempotent=acks == "all")

    async def run() -> None:
        producer = Producer(
            place,
            acks=ACKS[acks],
            partitioner=partitioner,
            settings=settings,
            timeout_s=timeout_s,
            on_retry=Trouble(),
        )
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        sources = files or (sys.stdin.buffer,)
        async with producer:
            try:
                bad = await send_lines(producer, topic, sources, read, partition)
            except asyncio.CancelledError:
                await _end_early(producer, timeout_s)
                raise
            except BaseException:
                click.echo(
                    f"{_count(producer)}; the rest may or may not be in the topic.", err=True
                )
                raise
        _report(producer, bad)

    run_to_end(run())


async def _end_early(producer: Any, timeout_s: float) -> None:
    """Wait for the answers to what was read before the command was stopped, and report."""
    try:
        async with asyncio.timeout(timeout_s):
            await producer.flush()
    except TimeoutError:
        click.echo(f"{_count(producer)}; the rest may or may not be in the topic.", err=True)
    else:
        click.echo(f"{_count(producer)}; the input after that was not read.", err=True)


class Trouble:
    """Reports why records are resent: each reason once, until it changes."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, reason: str) -> None:
        """Print the reason if it is not the last one printed."""
        if reason != self._said:
            self._said = reason
            click.echo(f"{reason}\nRetrying; press Ctrl-C to stop.", err=True)


class BadLine(NamedTuple):
    """A line that cannot be sent; lines are counted from 1 in each file."""

    file: str
    number: int
    reason: str


def _count(producer: Any) -> str:
    count = producer.tally.acknowledged_count
    told = f"{count} record{'' if count == 1 else 's'} acknowledged"
    return told if not producer.tally.failed_count else f"{told}, {producer.tally.failed_count} not"


def _report(producer: Any, bad: BadLine | None) -> None:
    told = _count(producer)
    if producer.tally.failed_count:
        told += f": {producer.tally.first_error}"
    if bad is not None:
        fail(
            f"{told}.\n{bad.file}: line {bad.number} cannot be sent: {bad.reason.rstrip('.')}. "
            "Neither it nor anything after it was sent: correct it, then send the rest with "
            f"`tail -n +{bad.number}`."
        )
    if producer.tally.failed_count:
        fail(told)
    click.echo(f"{told}.", err=True)


async def send_lines(
    producer: Any,
    topic: str,
    files: tuple[IO[bytes], ...],
    read: Reader,
    partition: int | None,
) -> BadLine | None:
    """Send all lines; stop at the first that cannot be sent, and return it.

    Also stops when the broker takes no more records: every further line would have to wait.
    """
    from client.msgpack.transport import UnknownPlace

    # Progress is of files: how much standard input will bring is unknown.
    total = sum(os.fstat(one.fileno()).st_size for one in files if one is not sys.stdin.buffer)
    with ProgressBar(topic, total, producer) as progress:
        for file in files:
            number = 1
            try:
                async for line in lines_of(file):
                    fields = read.record(line)
                    if partition is not None:
                        fields["partition"] = partition
                    await producer.send(topic, **fields)
                    number += 1
                    progress.sent(len(line) + 1)
                    if producer.tally.gave_up:
                        return BadLine(file.name, number, "the broker takes no more records")
            except (ValueError, UnknownPlace) as error:
                return BadLine(file.name, number, str(error))
        await producer.flush()
    return None


class ProgressBar:
    """A bar, on a terminal, of how much of the files the broker has acknowledged.

    Acknowledgements count records, files are measured in bytes: a record counts as the average
    size of a line.
    """

    def __init__(self, topic: str, total_bytes: int, producer: Any) -> None:
        self._topic = topic
        self._total_bytes = total_bytes
        self._producer = producer
        self._sent_bytes = 0
        self._sent_count = 0
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self._total_bytes and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True))
            self._bar.add_task(self._topic, total=self._total_bytes)
            self._bar.start()
            self._ticking = asyncio.create_task(self._tick())
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._ticking.cancel()
            self._show()
            self._bar.stop()

    def sent(self, count_bytes: int) -> None:
        """Count a line that was passed to the producer."""
        self._sent_bytes += count_bytes
        self._sent_count += 1

    @property
    def acknowledged_bytes(self) -> int:
        """How many bytes of the files are acknowledged."""
        if not self._sent_count:
            return 0
        return self._sent_bytes * int(self._producer.tally.acknowledged_count) // self._sent_count

    async def _tick(self) -> None:
        while True:
            self._show()
            await asyncio.sleep(0.1)

    def _show(self) -> None:
        self._bar.update(self._bar.task_ids[0], completed=self.acknowledged_bytes)


async def lines_of(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a file as they arrive, without newlines; the last may have none.

    Raises ValueError for a line that is longer than any record.
    """
    held: list[bytes] = []  # pieces of a line that has not ended
    held_bytes = 0
    while data := await detached(partial(_read, file)):
        first, *lines = data.split(b"\n")
        held.append(first)
        held_bytes += len(first)
        if held_bytes > LINE_BYTES_MAX:
            raise ValueError(f"it is longer than {LINE_BYTES_MAX} bytes")
        if lines:
            yield b"".join(held)
            for line in lines[:-1]:
                yield line
            held, held_bytes = [lines[-1]], len(lines[-1])
    if held_bytes:
        yield b"".join(held)


def _read(file: IO[bytes]) -> bytes:
    """Return what has arrived, up to `READ_BYTES`; nothing at the end.

    Bypasses the file's buffer: Python aborts if it exits while a thread holds that of stdin.
    Raises OSError with the file's name.
    """
    try:
        descriptor = file.fileno()
    except OSError:  # a file in memory
        return file.read(READ_BYTES)
    try:
        return os.read(descriptor, READ_BYTES)
    except OSError as error:
        name = "standard input" if file is sys.stdin.buffer else file.name
        raise OSError(error.errno, error.strerror, name) from error


def parse_header(text: str) -> tuple[str, bytes | None]:
    """Split NAME=VALUE. Raises click.UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{text!r} is not NAME=VALUE.")
    return name, os.fsencode(value)


class Reader:
    """Turns a line into the arguments of `Producer.send`."""

    def __init__(
        self,
        separator: str | None,
        headers: list[tuple[str, bytes | None]],
        *,
        as_json: bool,
    ) -> None:
        self._separator = None if separator is None else os.fsencode(separator)
        self._headers = headers
        self._as_json = as_json

    def record(self, line: bytes) -> dict[str, Any]:
        """Return the arguments of `send`. Raises ValueError with what is wrong with the line."""
        if self._as_json:
            return self._of_json(line)
        if self._separator is None:
            return {"value": line, "headers": self._headers}
        key, found, value = line.partition(self._separator)
        if not found:
            raise ValueError(f"it has no separator {self._separator!r}")
        return {"key": key, "value": value, "headers": self._headers}

    def _of_json(self, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line, parse_float=_unaltered, parse_constant=_refused)
        except AlteredNumber:
            raise
        except ValueError as error:
            raise ValueError(f"it is not JSON: {error}") from error
        except RecursionError:
            raise ValueError("its JSON is nested too deeply") from None
        if not isinstance(found, dict) or "value" not in found:
            raise ValueError('expected an object with at least "value"')
        numbers = {name: found.get(name) for name in ("timestamp", "partition")}
        for name, number in numbers.items():
            if number is not None and type(number) is not int:
                raise ValueError(f"{name} is not an integer: {number!r}")
        pairs = found.get("headers") or []
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
        ):
            raise ValueError(f"headers are not a list of [name, value]: {pairs!r}")
        for name, _ in pairs:
            name.encode()  # JSON can contain lone surrogates, which UTF-8 cannot encode
        return {
            "key": _bytes(found.get("key")),
            "value": _bytes(found["value"]),
            "headers": [*self._headers, *((name, _bytes(value)) for name, value in pairs)],
            "timestamp_ms": numbers["timestamp"],
            "partition": numbers["partition"],
        }


class AlteredNumber(ValueError):
    """A number that would not be in the record as it is in the line."""

    def __init__(self, text: str) -> None:
        super().__init__(f"the number {text} would be altered: write it in quotes")


def _unaltered(text: str) -> float:
    """Return a number with a fraction or an exponent, unless a float has another value."""
    number = float(text)
    if not isfinite(number) or Decimal(repr(number)) != Decimal(text):
        raise AlteredNumber(text)
    return number


def _refused(text: str) -> float:
    """Refuse NaN and Infinity, which JSON does not have."""
    raise ValueError(f"{text} is no number of JSON")


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        if not isinstance(value["base64"], str):
            raise ValueError(f"base64 is not a text: {value['base64']!r}")
        return b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False).encode()
