"""`barnabas consume`: read records from a MSGPACK listener and write them to standard output.

Formats: `value` and `key-value` write a line per record, as its bytes are; `json` writes all of a
record, one object a line; `raw` writes the bytes of the values and nothing between them. In JSON,
bytes that are no UTF-8 stand as {"base64": …}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64encode
from contextlib import closing
from typing import Any, Final

import click

from client.commands.careful_command import CarefulCommand
from client.commands.output import INT32_MAX, INT64_MAX, fail
from client.commands.produce import local_options
from client.commands.times import parse_time

BEGINNING: Final = ("time", -2)  # the times that ListOffsets keeps for the two
END: Final = ("time", -1)
FORMATS: Final = ("value", "key-value", "json", "raw")
BACKOFF_S: Final = 0.1  # doubled after each failure in a row, up to
BACKOFF_S_MAX: Final = 5.0


@click.command(cls=CarefulCommand)
@click.argument("topic")
@click.option(
    "--from",
    "start",
    default="beginning",
    show_default=True,
    metavar="WHERE",
    help="beginning, end, an offset, or an ISO 8601 time.",
)
@click.option("--from-time", metavar="TIME", help="A time, ISO 8601 or ms since 1970.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0, INT32_MAX),
    multiple=True,
    help="Read only this one; repeatable.",
)
@click.option("--group", "group_id", metavar="NAME", help="Read as a member of it, and commit.")
@click.option("--instance-id", metavar="ID", help="With --group: come back as the same member.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more at the end.")
@click.option("--max-messages", "-n", type=click.IntRange(min=1), help="Stop after so many.")
@click.option("--format", "shape", type=click.Choice(FORMATS), default="value", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--key-separator", default="\t", help="Between key and value; a tab by default.")
@local_options
def consume(
    *,
    topic: str,
    start: str,
    from_time: str | None,
    partitions: tuple[int, ...],
    group_id: str | None,
    instance_id: str | None,
    follow: bool,
    max_messages: int | None,
    shape: str,
    as_json: bool,
    key_separator: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Write the records of TOPIC to standard output, up to its end at the start of the command.

    With --follow a lost connection is made again, for as long as it takes, and reading goes on
    where it stopped.

    With --group the broker shares the partitions among the members of the group; each goes on where
    the group has committed, and --from (beginning, end) holds where it has not. What has been
    written is committed about once a second and at the end.

    Exit code: 0 done, 1 the broker cannot be asked or refuses.
    """
    place = parse_start(start, from_time)
    show = Show("json" if as_json else shape, topic, key_separator.encode())
    if group_id is not None:
        if partitions or from_time is not None or start not in ("beginning", "end"):
            raise click.UsageError(
                "In a group, the broker says which partitions, and what is committed from where: "
                "no --partition, no --from-time, and --from is beginning or end. "
                "`barnabas groups reset-offsets` sets where a group goes on."
            )
        from client.commands.consume_group import Options, read_group

        options = Options(
            topic=topic,
            bootstrap=bootstrap,
            timeout_s=timeout_s,
            group_id=group_id,
            instance_id=instance_id,
            start=start,
            follow=follow,
            count_max=max_messages,
        )
        _finish(read_group(options, show))
        return
    if instance_id is not None:
        raise click.UsageError("--instance-id names a member of a group: it needs --group.")
    reading = _read(
        topic, bootstrap, timeout_s, partitions or None, place, show, follow, max_messages
    )
    _finish(reading)


def _finish(reading: Any) -> None:
    from client.msgpack.consumer import FetchError
    from client.msgpack.group_offsets import CommitError
    from client.msgpack.membership import GroupRefused
    from client.msgpack.transport import RequestRefused, TransportError, UnknownPlace
    from protocol.record_errors import RecordError

    refusals = (TransportError, RequestRefused, UnknownPlace, FetchError, RecordError)
    try:
        with closing(reading):  # Ctrl-C may come before it begins
            asyncio.run(reading)
    except KeyboardInterrupt:
        sys.exit(130)
    except asyncio.CancelledError:
        sys.exit(143)  # SIGTERM, in a group
    except (*refusals, GroupRefused, CommitError) as error:
        fail(str(error))


def parse_start(start: str, from_time: str | None) -> tuple[str, int]:
    """Return ("offset", n) or ("time", ms or a place of ListOffsets). Raises click.UsageError."""
    if from_time is not None:
        return "time", parse_time(from_time)
    if start in ("beginning", "end"):
        return BEGINNING if start == "beginning" else END
    if start.isdecimal():
        if len(start) > 20 or int(start) > INT64_MAX:
            raise click.UsageError(f"--from {start} is no offset, wanted at most {INT64_MAX}.")
        return "offset", int(start)
    return "time", parse_time(start, besides="beginning, end, an offset, ")


async def _read(
    topic: str,
    bootstrap: str,
    timeout_s: float,
    partitions: tuple[int, ...] | None,
    place: tuple[str, int],
    show: Show,
    follow: bool,  # noqa: FBT001 - a flag of the command
    max_messages: int | None,
) -> None:
    from client.msgpack.consumer import Consumer

    left = max_messages
    async with Consumer(bootstrap, topic, partitions=partitions, timeout_s=timeout_s) as consumer:
        kind, where = place
        if kind == "time":
            await consumer.seek_to(where)
        else:
            for partition in consumer.positions:
                consumer.seek(partition, where)
        ends = {} if follow else await consumer.end_offsets()
        if place not in (BEGINNING, END):
            _say_if_nothing(topic, consumer.positions, ends)
        while True:
            unread = [
                partition
                for partition, position in consumer.positions.items()
                if follow or position < ends[partition]
            ]
            if not unread:
                return
            found = await (patient(consumer) if follow else consumer.poll(partitions=unread))
            for partition, record in found:
                if left != 0 and (follow or record.offset < ends[partition]):
                    show.write(partition, record)
                    left = None if left is None else left - 1
            if found:
                sys.stdout.buffer.flush()
            if left == 0:
                return


def _say_if_nothing(topic: str, positions: dict[int, int], ends: dict[int, int]) -> None:
    """Say on standard error that the start that was asked for lies behind the last record."""
    if ends and all(position >= ends[one] for one, position in positions.items()):
        told = ", ".join(f"{topic}-{one} ends at offset {end}" for one, end in sorted(ends.items()))
        click.echo(f"Nothing to read from there on: {told}. --follow waits for more.", err=True)


async def patient(consumer: Any) -> Any:
    """Poll until it succeeds, saying on standard error when the broker goes and comes back."""
    from client.msgpack.consumer import FetchError
    from client.msgpack.transport import TransportError

    wait_s = BACKOFF_S
    while True:
        try:
            found = await consumer.poll()
        except (TransportError, FetchError) as error:
            if isinstance(error, FetchError) and not error.retriable:
                raise
            if wait_s == BACKOFF_S:
                click.echo(f"{error}\nTrying again until it does; Ctrl-C ends.", err=True)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, BACKOFF_S_MAX)
        else:
            if wait_s != BACKOFF_S:
                click.echo("It answers again; going on where it stopped.", err=True)
            return found


class Show:
    """Writes records in one of FORMATS to standard output."""

    def __init__(self, shape: str, topic: str, separator: bytes) -> None:
        self._shape = shape
        self._topic = topic
        self._separator = separator

    def write(self, partition: int, record: Any) -> None:
        """Write one record; what the format cannot say (a null) is left empty."""
        sys.stdout.buffer.write(self.line(partition, record))

    def line(self, partition: int, record: Any) -> bytes:
        """Return a record as it is written."""
        if self._shape == "json":
            return json.dumps(self._all(partition, record), ensure_ascii=False).encode() + b"\n"
        value: bytes = record.value or b""
        if self._shape == "raw":
            return value
        if self._shape == "key-value":
            return (record.key or b"") + self._separator + value + b"\n"
        return value + b"\n"

    def _all(self, partition: int, record: Any) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[key, _text(value)] for key, value in record.headers],
        }


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
