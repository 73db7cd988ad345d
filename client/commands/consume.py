"""`barnabas consume`: read records from a MSGPACK listener and write them to standard output.

With `--group` the work is done by `consume_group`; for the formats see `written_records`.
"""

from __future__ import annotations

import sys
from typing import Final

import click

from client.commands.careful_command import CarefulCommand
from client.commands.output import INT32_MAX, INT64_MAX, msgpack_options
from client.commands.running import run_to_end
from client.commands.times import parse_time
from client.commands.written_records import FORMATS, RecordFormat

BEGINNING: Final = ("time", -2)  # the timestamps by which ListOffsets means the two
END: Final = ("time", -1)


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
@click.option("--from-time", metavar="TIME", help="Start at a time: ISO 8601, or ms since 1970.")
@click.option(
    "--partition",
    "partitions",
    type=click.IntRange(0, INT32_MAX),
    multiple=True,
    help="Read only this partition; repeatable.",
)
@click.option(
    "--group", "group_id", metavar="NAME", help="Join a consumer group, and commit offsets."
)
@click.option("--instance-id", metavar="ID", help="With --group: join as this static member.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more records at the end.")
@click.option(
    "--max-messages", "-n", type=click.IntRange(min=1), help="Stop after this many records."
)
@click.option("--format", "shape", type=click.Choice(FORMATS), default="value", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option("--key-separator", default="\t", help="Text between key and value [default: a tab].")
@msgpack_options
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
    """Write the records of TOPIC to standard output, up to the end it had when the command began.

    With --follow, wait for more records, reconnect whenever the connection is lost, and continue
    where reading stopped.

    With --group, the broker assigns each member of the group some of the partitions. A member
    starts at the committed offset, or where there is none at --from (beginning or end). Records
    written to standard output are committed about once a second and at the end.

    Exit code: 0 done; 1 the broker cannot be reached, or refuses.
    """
    place = parse_start(start, from_time)
    written = RecordFormat("json" if as_json else shape, topic, key_separator.encode())
    if group_id is not None:
        if partitions or from_time is not None or start not in ("beginning", "end"):
            raise click.UsageError(
                "In a group the broker assigns the partitions, and reading starts at the committed "
                "offsets: --group excludes --partition and --from-time, and --from can only be "
                "beginning or end. To move a group's offsets, use `barnabas groups reset-offsets`."
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
        run_to_end(read_group(options, written))
        return
    if instance_id is not None:
        raise click.UsageError("--instance-id needs --group.")
    reading = _read(
        topic, bootstrap, timeout_s, partitions or None, place, written, follow, max_messages
    )
    run_to_end(reading)


def parse_start(start: str, from_time: str | None) -> tuple[str, int]:
    """Return ("offset", n) or ("time", ms or BEGINNING or END's). Raises click.UsageError."""
    if from_time is not None:
        return "time", parse_time(from_time)
    if start in ("beginning", "end"):
        return BEGINNING if start == "beginning" else END
    if start.isdecimal():
        if len(start) > 20 or int(start) > INT64_MAX:
            raise click.UsageError(f"--from {start} is not an offset; the maximum is {INT64_MAX}.")
        return "offset", int(start)
    return "time", parse_time(start, besides="beginning, end, an offset, ")


async def _read(
    topic: str,
    bootstrap: str,
    timeout_s: float,
    partitions: tuple[int, ...] | None,
    place: tuple[str, int],
    written: RecordFormat,
    follow: bool,  # noqa: FBT001 - a flag of the command
    max_messages: int | None,
) -> None:
    from client.commands.patient_poll import poll_patiently
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
            found = await (poll_patiently(consumer) if follow else consumer.poll(partitions=unread))
            for partition, record in found:
                if left != 0 and (follow or record.offset < ends[partition]):
                    sys.stdout.buffer.write(written.line(partition, record))
                    left = None if left is None else left - 1
            if found:
                sys.stdout.buffer.flush()
            if left == 0:
                return


def _say_if_nothing(topic: str, positions: dict[int, int], ends: dict[int, int]) -> None:
    """Report on standard error that reading would start behind the last record."""
    if ends and all(position >= ends[one] for one, position in positions.items()):
        told = ", ".join(f"{topic}-{one} ends at offset {end}" for one, end in sorted(ends.items()))
        click.echo(f"Nothing to read: {told}. Use --follow to wait for more.", err=True)
