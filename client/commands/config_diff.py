"""`barnabas config diff`: what differs from the defaults, and where each value comes from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from client.commands.careful_command import CarefulCommand
from client.commands.completing import topic_names
from client.commands.output import (
    INT32_MAX,
    broker_options,
    connect,
    refusing,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from client.kafka.configs import Setting

STATIC: Final = 4  # Kafka's ConfigSource
DEFAULT: Final = 5
_ORIGIN: Final = re.compile(r" Set by (\S.*)\.$", re.DOTALL)


@click.command(cls=CarefulCommand)
@click.option(
    "--topic", "topics", metavar="NAME", multiple=True, help="A topic; repeatable.",
    shell_complete=topic_names,
)  # fmt: skip
@click.option(
    "--broker", "broker", metavar="ID", type=click.IntRange(0, INT32_MAX),
    help="A broker [default: the one that answers].",
)  # fmt: skip
@broker_options
@refusing
def diff(
    *,
    topics: tuple[str, ...],
    broker: int | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Show the settings that differ from their defaults, and where each was given.

    That is the command line, a variable of the environment, a line of the file, or a change at run
    time. Of Apache Kafka, all that is given before the start is "at start".
    """
    from client.kafka.admin import cluster
    from client.kafka.configs import BROKER, TOPIC, Resource, describe

    if topics and broker is not None:
        raise click.UsageError("Pass --topic or --broker, not both.")
    with connect(bootstrap, timeout_s) as connection:
        resources = [Resource(TOPIC, name) for name in dict.fromkeys(topics)]
        if not resources:
            number = cluster(connection).brokers[0].node_id if broker is None else broker
            resources = [Resource(BROKER, str(number))]
        found = describe(connection, resources, documented=True)
    rows = [
        (str(resource), one.name, _shown(one, one.value), _default(one), origin_of(one))
        for resource in resources
        for one in sorted(found[resource], key=lambda one: one.name)
        if differs(one)
    ]
    names = ("resource", "key", "value", "default", "from")
    if as_json:
        show_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    if not rows:
        click.echo("Nothing differs from the defaults.")
        return
    show_table(
        ["Of", "Key", "Value", "Default", "From"],
        [
            [*row[:2], *("(none)" if one is None else one for one in row[2:4]), row[4]]
            for row in rows
        ],
    )


def differs(setting: Setting) -> bool:
    """Whether a value was given, and is not the default."""
    if setting.config_source == DEFAULT or setting.name in ("node.id", "broker.id"):
        return False
    return setting.is_sensitive or setting.value != _default(setting)


def _default(setting: Setting) -> str | None:
    return next((one.value for one in setting.synonyms if one.source == DEFAULT), None)


def _shown(setting: Setting, value: Any) -> str | None:
    return "(hidden)" if setting.is_sensitive else value


def origin_of(setting: Setting) -> str:
    """Return where a value was given, in words."""
    from client.kafka.configs import SOURCES

    said = _ORIGIN.search(setting.documentation or "")
    if setting.config_source != STATIC or said is None:
        return SOURCES.get(setting.config_source, str(setting.config_source))
    origin = said[1]
    if origin.startswith("--"):
        return f"command line, {origin}"
    if re.fullmatch(r"(KAFKA|BARNABAS)_[A-Z0-9_]+", origin):
        return f"environment, {origin}"
    return f"file, {origin}"
