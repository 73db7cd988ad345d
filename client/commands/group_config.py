"""`barnabas groups config`: show and change what a group sets for itself, such as its timeouts."""

from __future__ import annotations

import click

from client.commands.careful_command import CarefulCommand
from client.commands.completing import group_assignments, group_names
from client.commands.output import broker_options, connect, refusing, show_json, show_table


@click.command(cls=CarefulCommand)
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.argument("assignments", metavar="[KEY=VALUE]...", nargs=-1, shell_complete=group_assignments)
@click.option("--unset", "unset", metavar="KEY", multiple=True, help="Back to the default.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the change without making it.")
@broker_options
@refusing
def config(
    name: str,
    assignments: tuple[str, ...],
    *,
    unset: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Show the settings of GROUP, or set KEY to VALUE first. The group need not exist.

    Consumer groups (KIP-848) have consumer.session.timeout.ms and consumer.heartbeat.interval.ms.
    """
    from client.kafka.configs import GROUP, SOURCES, Resource, alter, check_keys, describe
    from client.settings import parse_assignments

    changes: dict[str, str | None] = dict(parse_assignments(assignments))
    if twice := sorted({*changes} & {*unset}):
        raise click.UsageError(f"{twice[0]} is set and unset.")
    changes |= dict.fromkeys(unset)
    group = Resource(GROUP, name)
    with connect(bootstrap, timeout_s) as connection:
        before = {one.name: one for one in describe(connection, [group])[group]}
        if changes:
            check_keys(connection, changes, before.values(), group)
            alter(connection, [group], changes, validate_only=dry_run)
        after = describe(connection, [group])[group]
    rows = [
        (one.name, one.value, SOURCES.get(one.config_source, ""))
        for one in sorted(after, key=lambda one: one.name)
    ]
    if as_json:
        settings = [{"key": key, "value": value, "source": source} for key, value, source in rows]
        show_json({"group": name, "changed": bool(changes) and not dry_run, "settings": settings})
        return
    if changes and dry_run:
        click.echo("The broker would accept this; nothing was changed.")
    show_table(["Key", "Value", "From"], rows)
