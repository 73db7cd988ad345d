"""`barnabas config`: read and change the settings of topics and brokers at run time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from client.commands.careful_command import CarefulGroup
from client.commands.completing import setting_assignments, setting_keys, topic_names
from client.commands.config_diff import diff
from client.commands.output import (
    INT32_MAX,
    broker_options,
    connect,
    refusing,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from client.kafka.configs import Resource, Setting
    from client.kafka.connection import Connection

_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Let the broker check the change without making it."
)


@click.group(cls=CarefulGroup)
def config() -> None:
    """Read and change settings of topics and brokers while the broker is running.

    Select --topic NAME or --broker ID, both repeatable, or --all-brokers for the defaults of all
    brokers.
    """


config.add_command(diff)


def whose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the three options that select resources; the command gets these as `resources`."""

    @functools.wraps(function)
    def wrapped(
        *args: Any,
        topics: tuple[str, ...],
        brokers: tuple[int, ...],
        all_brokers: bool,
        **others: Any,
    ) -> Any:
        resources = _resources(topics, brokers, all_brokers=all_brokers)
        return function(*args, resources=resources, **others)

    command: Callable[..., Any] = wrapped
    for option in (
        click.option("--all-brokers", is_flag=True, help="The dynamic defaults of all brokers."),
        click.option(
            "--broker",
            "brokers",
            metavar="ID",
            type=click.IntRange(0, INT32_MAX),
            multiple=True,
            help="A broker; repeatable.",
        ),
        click.option(
            "--topic",
            "topics",
            metavar="NAME",
            multiple=True,
            help="A topic; repeatable.",
            shell_complete=topic_names,
        ),
    ):
        command = option(command)
    return command


def _resources(
    topics: tuple[str, ...], brokers: tuple[int, ...], *, all_brokers: bool
) -> list[Resource]:
    """Return the selected resources, each once, in order. Raises click.UsageError."""
    from client.kafka.configs import BROKER, TOPIC, Resource

    if bool(topics) + bool(brokers) + all_brokers != 1:
        raise click.UsageError("Pass exactly one of --topic NAME, --broker ID and --all-brokers.")
    names = topics or tuple(map(str, brokers)) or ("",)
    return [Resource(TOPIC if topics else BROKER, name) for name in dict.fromkeys(names)]


@config.command()
@click.argument("keys", metavar="[KEY]...", nargs=-1, shell_complete=setting_keys)
@click.option("--all", "show_all", is_flag=True, help="Include settings at their defaults.")
@whose
@broker_options
@refusing
def get(
    keys: tuple[str, ...],
    *,
    show_all: bool,
    resources: list[Resource],
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Show the settings KEY..., or all that were set, and where each value comes from.

    "at start" means the broker's properties file, environment or --set.
    """
    from client.kafka.configs import SOURCES, check_keys, describe, was_set

    with connect(bootstrap, timeout_s) as connection:
        known = describe(connection, resources)
        for resource in resources:
            check_keys(connection, keys, known[resource], resource)
    shown = [
        (resource, one)
        for resource in resources
        for one in sorted(known[resource], key=lambda one: one.name)
        if (one.name in keys if keys else show_all or was_set(resource, one))
    ]
    if as_json:
        show_json([_as_json(resource, one) for resource, one in shown])
        return
    if not shown:
        named = ", ".join(map(str, resources))
        click.echo(f"No setting of {named} was set; --all shows them all.")
        return
    whose_column = ["Of"] if len(resources) > 1 else []
    show_table(
        [*whose_column, "Key", "Value", "From"],
        [
            [
                *([str(resource)] if whose_column else []),
                one.name,
                _value(one),
                SOURCES.get(one.config_source, str(one.config_source)),
            ]
            for resource, one in shown
        ],
    )


def _value(setting: Setting) -> str:
    return "(hidden)" if setting.is_sensitive else setting.value or ""


def _as_json(resource: Resource, setting: Setting) -> dict[str, Any]:
    from client.kafka.configs import SOURCES

    return {
        "resource": str(resource),
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
@click.argument(
    "assignments",
    metavar="KEY=VALUE...",
    nargs=-1,
    required=True,
    shell_complete=setting_assignments,
)
@_DRY_RUN
@whose
@broker_options
@refusing
def set_(
    assignments: tuple[str, ...],
    *,
    dry_run: bool,
    resources: list[Resource],
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Set KEY to VALUE, effective at once and after a restart."""
    from client.settings import parse_assignments

    with connect(bootstrap, timeout_s) as connection:
        changes: dict[str, str | None] = dict(parse_assignments(assignments))
        _change(connection, resources, changes, dry_run=dry_run, as_json=as_json)


@config.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, shell_complete=setting_keys)
@click.option(
    "--data",
    "directory",
    metavar="DIR",
    type=click.Path(),
    help="Unset it in the data directory of a stopped broker.",
)
@_DRY_RUN
@whose
@broker_options
@refusing
def unset(
    keys: tuple[str, ...],
    *,
    directory: str | None,
    dry_run: bool,
    resources: list[Resource],
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Remove the value of KEY, so that the default, or the broker's own value, applies again.

    With --data the broker must be stopped: for values that keep all clients from connecting.
    """
    from client.kafka.configs import BROKER

    if directory is not None:
        if dry_run or resources[0].kind != BROKER:
            raise click.UsageError(
                "--data needs --broker or --all-brokers, and excludes --dry-run."
            )
        _unset_recorded(directory, resources, keys, as_json=as_json)
        return
    with connect(bootstrap, timeout_s) as connection:
        _change(connection, resources, dict.fromkeys(keys), dry_run=dry_run, as_json=as_json)


def _unset_recorded(
    directory: str, resources: list[Resource], keys: tuple[str, ...], *, as_json: bool
) -> None:
    from client.files.recorded_settings import unset_recorded
    from client.files.stopped_directory import NotRecorded
    from client.kafka.configs import BROKER, Resource
    from storage.errors import DirectoryLocked, StorageError

    try:
        removed = unset_recorded(directory, [resource.name for resource in resources], keys)
    except DirectoryLocked as error:
        raise click.ClickException(f"{error} Or unset it without --data.") from None
    except (NotRecorded, StorageError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror}") from None
    rows = [(Resource(BROKER, name), key, was) for name, key, was in removed]
    if as_json:
        show_json([{"resource": str(of), "key": key, "before": was} for of, key, was in rows])
        return
    for of, key, was in rows:
        click.echo(f"{of}: {key} is no longer recorded; it was {was or '(empty)'}.")


def _change(
    connection: Connection,
    resources: list[Resource],
    changes: dict[str, str | None],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change settings of each resource; show each before and after, as the broker reports them."""
    from client.kafka.configs import alter, check_keys, describe

    before = describe(connection, resources)
    for resource in resources:
        check_keys(connection, changes, before[resource], resource)
    alter(connection, resources, changes, validate_only=dry_run)
    after = {} if dry_run else describe(connection, resources)
    rows = []
    for resource in resources:
        old = {one.name: _value(one) for one in before[resource]}
        if dry_run:
            new = {key: "(its default)" if one is None else one for key, one in changes.items()}
        else:
            new = {one.name: _value(one) for one in after[resource]}
        rows += [(resource, key, old.get(key, ""), new.get(key, "")) for key in changes]
    if as_json:
        show_json(
            {
                "changed": not dry_run,
                "settings": [
                    {"resource": str(resource), "key": key, "before": was, "after": will_be}
                    for resource, key, was, will_be in rows
                ],
            }
        )
        return
    for resource, key, was, will_be in rows:
        verb = "would be" if dry_run else "is"
        click.echo(f"{resource}: {key} {verb} {will_be or '(empty)'}; it was {was or '(empty)'}.")
