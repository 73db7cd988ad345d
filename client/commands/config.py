"""`barnabas config`: read and change the settings of topics and brokers at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from client.output import broker_options, connect, refusing, show_json, show_table

if TYPE_CHECKING:
    from client.connection import Connection
    from client.settings import Resource, Setting

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Let the broker check it, and no more.")


@click.group()
def config() -> None:
    """Read and change settings of topics and brokers, while the broker runs.

    Say whose: --topic NAME, --broker ID, or --all-brokers for the defaults of every broker.
    """


def whose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the three ways to name a resource."""
    for option in (
        click.option("--all-brokers", is_flag=True, help="The dynamic defaults of all brokers."),
        click.option("--broker", metavar="ID", type=click.IntRange(min=0), help="One broker."),
        click.option("--topic", metavar="NAME", help="One topic."),
    ):
        function = option(function)
    return function


def _resource(topic: str | None, broker: int | None, *, all_brokers: bool) -> Resource:
    from client.settings import BROKER, TOPIC, Resource

    given = (topic is not None) + (broker is not None) + all_brokers
    if given != 1:
        raise click.UsageError("Say whose: one of --topic NAME, --broker ID, --all-brokers.")
    if topic is not None:
        return Resource(TOPIC, topic)
    return Resource(BROKER, "" if broker is None else str(broker))


@config.command()
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option("--all", "show_all", is_flag=True, help="Those at their defaults as well.")
@whose
@broker_options
@refusing
def get(
    keys: tuple[str, ...],
    *,
    show_all: bool,
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Show the settings KEY..., or those that were changed, with where each comes from."""
    from client.settings import OVERRIDES, SOURCES, check_keys, describe

    resource = _resource(topic, broker, all_brokers=all_brokers)
    with connect(bootstrap, timeout_s) as connection:
        known = describe(connection, [resource])[resource]
        check_keys(connection, keys, known, resource)
    shown = [
        one
        for one in sorted(known, key=lambda one: one.name)
        if (one.name in keys if keys else show_all or one.config_source in OVERRIDES[resource.kind])
    ]
    if as_json:
        show_json([_as_json(one) for one in shown])
        return
    if not shown:
        click.echo(f"Nothing of {resource} was changed at run time; --all shows every setting.")
        return
    show_table(
        ["Key", "Value", "From"],
        [
            [one.name, _value(one), SOURCES.get(one.config_source, str(one.config_source))]
            for one in shown
        ],
    )


def _value(setting: Setting) -> str:
    return "(hidden)" if setting.is_sensitive else setting.value or ""


def _as_json(setting: Setting) -> dict[str, Any]:
    from client.settings import SOURCES

    return {
        "key": setting.name,
        "value": setting.value,
        "source": SOURCES.get(setting.config_source, str(setting.config_source)),
        "read_only": setting.read_only,
        "sensitive": setting.is_sensitive,
        "synonyms": [
            {"key": one.name, "value": one.value, "source": SOURCES.get(one.source, "")}
            for one in setting.synonyms
        ],
    }


@config.command("set")
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
@_DRY_RUN
@whose
@broker_options
@refusing
def set_(
    assignments: tuple[str, ...],
    *,
    dry_run: bool,
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Set KEY to VALUE; it holds at once, and after a restart."""
    from client.settings import parse_assignments

    resource = _resource(topic, broker, all_brokers=all_brokers)
    with connect(bootstrap, timeout_s) as connection:
        changes: dict[str, str | None] = dict(parse_assignments(assignments))
        _change(connection, resource, changes, dry_run=dry_run, as_json=as_json)


@config.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@_DRY_RUN
@whose
@broker_options
@refusing
def unset(
    keys: tuple[str, ...],
    *,
    dry_run: bool,
    topic: str | None,
    broker: int | None,
    all_brokers: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Take back what KEY was set to: the default, or the broker's own, holds again."""
    resource = _resource(topic, broker, all_brokers=all_brokers)
    with connect(bootstrap, timeout_s) as connection:
        _change(connection, resource, dict.fromkeys(keys), dry_run=dry_run, as_json=as_json)


def _change(
    connection: Connection,
    resource: Resource,
    changes: dict[str, str | None],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change settings and show each before and after, as the broker tells them."""
    from client.settings import alter, check_keys, describe

    known = describe(connection, [resource])[resource]
    check_keys(connection, changes, known, resource)
    before = {one.name: _value(one) for one in known}
    alter(connection, resource, changes, validate_only=dry_run)
    if dry_run:
        after = {key: "(its default)" if value is None else value for key, value in changes.items()}
    else:
        after = {one.name: _value(one) for one in describe(connection, [resource])[resource]}
    rows = [(key, before.get(key, ""), after.get(key, "")) for key in changes]
    if as_json:
        show_json(
            {
                "changed": not dry_run,
                "settings": [{"key": key, "before": old, "after": new} for key, old, new in rows],
            }
        )
        return
    for key, old, new in rows:
        verb = "would be" if dry_run else "is"
        click.echo(f"{resource}: {key} {verb} {new or '(empty)'}; it was {old or '(empty)'}.")
