"""`barnabas consume`: read records and write them to standard output.

With `--group` the work is done by `consume_group`; for the formats see `written_records`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from client.commands.careful_command import CarefulCommand
from client.commands.completing import group_names, topic_names
from client.commands.output import in_its_dialect, record_options
from client.commands.reading_places import Where, begin, place_options, read_tail
from client.commands.running import run_to_end
from client.commands.written_records import FORMATS, Written, written_as

if TYPE_CHECKING:
    from client.msgpack.batch_openers import BatchOpener
    from client.msgpack.consumer import Consumer

UNCOMMITTED: Final = "read_uncommitted"
COMMITTED: Final = "read_committed"


@click.command(cls=CarefulCommand)
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "--group",
    "group_id",
    metavar="NAME",
    help="Join a consumer group, and commit offsets.",
    shell_complete=group_names,
)
@click.option("--instance-id", metavar="ID", help="With --group: join as this static member.")
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
@place_options
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option("--key-separator", default="\t", help="Text between key and value [default: a tab].")
@record_options
def consume(
    *,
    topic: str,
    where: Where,
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

    With --follow, wait for more records, and reconnect whenever the connection is lost.

    With --group, the broker assigns each member of the group some of the partitions. A member
    starts at the committed offset, or where there is none at --from (beginning or end). Records
    written to standard output are committed about once a second and at the end.

    With --isolation read_committed, the end is the last stable offset (open transactions end it).

    Exit code: 0 done; 1 the broker cannot be reached, or refuses.
    """
    written = written_as("json" if as_json else shape, topic, key_separator)
    if ignore_case and pattern is None:
        raise click.UsageError("--ignore-case needs --grep.")
    if group_id is not None:
        _refuse_places(where, pattern)
        from client.commands.consume_group import Options, read_group

        options = Options(
            topic=topic,
            bootstrap=in_its_dialect(bootstrap, timeout_s),
            timeout_s=timeout_s,
            group_id=group_id,
            instance_id=instance_id,
            start=where.start,
            follow=follow,
            count_max=max_messages,
            committed_only=isolation == COMMITTED,
        )
        run_to_end(read_group(options, written))
        return
    if instance_id is not None:
        raise click.UsageError("--instance-id needs --group.")
    from client.msgpack.consumer import Consumer

    is_plain = shape == "value" and not as_json and where.tail_count is None and not follow
    opener = _opener(pattern, ignore_case=ignore_case, is_plain=is_plain)
    consumer = Consumer(
        in_its_dialect(bootstrap, timeout_s),
        topic,
        partitions=where.partitions or where.at or None,
        timeout_s=timeout_s,
        committed_only=isolation == COMMITTED,
        opener=opener,
    )
    run_to_end(
        _read_values(consumer, where, max_messages)
        if is_plain
        else _read(consumer, where, written, max_messages, follow=follow)
    )


def _refuse_places(where: Where, pattern: str | None) -> None:
    """Raise click.UsageError for what a member of a group cannot choose."""
    if where.is_inside_partitions or pattern is not None:
        raise click.UsageError(
            "In a group the broker assigns the partitions, and reading starts at the committed "
            "offsets: --group excludes --partition, --from-time, --at, --tail and --grep, and "
            "--from can only be beginning or end. To move a group's offsets, use `barnabas "
            "groups reset-offsets`."
        )


def _opener(pattern: str | None, *, ignore_case: bool, is_plain: bool) -> BatchOpener:
    """Return what opens batches: as values alone where no more is written, if `is_plain`."""
    from client.commands.record_search import RecordSearch, ValueOpener
    from client.msgpack.batch_openers import RecordOpener

    search = None if pattern is None else RecordSearch(pattern, ignore_case=ignore_case)
    return ValueOpener(search) if is_plain else search or RecordOpener()


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
        await begin(consumer, where)
        ends = {} if follow and where.tail_count is None else await consumer.end_offsets()
        if where.tail_count is not None:
            for partition, record in await read_tail(consumer, where.tail_count, ends):
                if left != 0:
                    sys.stdout.buffer.write(written.line(partition, record))
                    left = None if left is None else left - 1
            sys.stdout.buffer.flush()
        elif where.is_inside:
            _say_if_nothing(consumer.topic, consumer.positions, ends)
        while left != 0:
            unread = [
                partition
                for partition, position in consumer.positions.items()
                if follow or position < ends[partition]
            ]
            if not unread:
                return
            if follow:
                found = await poll_patiently(consumer)
            else:
                found = await consumer.poll(partitions=unread, ends=ends)
            for partition, record in found:
                if left != 0:
                    sys.stdout.buffer.write(written.line(partition, record))
                    left = None if left is None else left - 1
            if found:
                sys.stdout.buffer.flush()
            if left == 0:
                return


async def _read_values(consumer: Consumer, where: Where, max_messages: int | None) -> None:
    """Write values alone, a line each. No record is made; an answer is written at once."""
    left = max_messages
    async with consumer:
        await begin(consumer, where)
        ends = await consumer.end_offsets()
        if where.is_inside:
            _say_if_nothing(consumer.topic, consumer.positions, ends)
        while unread := [one for one, at in consumer.positions.items() if at < ends[one]]:
            lines: list[bytes] = []
            for _, values in await consumer.poll_batches(partitions=unread, ends=ends):
                lines += values
            if left is not None:
                del lines[left:]
                left -= len(lines)
            if lines:
                lines.append(b"")
                sys.stdout.buffer.write(b"\n".join(lines))
                sys.stdout.buffer.flush()
            if left == 0:
                return


def _say_if_nothing(topic: str, positions: dict[int, int], ends: dict[int, int]) -> None:
    """Report on standard error that reading would start behind the last record."""
    if ends and all(position >= ends[one] for one, position in positions.items()):
        told = ", ".join(f"{topic}-{one} ends at offset {end}" for one, end in sorted(ends.items()))
        click.echo(f"Nothing to read: {told}. Use --follow to wait for more.", err=True)
