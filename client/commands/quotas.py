"""`barnabas quotas`: what users, client ids and addresses may use. Kafka's brokers answer, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from client.commands.careful_command import CarefulGroup
from client.commands.output import broker_options, connect, refusing, show_json, show_table
from client.kafka.quotas import Entity, QuotaRow, alter
from client.kafka.quotas import quotas as listed

KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
WORDS = {"user": "user", "client-id": "client id", "ip": "address"}


@click.group(cls=CarefulGroup)
def quotas() -> None:
    """List, set and remove quotas of users, client ids and addresses."""


def _entity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name an entity; the command gets `entity`."""

    @functools.wraps(function)
    def wrapped(
        *args: Any,
        user: str | None,
        any_user: bool,
        client_id: str | None,
        any_client_id: bool,
        address: str | None,
        any_address: bool,
        **kwargs: Any,
    ) -> Any:
        entity: list[tuple[str, str | None]] = []
        for kind, name, is_any in (
            ("user", user, any_user),
            ("client-id", client_id, any_client_id),
            ("ip", address, any_address),
        ):
            if name is not None and is_any:
                raise click.UsageError(
                    f"The {WORDS[kind]} is given by name and as any; give one of them."
                )
            if name is not None or is_any:
                entity.append((kind, name))
        return function(*args, entity=entity, **kwargs)

    result: Any = wrapped
    for name, text in (
        ("address", "address, with connection_creation_rate alone"),
        ("client-id", "client id"),
        ("user", "user; ANONYMOUS without a login"),
    ):
        word = name.replace("-", " ")
        parameter = name.replace("-", "_")
        result = click.option(
            f"--any-{name}",
            f"any_{parameter}",
            is_flag=True,
            help=f"Each {word} that has no quota of its own.",
        )(result)
        result = click.option(f"--{name}", parameter, metavar="NAME", help=f"This {text}.")(result)
    done: Callable[..., Any] = result
    return done


@quotas.command("list")
@_entity_options
@broker_options
@refusing
def list_quotas(entity: Entity, bootstrap: str, timeout_s: float, *, as_json: bool) -> None:
    """List the quotas, all of them or those of an entity."""
    with connect(bootstrap, timeout_s) as connection:
        rows = listed(connection, entity)
    if as_json:
        show_json([{"entity": dict(row.entity), "quotas": dict(row.values)} for row in rows])
        return
    show_table(
        ("of", "quota", "limit"),
        [
            (_described(row.entity), key, _number(value))
            for row in rows
            for key, value in row.values.items()
        ],
    )


@quotas.command("set")
@click.argument("limits", metavar="KEY=LIMIT...", nargs=-1, required=True)
@_entity_options
@broker_options
@refusing
def set_quotas(
    limits: tuple[str, ...], entity: Entity, bootstrap: str, timeout_s: float, *, as_json: bool
) -> None:
    """Set quotas of an entity: bytes, partitions or connections a second, or percent of a thread.

    For example: barnabas quotas set --user alice --any-client-id producer_byte_rate=1000000
    """
    values = dict(_limit(text) for text in limits)
    _need_entity(entity)
    with connect(bootstrap, timeout_s) as connection:
        alter(connection, entity, values)
    _tell(entity, values, "is now", as_json=as_json)


@quotas.command("remove")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@_entity_options
@broker_options
@refusing
def remove_quotas(
    keys: tuple[str, ...], entity: Entity, bootstrap: str, timeout_s: float, *, as_json: bool
) -> None:
    """Remove quotas of an entity; all of them without a KEY."""
    _need_entity(entity)
    for key in keys:
        _check_key(key)
    with connect(bootstrap, timeout_s) as connection:
        there = _quotas_of(listed(connection, entity), entity)
        gone = {key: value for key, value in there.items() if not keys or key in keys}
        missing = [key for key in keys if key not in there]
        if missing or not gone:
            what = ", ".join(missing) or "quota"
            raise click.ClickException(f"There is no {what} of {_described(entity)}.")
        alter(connection, entity, dict.fromkeys(gone))
    _tell(entity, gone, "is removed; it was", as_json=as_json)


def _quotas_of(rows: list[QuotaRow], entity: Entity) -> dict[str, float]:
    for row in rows:
        if dict(row.entity) == dict(entity):
            return dict(row.values)
    return {}


def _need_entity(entity: Entity) -> None:
    if not entity:
        raise click.UsageError(
            "Whose quota? Give --user, --client-id, both, or --address; or --any-user and so on."
        )


def _limit(text: str) -> tuple[str, float]:
    key, equals, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not equals or not value > 0:
        raise click.UsageError(f"{text!r} is no limit; expected KEY=NUMBER, above 0.")
    _check_key(key)
    return key, value


def _check_key(key: str) -> None:
    if key not in KEYS:
        raise click.UsageError(f"{key!r} is no quota; there are {', '.join(KEYS)}.")


def _tell(entity: Entity, values: dict[str, float], what: str, *, as_json: bool) -> None:
    if as_json:
        show_json({"entity": dict(entity), "quotas": values})
        return
    for key, value in values.items():
        click.echo(f"{_described(entity)}: {key} {what} {_number(value)}.")


def _described(entity: Entity) -> str:
    return ", ".join(
        f"any {WORDS.get(kind, kind)}" if name is None else f"{WORDS.get(kind, kind)} {name}"
        for kind, name in entity
    )


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)
