"""`barnabas consume`: read records from a MSGPACK listener and write them to standard output.

With `--group` the work is done by `consume_group`; for the formats see `written_records`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from client.commands.careful_command import CarefulCommand
from client.commands.output import INT32_MAX, INT64_MAX, msgpack_options
from client.commands.reading_places import TAIL_MAX, parse_at, read_tail
from client.commands.running import run_to_end
from client.commands.times import parse_time
from client.commands.written_records import FORMATS, Written, written_as

if TYPE_CHECKING:
    from client.msgpack.consumer import Consumer

BEGINNING: Final = ("time", -2)  # the timestamps by which ListOffsets means the two
END: Final = ("time", -1)
UNCOMMITTED: Final = "read_uncommitted"
COMMITTED: Final = "read_committed"


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
@click.option(
    "--tail",
    "tail_count",
    metavar="N",
    type=click.IntRange(1, TAIL_MAX),
    help="Start with the last N records.",
)
@click.option(
    "--at",
    "places",
    metavar="PARTITION:OFFSET",
    multiple=True,
    help="Read this partition from this offset; repeatable.",
)
@click.option("--grep", "pattern", metavar="REGEX", help="Only records whose value or key has it.")
@click.option("--ignore-case", "-i", is_flag=True, help="With --grep: also other cases.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more records at the end.")
@click.option(
    "--max-messages", "-n", type=click.IntRange(min=1), help="Stop after this many records."
)
@click.option(
    "--isolation",
    type=click.Choice([UNCOMMITTED, COMMITTED]),
    default=UNCOMMITTED,
    show_default=True,
    help="Whether to read what open and aborted transactions wrote.",
)
@click.option(
    "--format",
    "shape",
    metavar="FORMAT",
    default="value",
    show_default=True,
    help=f"{', '.join(FORMATS)}, or kcat's letters: '%T %o %k %s'.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option("--key-separator", default="\t", help="Text between key and value [default: a tab].")
@msgpack_options
def consume(
    *,
    topic: str,
    start: str,
    from_time: str | None,
    partitions: tuple[int, ...],
    tail_count: int | None,
    places: tuple[str, ...],
    pattern: str | None,
    ignore_case: bool,
    group_id: str | None,
    instance_id: str | None,
    follow: bool,
    max_messages: int | None,
    isolation: str,
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

    With --isolation read_committed, the end is the last stable offset: the first record of the
    oldest open transaction, if there is one.

    Exit code: 0 done; 1 the broker cannot be reached, or refuses.
    """
    place = parse_start(start, from_time)
    written = written_as("json" if as_json else shape, topic, key_separator)
    at = parse_at(places)
    is_moved = from_time is not None or start != "beginning"
    if bool(at) + (tail_count is not None) + is_moved > 1 or (at and partitions):
        raise click.UsageError(
            "Pass one of --from, --from-time, --tail and --at, which names its partitions itself."
        )
    if ignore_case and pattern is None:
        raise click.UsageError("--ignore-case needs --grep.")
    if group_id is not None:
        if at or tail_count is not None or pattern is not None:
            raise click.UsageError("--group excludes --at, --tail and --grep.")
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
            committed_only=isolation == COMMITTED,
        )
        run_to_end(read_group(options, written))
        return
    if instance_id is not None:
        raise click.UsageError("--instance-id needs --group.")
    from client.commands.record_search import RecordSearch
    from client.msgpack.consumer import Consumer

    wanted = None if pattern is None else RecordSearch(pattern, ignore_case=ignore_case)
    consumer = Consumer(
        bootstrap,
        topic,
        partitions=partitions or at or None,
        timeout_s=timeout_s,
        committed_only=isolation == COMMITTED,
        wanted=wanted,
    )
    where = Where(place, at, tail_count)
    run_to_end(_read(consumer, where, written, max_messages, follow=follow))


class Where(NamedTuple):
    """Where reading begins: at one place in all partitions, at some offsets, or near the end."""

    place: tuple[str, int]
    at: dict[int, int]
    tail_count: int | None


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
    consumer: Consumer,
    where: Where,
    written: Written,
    max_messages: int | None,
    *,
    follow: bool,
) -> None:
    from client.commands.patient_poll import poll_patiently

    left = max_messages
    async with consumer:
        await _begin(consumer, where)
        ends = {} if follow and where.tail_count is None else await consumer.end_offsets()
        if where.tail_count is not None:
            for partition, record in await read_tail(consumer, where.tail_count, ends):
                if left != 0:
                    sys.stdout.buffer.write(written.line(partition, record))
                    left = None if left is None else left - 1
            sys.stdout.buffer.flush()
        elif where.at or where.place not in (BEGINNING, END):
            _say_if_nothing(consumer.topic, consumer.positions, ends)
        while left != 0:
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


async def _begin(consumer: Consumer, where: Where) -> None:
    """Move the consumer to where reading begins."""
    kind, place = where.place
    if where.at:
        for partition, offset in where.at.items():
            consumer.seek(partition, offset)
    elif where.tail_count is None and kind == "time":
        await consumer.seek_to(place)
    elif where.tail_count is None:
        for partition in consumer.positions:
            consumer.seek(partition, place)


def _say_if_nothing(topic: str, positions: dict[int, int], ends: dict[int, int]) -> None:
    """Report on standard error that reading would start behind the last record."""
    if ends and all(position >= ends[one] for one, position in positions.items()):
        told = ", ".join(f"{topic}-{one} ends at offset {end}" for one, end in sorted(ends.items()))
        click.echo(f"Nothing to read: {told}. Use --follow to wait for more.", err=True)
