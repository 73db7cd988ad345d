"""`barnabas produce`: send lines, from standard input or files, to a MSGPACK listener.

A line is a record's value; with `--key-separator` what stands before it is the key; with `--json` a
line is an object of key, value, headers, timestamp and partition, as `barnabas consume --json`
writes them. On a terminal, `rich` shows how far the files are.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, NamedTuple

import click

from client.output import TIMEOUT, Function, bootstrap_option, fail

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ACKS: Final = {"0": 0, "1": 1, "all": -1}
READ_BYTES: Final = 256 * 1024


def local_options(function: Function) -> Function:
    """Add --bootstrap, a MSGPACK listener, and --timeout to a command."""
    bootstrap = bootstrap_option(
        9094, "BARNABAS_MSGPACK_BOOTSTRAP", "A MSGPACK listener of the broker."
    )
    return bootstrap(TIMEOUT(function))


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.File("rb"))
@click.option("--acks", type=click.Choice(list(ACKS)), default="all", show_default=True)
@click.option("--compression", type=click.Choice(list(CODECS)), default="none", show_default=True)
@click.option(
    "--partitioner",
    type=click.Choice(["random", "round_robin", "key_hash"]),
    default="key_hash",
    show_default=True,
)
@click.option("--partition", type=click.IntRange(min=0), help="Send everything to this one.")
@click.option("--key-separator", metavar="TEXT", help="What parts key and value in a line.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="May be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Lines are JSON objects.")
@local_options
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

    A producer with acks=all is idempotent: what it sends again after a lost connection is in the
    topic once. The last line on standard error says how many records were acknowledged. A line
    that is no record ends the command; what was read before it is sent.

    Exit code: 0 all were acknowledged, 1 some were not, or a line was no record.
    """
    from client.outbox import OutboxSettings
    from client.producer import Producer

    if as_json and key_separator is not None:
        raise click.UsageError("--json lines have a key of their own: leave --key-separator out.")
    if key_separator == "":
        raise click.UsageError("--key-separator is empty.")
    read = Reader(key_separator, [parse_header(one) for one in headers], as_json=as_json)
    settings = OutboxSettings(codec=CODECS[compression], idempotent=acks == "all")

    async def run() -> None:
        producer = Producer(
            bootstrap,
            acks=ACKS[acks],
            partitioner=partitioner,
            settings=settings,
            timeout_s=timeout_s,
        )
        async with producer:
            try:
                bad = await _send(producer, topic, files or (sys.stdin.buffer,), read, partition)
                await producer.flush()
            except BaseException:
                click.echo(f"{_count(producer)}; the rest may be there or not.", err=True)
                raise
        _report(producer, bad)

    _finish(run())


class BadLine(NamedTuple):
    """A line that cannot be sent; lines count from 1 in each file."""

    file: str
    number: int
    reason: str


def _finish(sending: Any) -> None:
    from client.outbox import DeliveryError
    from client.transport import RequestRefused, TransportError, UnknownPlace

    try:
        asyncio.run(sending)
    except KeyboardInterrupt:
        sys.exit(130)
    except (TransportError, RequestRefused, UnknownPlace, DeliveryError) as error:
        fail(str(error))


def _count(producer: Any) -> str:
    count = producer.acknowledged_count
    told = f"{count} record{'' if count == 1 else 's'} acknowledged"
    return told if not producer.failed_count else f"{told}, {producer.failed_count} not"


def _report(producer: Any, bad: BadLine | None) -> None:
    told = _count(producer)
    if producer.failed_count:
        told += f": {producer.first_error}"
    if bad is not None:
        fail(
            f"{told}.\n{bad.file}: line {bad.number} cannot be sent: {bad.reason}. Nothing from "
            f"there on was sent: correct it, and go on with `tail -n +{bad.number}`."
        )
    if producer.failed_count:
        fail(told)
    click.echo(f"{told}.", err=True)


async def _send(
    producer: Any,
    topic: str,
    files: tuple[IO[bytes], ...],
    read: Reader,
    partition: int | None,
) -> BadLine | None:
    """Send until the end, or the first line that cannot be sent, which is returned."""
    from client.transport import UnknownPlace

    # Progress is of files: what standard input will bring, nobody knows.
    total = sum(os.fstat(one.fileno()).st_size for one in files if one is not sys.stdin.buffer)
    with progress_of(topic, total) as advance:
        for file in files:
            number = 0
            async for line in lines_of(file):
                number += 1
                try:
                    fields = read.record(line)
                    if partition is not None:
                        fields["partition"] = partition
                    await producer.send(topic, **fields)
                except (ValueError, UnknownPlace) as error:
                    return BadLine(file.name, number, str(error))
                advance(len(line) + 1)
    return None


@contextmanager
def progress_of(topic: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while inside, on a terminal; the value is called with bytes that are done."""
    if not total_bytes or not sys.stderr.isatty():
        yield lambda _bytes: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(topic, total=total_bytes)
        yield lambda done_bytes: progress.advance(task, done_bytes)


async def lines_of(file: IO[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of a file without their ends, as they come; the last may have none."""
    rest = b""
    read = getattr(file, "read1", file.read)
    while data := await asyncio.to_thread(read, READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest


def parse_header(text: str) -> tuple[str, bytes | None]:
    """Split NAME=VALUE. Raises click.UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{text!r} is not NAME=VALUE.")
    return name, value.encode()


class Reader:
    """Makes of a line what `Producer.send` takes."""

    def __init__(
        self,
        separator: str | None,
        headers: list[tuple[str, bytes | None]],
        *,
        as_json: bool,
    ) -> None:
        self._separator = None if separator is None else separator.encode()
        self._headers = headers
        self._as_json = as_json

    def record(self, line: bytes) -> dict[str, Any]:
        """Return the arguments of `send`; ValueError says what is wrong with the line."""
        if self._as_json:
            return self._of_json(line)
        if self._separator is None:
            return {"value": line, "headers": self._headers}
        key, found, value = line.partition(self._separator)
        if not found:
            raise ValueError(f"no separator {self._separator!r} in it")
        return {"key": key, "value": value, "headers": self._headers}

    def _of_json(self, line: bytes) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except ValueError as error:
            raise ValueError(f"it is not JSON: {error}") from error
        if not isinstance(found, dict) or "value" not in found:
            raise ValueError('wanted an object with at least "value"')
        numbers = {name: found.get(name) for name in ("timestamp", "partition")}
        for name, number in numbers.items():
            if number is not None and type(number) is not int:
                raise ValueError(f"{name} is no integer: {number!r}")
        pairs = found.get("headers") or []
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
        ):
            raise ValueError(f"headers are no list of [name, value]: {pairs!r}")
        for name, _ in pairs:
            name.encode()  # JSON can name halves of characters, which no bytes stand for
        return {
            "key": _bytes(found.get("key")),
            "value": _bytes(found["value"]),
            "headers": [*self._headers, *((name, _bytes(value)) for name, value in pairs)],
            "timestamp_ms": numbers["timestamp"],
            "partition": numbers["partition"],
        }


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False).encode()
