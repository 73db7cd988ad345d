"""`barnabas topics trim`: delete the oldest records: below an offset, before a time, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from client.commands.careful_command import CarefulCommand
from client.commands.completing import topic_names
from client.commands.deletion import Deletion, deletes
from client.commands.output import (
    INT32_MAX,
    INT64_MAX,
    broker_options,
    connect,
    fail,
    refusing,
)
from client.commands.times import parse_duration, parse_time

if TYPE_CHECKING:
    from client.kafka.connection import Connection


class Trim(NamedTuple):
    """What becomes of one partition: its start moves from `start` to `to`; `end` is its end."""

    topic: str
    partition: int
    start: int
    to: int
    end: int


class TrimRule(NamedTuple):
    """One of the options, None if it was not given; `everything` stands for all records."""

    to_offset: int | None
    before_ms: int | None
    everything: bool


def trim_rule(
    to_offset: int | None,
    before: str | None,
    older_than: str | None,
    *,
    everything: bool,
    now_ms: int,
) -> TrimRule:
    """Read the options. Raises click.UsageError unless there is exactly one."""
    given = (to_offset is not None) + (before is not None) + (older_than is not None) + everything
    if given != 1:
        raise click.UsageError("Pass one of --to-offset, --before, --older-than and --all.")
    before_ms = None
    if before is not None:
        before_ms = parse_time(before)
    elif older_than is not None:
        before_ms = max(0, now_ms - parse_duration(older_than))
    return TrimRule(to_offset, before_ms, everything)


def plan_trims(
    connection: Connection, name: str, partitions: list[int], rule: TrimRule
) -> list[Trim]:
    """Return what a rule does to each partition. Raises BrokerError."""
    from client.kafka import admin

    starts = admin.offsets(connection, {name: partitions}, admin.EARLIEST)
    ends = admin.offsets(connection, {name: partitions}, admin.LATEST)
    found = {}
    if rule.before_ms is not None:
        found = admin.offsets(connection, {name: partitions}, rule.before_ms)
    trims = []
    for number in partitions:
        start, end = starts[name, number][0], ends[name, number][0]
        to = end
        if rule.to_offset is not None:
            to = rule.to_offset
        elif found and found[name, number][0] >= 0:
            to = found[name, number][0]
        trims.append(Trim(name, number, start, min(max(start, to), end), end))
    return trims


@click.command(cls=CarefulCommand)
@click.argument("name", shell_complete=topic_names)
@click.option(
    "--to-offset",
    metavar="OFFSET",
    type=click.IntRange(0, INT64_MAX),
    help="Delete the records below this offset.",
)
@click.option("--before", metavar="TIME", help="Delete what is older than the first record since.")
@click.option("--older-than", metavar="DURATION", help="The same, from now: 7d, 12h, 30m.")
@click.option("--all", "everything", is_flag=True, help="Delete all records.")
@click.option(
    "--partition",
    "partitions",
    metavar="N",
    type=click.IntRange(0, INT32_MAX),
    multiple=True,
    help="Only in this partition; repeatable.",
)
@deletes
@broker_options
@refusing
def trim(
    name: str,
    *,
    to_offset: int | None,
    before: str | None,
    older_than: str | None,
    everything: bool,
    partitions: tuple[int, ...],
    deletion: Deletion,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Delete the oldest records of the topic NAME.

    A partition keeps its records from the first one on that is not to be deleted. Shows what will
    be deleted and asks first. Where there is no terminal, pass --yes.
    """
    from broker.runtime.clock import SystemClock
    from client.kafka import admin

    now_ms = SystemClock().now_ms()
    rule = trim_rule(to_offset, before, older_than, everything=everything, now_ms=now_ms)
    with connect(bootstrap, timeout_s) as connection:
        count = len(admin.topics(connection, [name])[0].partitions)
        wanted = sorted(set(partitions)) or list(range(count))
        if wanted[-1] >= count:
            fail(f"topic {name!r} has partitions 0 to {count - 1}, not {wanted[-1]}")
        trims = plan_trims(connection, name, wanted, rule)
        deletion.run(
            "partition",
            [one._asdict() for one in trims],
            lambda row: (
                f"about {row['to'] - row['start']:,} records of {row['topic']}-{row['partition']}:"
                f" offsets {row['start']} to {row['to']} of {row['end']}"
            ),
            lambda: admin.delete_records(
                connection, name, {one.partition: one.to for one in trims if one.to > one.start}
            ),
            done="Trimmed",
        )
