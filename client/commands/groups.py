"""`barnabas groups`: list, describe and delete consumer groups, and reset their offsets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from client.commands.careful_command import CarefulGroup
from client.commands.completing import group_names
from client.commands.deletion import Deletion, deletes
from client.commands.group_config import config
from client.commands.output import (
    INT64_MAX,
    broker_options,
    connect,
    fail,
    refusing,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.kafka.connection import Connection
    from client.kafka.groups import Group
    from client.kafka.resets import Bounds, Reset, Rule
    from client.places import Place


@click.group(cls=CarefulGroup)
def groups() -> None:
    """List, describe, configure and delete consumer groups, and reset their offsets."""


groups.add_command(config)


@groups.command("list")
@broker_options
@refusing
def list_groups(*, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    """List all groups, with their state and kind.

    The kind says who assigns the partitions: the broker ("consumer", KIP-848) or a member
    ("classic").
    """
    from client.kafka import groups as admin

    with connect(bootstrap, timeout_s) as connection:
        found = admin.list_groups(connection)
    if as_json:
        show_json(
            [
                {
                    "group": one.group_id,
                    "state": one.group_state,
                    "kind": one.group_type,
                    "protocol_type": one.protocol_type,
                }
                for one in found
            ]
        )
        return
    show_table(
        ["Group", "State", "Kind", "Protocol type"],
        [[one.group_id, one.group_state, one.group_type, one.protocol_type] for one in found],
    )


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@broker_options
@refusing
def describe(names: tuple[str, ...], *, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    """Show groups: their members and assignments, committed offsets, and lag.

    The lag is the partition's last stable offset (LSO) minus the committed offset, and is empty
    where no offset is committed. The LSO is the end offset, or before it the first offset of the
    oldest open transaction: what comes after it is not yet for consumers with read_committed.
    """
    described = []
    with connect(bootstrap, timeout_s) as connection:
        described = [_description(connection, name) for name in names]
    if as_json:
        show_json(described)
        return
    for number, one in enumerate(described):
        if number:
            click.echo()
        _show_description(one)


def _description(connection: Connection, name: str) -> dict[str, Any]:
    from client.kafka import groups as admin
    from client.kafka.admin import LATEST

    group = admin.describe(connection, name)
    committed = admin.committed(connection, name)
    readers = {
        place: member.member_id for member in group.members for place in member.partitions or []
    }
    places = sorted({*committed, *readers})
    ends = admin.offsets_at(connection, places, LATEST)
    stable_ends = admin.offsets_at(connection, places, LATEST, committed_only=True)
    partitions = []
    for place in places:
        offset, stable = committed.get(place), stable_ends.get(place)
        partitions.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": offset,
                "last_stable_offset": stable,
                "end": ends.get(place),
                "lag": None if offset is None or stable is None else max(0, stable - offset),
                "member_id": readers.get(place),
            }
        )
    return {
        "group": group.group_id,
        "state": group.state,
        "kind": group.kind,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "epoch": group.epoch,
        "members": _members(group),
        "partitions": partitions,
    }


def _members(group: Group) -> list[dict[str, Any]]:
    return [
        {
            "member_id": one.member_id,
            "instance_id": one.instance_id,
            "client_id": one.client_id,
            "host": one.host,
            "epoch": one.epoch,
            "partitions": None
            if one.partitions is None
            else [list(place) for place in sorted(one.partitions)],
        }
        for one in sorted(group.members, key=lambda one: (one.client_id, one.member_id))
    ]


def _show_description(group: dict[str, Any]) -> None:
    lags = [one["lag"] for one in group["partitions"] if one["lag"] is not None]
    epoch = "" if group["epoch"] is None else f"  Epoch: {group['epoch']}"
    click.echo(
        f"Group: {group['group']}  State: {group['state']}  Kind: {group['kind']}  "
        f"Protocol: {group['protocol']}{epoch}  Members: {len(group['members'])}  "
        f"Lag: {sum(lags)}"
    )
    if group["members"]:
        show_table(
            ["Member", "Instance", "Client", "Host", "Partitions"],
            [
                [one["member_id"], one["instance_id"], one["client_id"], one["host"], _held(one)]
                for one in group["members"]
            ],
        )
    if group["partitions"]:
        show_table(
            ["Topic", "Partition", "Committed", "LSO", "End", "Lag", "Member"],
            [
                [
                    one["topic"], one["partition"], one["committed"], one["last_stable_offset"],
                    one["end"], one["lag"], one["member_id"],
                ]
                for one in group["partitions"]
            ],
        )  # fmt: skip


def _held(member: dict[str, Any]) -> str:
    """Return a member's partitions by topic: orders:0,2."""
    if member["partitions"] is None:
        return "(not a consumer's)"
    numbers: dict[str, list[str]] = {}
    for topic, partition in member["partitions"]:
        numbers.setdefault(topic, []).append(str(partition))
    return " ".join(f"{topic}:{','.join(found)}" for topic, found in numbers.items())


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@deletes
@broker_options
@refusing
def delete(names: tuple[str, ...], *, deletion: Deletion, bootstrap: str, timeout_s: float) -> None:
    """Delete groups that have no members, with their committed offsets.

    Shows what will be deleted and asks first. Where there is no terminal, pass --yes.
    """
    from client.files.texts import plural
    from client.kafka import groups as admin

    with connect(bootstrap, timeout_s) as connection:
        doomed: list[dict[str, Any]] = []
        for name in names:
            _refuse_members(admin.describe(connection, name), "deleted")
            offsets = admin.committed(connection, name)
            doomed.append({"group": name, "committed": len(offsets)})
        deletion.run(
            "group",
            doomed,
            lambda row: f"{row['group']}, {plural(row['committed'], 'committed offset')}",
            lambda: admin.delete(connection, names),
        )


def _refuse_members(group: Group, what: str) -> None:
    """Fail if the group has members: their commits would overwrite the change."""
    from client.files.texts import plural

    if group.members:
        count = plural(len(group.members), "member")
        named = ", ".join(sorted({one.client_id or one.member_id for one in group.members})[:5])
        fail(
            f"group {group.group_id!r} is {group.state} and has {count} ({named}): only a group "
            f"without members can be {what}. Stop them first; a killed member is removed when its "
            "session times out, by default after 45 s."
        )


@groups.command("reset-offsets")
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.option(
    "--topic", "topics", metavar="TOPIC[:N,N...]", multiple=True,
    help="Repeatable [default: every partition that has a committed offset].",
)  # fmt: skip
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end, after the last record.")
@click.option("--to-offset", metavar="N", type=click.IntRange(0, INT64_MAX), help="To this offset.")
@click.option(
    "--to-time", metavar="TIME", help="To the first record at or after this time: ISO 8601, or ms."
)
@click.option(
    "--by-duration", metavar="DURATION", help="To the first record of the last 90s, 15m, 2h, 7d."
)
@click.option(
    "--shift-by", metavar="N", type=click.IntRange(-INT64_MAX, INT64_MAX),
    help="By this many offsets; backwards if negative.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@broker_options
@refusing
def reset_offsets(
    name: str,
    *,
    topics: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Set the committed offsets of GROUP, which must have no members.

    A group that does not exist is created if --topic is given. An offset outside a partition's
    range is set to the nearer end of that range.
    """
    from client.kafka import groups as admin
    from client.kafka.resets import parse_topics, plan

    time_ms = _time_of(wanted["to_time"], wanted["by_duration"])
    try:
        asked = parse_topics(topics)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if sum(value is not None and value is not False for value in wanted.values()) != 1:
        raise click.UsageError(
            "Pass exactly one of --to-earliest, --to-latest, --to-offset, --to-time, "
            "--by-duration and --shift-by."
        )
    with connect(bootstrap, timeout_s) as connection:
        if any(one.group_id == name for one in admin.list_groups(connection)):
            _refuse_members(admin.describe(connection, name), "reset")
        elif not asked:
            admin.describe(connection, name)  # raises: there is none
        before = admin.committed(connection, name)
        bounds = _bounds(connection, name, before, asked)
        resets = plan(_rule(connection, wanted, time_ms, list(bounds)), before, bounds)
        if not dry_run:
            admin.commit(connection, name, {one.place: one.after for one in resets})
    _show_resets(name, resets, dry_run=dry_run, as_json=as_json)


def _time_of(
    text: str | None, duration: str | None, *, wall_ns: Callable[[], int] = time.time_ns
) -> int | None:
    """Return the time that was given, in ms since 1970, or None. Raises click.UsageError."""
    from client.commands.times import parse_duration, parse_time

    if duration is not None:
        return max(0, wall_ns() // 1_000_000 - parse_duration(duration))  # below 0 has meanings
    return None if text is None else parse_time(text)


def _rule(
    connection: Connection, wanted: dict[str, Any], time_ms: int | None, places: list[Place]
) -> Rule:
    from client.kafka import groups as admin
    from client.kafka import resets

    if wanted["to_earliest"]:
        return resets.to_earliest
    if wanted["to_latest"]:
        return resets.to_latest
    if wanted["to_offset"] is not None:
        return resets.to_offset(wanted["to_offset"])
    if time_ms is not None:
        return resets.to_found(admin.offsets_at(connection, places, time_ms))
    return resets.shift_by(wanted["shift_by"])


def _bounds(
    connection: Connection,
    name: str,
    before: dict[Place, int],
    asked: dict[str, list[int] | None],
) -> dict[Place, Bounds]:
    """Return the partitions to reset, each with its first and its end offset."""
    from client.kafka import admin, groups
    from client.kafka.connection import BrokerError
    from client.kafka.resets import Bounds
    from client.places import Place

    places = list(before)
    if asked:
        places = []
        for topic in admin.topics(connection, list(asked)):
            count = len(topic.partitions)
            for number in asked[topic.name or ""] or range(count):
                if number >= count:
                    raise BrokerError(
                        f"topic {topic.name!r} has partitions 0 to {count - 1}, not {number}"
                    )
                places.append(Place(topic.name or "", number))
    if not places:
        raise BrokerError(
            f"group {name!r} has no committed offsets; pass --topic to say which to set"
        )
    starts = groups.offsets_at(connection, places, admin.EARLIEST)
    ends = groups.offsets_at(connection, places, admin.LATEST)
    return {place: Bounds(start, ends[place]) for place, start in starts.items() if place in ends}


def _show_resets(name: str, resets: list[Reset], *, dry_run: bool, as_json: bool) -> None:
    from client.files.texts import plural

    if as_json:
        show_json(
            {
                "group": name,
                "reset": not dry_run,
                "partitions": [
                    {
                        "topic": one.place.topic,
                        "partition": one.place.partition,
                        "before": one.before,
                        "after": one.after,
                        "start": one.bounds.start,
                        "end": one.bounds.end,
                        "lag": one.bounds.end - one.after,
                    }
                    for one in resets
                ],
            }
        )
        return
    show_table(
        ["Topic", "Partition", "Before", "After", "Start", "End", "Lag"],
        [
            [*one.place, one.before, one.after, *one.bounds, one.bounds.end - one.after]
            for one in resets
        ],
    )
    verb = "Would set" if dry_run else "Set"
    click.echo(f"{verb} {plural(len(resets), 'offset')} of group {name}.")
