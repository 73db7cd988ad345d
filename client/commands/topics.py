"""`barnabas topics`: create, list, describe, delete, alter, trim and copy topics of a broker."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from client.commands.careful_command import CarefulGroup
from client.commands.completing import setting_assignments, topic_names
from client.commands.deletion import Deletion, deletes
from client.commands.output import (
    DRY_RUN,
    INT16_MAX,
    INT32_MAX,
    broker_options,
    connect,
    fail,
    refusing,
    show_json,
    show_table,
)
from client.commands.topic_copy import copy
from client.commands.topic_trim import trim

if TYPE_CHECKING:
    from client.kafka.admin import Offsets
    from client.kafka.connection import Connection
    from protocol.messages.metadata import MetadataResponseTopic


@click.group(cls=CarefulGroup)
def topics() -> None:
    """Create, list, describe, delete, alter, trim and copy topics."""


topics.add_command(copy)
topics.add_command(trim)


@topics.command()
@click.argument("name")
@click.option(
    "--partitions", "partition_count", type=click.IntRange(1, INT32_MAX), metavar="N",
    help="Number of partitions [default: the broker's num.partitions].",
)  # fmt: skip
@click.option(
    "--replication-factor", type=click.IntRange(1, INT16_MAX), metavar="N",
    help="Replicas of each partition [default: the broker's; a single node has 1].",
)  # fmt: skip
@click.option(
    "--config",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting; repeatable.",
    shell_complete=setting_assignments,
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic already exists.")
@DRY_RUN
@broker_options
@refusing
def create(
    name: str,
    *,
    partition_count: int | None,
    replication_factor: int | None,
    assignments: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Create the topic NAME."""
    from client.codes import code_text
    from client.files.texts import plural
    from client.kafka import admin
    from client.settings import parse_assignments, unknown_keys
    from protocol.errors import ErrorCode

    configs = parse_assignments(assignments)
    with connect(bootstrap, timeout_s) as connection:
        made = admin.create_topic(
            connection,
            name,
            partition_count=partition_count or -1,
            replication_factor=replication_factor or -1,
            configs=configs,
            validate_only=dry_run,
        )
    exists = made.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    if made.error_code and not (exists and if_not_exists):
        hint = unknown_keys(configs) if made.error_code == ErrorCode.INVALID_CONFIG else ""
        why = code_text(made.error_code, made.error_message)
        fail(f"topic {name!r} was not created: {why}" + (f" {hint}" if hint else ""))
    if as_json:
        show_json(
            {
                "topic": name,
                "created": not (exists or dry_run),
                "existed": exists,
                "topic_id": None if exists else uuid_text(made.topic_id),
                "partitions": None if exists else made.num_partitions,
                "replication_factor": None if exists else made.replication_factor,
            }
        )
    elif exists:
        click.echo(f"Topic {name} already exists; nothing was changed.")
    else:
        verb = "Would create" if dry_run else "Created"
        click.echo(f"{verb} topic {name} with {plural(made.num_partitions, 'partition')}.")


@topics.command("list")
@click.option("--sizes/--no-sizes", default=True, help="Show the size of each on disk.")
@click.option("--by-size", is_flag=True, help="List the largest first.")
@broker_options
@refusing
def list_topics(
    *, sizes: bool, by_size: bool, bootstrap: str, timeout_s: float, as_json: bool
) -> None:
    """List all topics, with their partition counts and sizes on disk."""
    from client.kafka import admin
    from client.units import size_text

    with connect(bootstrap, timeout_s) as connection:
        found = admin.cluster(connection).topics
        bytes_by_partition = admin.sizes(connection) if sizes or by_size else None
    bytes_by_topic: Counter[str | None] = Counter()
    for (name, _), size in (bytes_by_partition or {}).items():
        bytes_by_topic[name] += size
    rows: list[dict[str, Any]] = []
    for topic in found:
        row: dict[str, Any] = {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "internal": topic.is_internal,
        }
        if bytes_by_partition is not None:
            row["bytes"] = bytes_by_topic[topic.name]
        rows.append(row)
    if by_size and bytes_by_partition is not None:
        rows.sort(key=lambda row: -row["bytes"])
    if as_json:
        show_json(rows)
        return
    columns = ["Topic", "Partitions", *(["Size"] if bytes_by_partition is not None else [])]
    show_table(
        columns,
        [
            [row["topic"], row["partitions"]]
            + ([size_text(row["bytes"])] if "bytes" in row else [])
            for row in rows
        ],
    )


@topics.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=topic_names)
@click.option(
    "--time", "time_text", metavar="TIME",
    help="Show the first record at or after this time: 2026-05-01T12:00:00Z, 2026-05-01, or ms.",
)  # fmt: skip
@broker_options
@refusing
def describe(
    names: tuple[str, ...],
    *,
    time_text: str | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Show settings, partitions, offsets and sizes of the topics NAME..., or of all topics."""
    from client.commands.times import parse_time
    from client.kafka import admin
    from client.kafka.configs import topic_overrides

    time_ms = None if time_text is None else parse_time(time_text)
    described = []
    with connect(bootstrap, timeout_s) as connection:
        found = admin.topics(connection, names)
        asked, starts, ends = _bounds(connection, found)
        at = None if time_ms is None else admin.offsets(connection, asked, time_ms)
        bytes_by_partition = admin.sizes(connection) or {}
        overrides = topic_overrides(connection, list(asked))
    for topic in found:
        name = topic.name or ""
        partitions = []
        for one in sorted(topic.partitions, key=lambda one: one.partition_index):
            key = (name, one.partition_index)
            row = {
                "partition": one.partition_index,
                "leader": one.leader_id,
                "leader_epoch": one.leader_epoch,
                "replicas": one.replica_nodes,
                "isr": one.isr_nodes,
                "start_offset": starts[key][0],
                "end_offset": ends[key][0],
                "bytes": bytes_by_partition.get(key),
            }
            if at is not None:
                row["at_time"] = None if at[key][0] < 0 else list(at[key])
            partitions.append(row)
        described.append(
            {
                "topic": name,
                "topic_id": uuid_text(topic.topic_id),
                "replication_factor": max(
                    (len(one.replica_nodes) for one in topic.partitions), default=0
                ),
                "configs": overrides.get(name, {}),
                "partitions": partitions,
            }
        )
    if as_json:
        show_json(described)
        return
    for number, row in enumerate(described):
        if number:
            click.echo()
        _show_description(row, with_time=time_ms is not None)


def _show_description(topic: dict[str, Any], *, with_time: bool) -> None:
    from client.commands.times import time_text
    from client.units import size_text

    configs = ",".join(f"{key}={value}" for key, value in sorted(topic["configs"].items()))
    click.echo(
        f"Topic: {topic['topic']}  TopicId: {topic['topic_id']}  "
        f"PartitionCount: {len(topic['partitions'])}  "
        f"ReplicationFactor: {topic['replication_factor']}  Configs: {configs}"
    )
    columns = ["Partition", "Leader", "Replicas", "Isr", "Start", "End", "Size"]
    if with_time:
        columns += ["Offset", "Timestamp"]
    rows = []
    for one in topic["partitions"]:
        row: list[object] = [
            one["partition"],
            "none" if one["leader"] < 0 else one["leader"],
            ",".join(map(str, one["replicas"])),
            ",".join(map(str, one["isr"])),
            one["start_offset"],
            one["end_offset"],
            "" if one["bytes"] is None else size_text(one["bytes"]),
        ]
        if with_time:
            found = one["at_time"]
            row += ["none so late", ""] if found is None else [found[0], time_text(found[1])]
        rows.append(row)
    show_table(columns, rows)


@topics.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=topic_names)
@deletes
@broker_options
@refusing
def delete(names: tuple[str, ...], *, deletion: Deletion, bootstrap: str, timeout_s: float) -> None:
    """Delete the topics NAME... with all of their records.

    Shows what will be deleted and asks first. Where there is no terminal, pass --yes.
    """
    from client.files.texts import plural
    from client.kafka import admin
    from client.units import size_text

    with connect(bootstrap, timeout_s) as connection:
        found = admin.topics(connection, names)
        asked, starts, ends = _bounds(connection, found)
        sizes = admin.sizes(connection) or {}
        doomed: list[dict[str, Any]] = []
        for name, numbers in asked.items():
            keys = [(name, number) for number in numbers]
            doomed.append(
                {
                    "topic": name,
                    "partitions": len(numbers),
                    "records": sum(ends[key][0] - starts[key][0] for key in keys),
                    "bytes": sum(sizes.get(key, 0) for key in keys),
                }
            )
        deletion.run(
            "topic",
            doomed,
            lambda row: (
                f"{row['topic']}, {plural(row['partitions'], 'partition')}, "
                f"about {plural(row['records'], 'record')}, {size_text(row['bytes'])}"
            ),
            lambda: admin.delete_topics(connection, names),
        )


def _bounds(
    connection: Connection, found: list[MetadataResponseTopic]
) -> tuple[dict[str, list[int]], Offsets, Offsets]:
    """Return the partitions of topics, with the first and the end offset of each."""
    from client.kafka import admin

    asked = {topic.name or "": [one.partition_index for one in topic.partitions] for topic in found}
    starts = admin.offsets(connection, asked, admin.EARLIEST)
    return asked, starts, admin.offsets(connection, asked, admin.LATEST)


@topics.command()
@click.argument("name", shell_complete=topic_names)
@click.option(
    "--partitions", "partition_count", type=click.IntRange(1, INT32_MAX), metavar="N",
    required=True, help="The new number; it can only increase.",
)  # fmt: skip
@DRY_RUN
@broker_options
@refusing
def alter(
    name: str,
    *,
    partition_count: int,
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Add partitions to the topic NAME. To change its settings, use `barnabas config`.

    Keys may then map to other partitions than before.
    """
    from client.files.texts import plural
    from client.kafka import admin

    with connect(bootstrap, timeout_s) as connection:
        before = len(admin.topics(connection, [name])[0].partitions)
        admin.add_partitions(connection, name, partition_count, validate_only=dry_run)
    if as_json:
        show_json(
            {"topic": name, "before": before, "partitions": partition_count, "altered": not dry_run}
        )
        return
    verb = "Would extend" if dry_run else "Extended"
    click.echo(f"{verb} topic {name} from {before} to {plural(partition_count, 'partition')}.")


def uuid_text(uuid: bytes) -> str:
    """16 bytes as Kafka prints them: base64url without padding."""
    import base64

    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")
