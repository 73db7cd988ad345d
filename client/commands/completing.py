"""Completion of what only the broker knows, and of settings: topics, groups and keys.

A shell waits for it at each Tab. So the broker at the command's --bootstrap gets half a second, and
one that does not answer, or refuses, completes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from client.kafka.connection import Connection

PATIENCE_S: Final = 0.5
DEFAULT: Final = "127.0.0.1:9092"


def topic_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics that begin so; internal ones only if they are asked for."""

    def ask(connection: Connection) -> list[str]:
        from client.kafka import admin

        return [one.name or "" for one in admin.cluster(connection).topics]

    is_internal = incomplete.startswith("_")
    return [
        name
        for name in _asked(context, ask)
        if name.startswith(incomplete) and (is_internal or not name.startswith("__"))
    ]


def group_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the groups that begin so."""

    def ask(connection: Connection) -> list[str]:
        from client.kafka import groups

        return [one.group_id for one in groups.list_groups(connection)]

    return [name for name in _asked(context, ask) if name.startswith(incomplete)]


def setting_keys(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the settings that begin so: of topics, or of brokers if one is selected."""
    if context.params.get("brokers") or context.params.get("all_brokers"):
        from config.broker_names import broker_names

        return sorted(name for name in broker_names() if name.startswith(incomplete))
    return _topic_keys(incomplete)


def setting_assignments(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the same, each with an equals sign."""
    return [f"{name}=" for name in setting_keys(context, parameter, incomplete)]


def group_assignments(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Return the settings of groups that begin so, each with an equals sign."""
    from config.resources import GROUP_KEYS

    return [f"{name}=" for name in sorted(GROUP_KEYS) if name.startswith(incomplete)]


def _topic_keys(incomplete: str) -> list[str]:
    from config.topic import topic_keys

    return sorted(name for name in topic_keys() if name.startswith(incomplete))


def _asked(context: click.Context, ask: Callable[[Connection], list[str]]) -> list[str]:
    """Return what a broker answers; nothing for whatever goes wrong."""
    from client.addresses import Address
    from client.kafka.connection import Connection

    given = context.params.get("bootstrap")
    place = given or os.environ.get("BARNABAS_BOOTSTRAP") or DEFAULT
    file = context.params.get("command_config") or os.environ.get("BARNABAS_COMMAND_CONFIG")
    try:
        if file:
            from client.security_file import read_security

            found = read_security(file)
            place = Address(place, found.tls, found.login)
        with Connection(place, PATIENCE_S) as connection:
            return ask(connection)
    except Exception:
        return []
