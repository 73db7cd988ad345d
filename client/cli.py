"""The command `barnabas`: its options and subcommands, and which part of the house runs them.

    serve                           runs the broker (here)
    topics, groups, transactions,   talk to a running broker (client/commands/, client/kafka/)
    config, acls, quotas, health
    top, clients, metrics           ask the HTTP listener (client/http/, client/top/)
    produce, consume                send and read records (client/commands/, client/msgpack/)
    dump, verify, backup, restore   read a data directory (client/commands/, client/files/)
    doctor                          examines a machine and a data directory (the same)
    certificates                    makes files for TLS (client/commands/, client/files/)

This is the top layer: it may import everything, and nothing imports it. It imports late, so that a
start does not pay for what it does not use: the broker when it serves, a command's module when the
command is called, `rich` when there is a terminal to show it on. Exit codes of `serve`: 0 done, 1
the broker failed, 2 the command or the configuration was refused.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from client.commands.lazy_group import LazyGroup
from config.errors import ConfigError

if TYPE_CHECKING:
    from config.load import Loaded

REFUSED = 2
TEST_CONTROL = "BARNABAS_TEST_CONTROL"  # the option, for images
COMMANDS = {
    "acls": "client.commands.acls:acls",
    "backup": "client.commands.backup:backup",
    "certificates": "client.commands.certificates:certificates",
    "clients": "client.commands.clients:clients",
    "completion": "client.commands.completion:completion",
    "config": "client.commands.config:config",
    "consume": "client.commands.consume:consume",
    "doctor": "client.commands.doctor:doctor",
    "dump": "client.commands.dump:dump",
    "groups": "client.commands.groups:groups",
    "health": "client.commands.health:health",
    "metrics": "client.commands.metrics:metrics",
    "nursery": "client.commands.nursery:nursery",
    "produce": "client.commands.produce:produce",
    "quotas": "client.commands.quotas:quotas",
    "restore": "client.commands.backup:restore",
    "top": "client.commands.top:top",
    "topics": "client.commands.topics:topics",
    "transactions": "client.commands.transactions:transactions",
    "unit": "client.commands.unit:unit",
    "users": "client.commands.users:users",
    "verify": "client.commands.verify:verify",
}


def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("barnabas")
    except metadata.PackageNotFoundError:
        return "not installed (running from a source tree)"


def _show_version(context: click.Context, _option: click.Parameter, value: object) -> None:
    if value:
        click.echo(f"barnabas {_version()}")
        context.exit()


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Barnabas: a single-node log broker that speaks Kafka's protocol."""


@main.command()
@click.option(
    "--config", "file", metavar="FILE", help="A properties file, as Kafka's server.properties."
)
@click.option("--data", "data_dir", metavar="DIR", help="The data directory; sets log.dirs.")
@click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set one key; overrides environment and file. Repeatable.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Change nothing in the directory; sets barnabas.read.only=true.",
)
@click.option(
    "--test-control",
    metavar="HOST:PORT",
    help="Obey tests by JSON over HTTP there; only for brokers whose data nobody needs.",
)
def serve(
    file: str | None,
    data_dir: str | None,
    assignments: tuple[str, ...],
    *,
    read_only: bool,
    test_control: str | None,
) -> None:
    """Run the broker until SIGTERM or SIGINT; a second signal stops it without waiting.

    Configuration comes from the file, then environment variables (BARNABAS_NUM_PARTITIONS, or
    KAFKA_NUM_PARTITIONS as in the apache/kafka image), then --set; each overrides the one before.
    """
    import functools

    from config.load import load

    if read_only:
        assignments = (*assignments, "barnabas.read.only=true")
    environment = dict(os.environ)
    test_control = test_control or environment.get(TEST_CONTROL)
    environment.pop(TEST_CONTROL, None)
    read = functools.partial(
        load, file=file, environment=environment, set_values=assignments, data_dir=data_dir
    )
    try:
        loaded = read()
    except ConfigError as error:
        _say(f"barnabas cannot start: {error}")
        sys.exit(REFUSED)
    if test_control:
        sys.exit(_serve_for_tests(loaded, read, test_control))
    gc.disable()  # until it serves: what a start allocates is kept
    from broker.server import run

    sys.exit(run(loaded, read))


def _serve_for_tests(loaded: Loaded, read: Callable[..., Loaded], place: str) -> int:
    """Run the broker as a child that tests may kill, and serve their commands."""
    from broker.testing.command_refused import CommandRefused
    from broker.testing.control_http import serve as serve_commands

    values = read.keywords["set_values"]  # type: ignore[attr-defined]

    def with_settings(settings: Mapping[str, str]) -> Loaded:
        kept = [one for one in values if one.partition("=")[0].strip() not in settings]
        return read(set_values=[*kept, *(f"{key}={value}" for key, value in settings.items())])

    try:
        return serve_commands(loaded, with_settings, place)
    except (CommandRefused, OSError) as error:
        _say(f"barnabas cannot start: {error}")
        return REFUSED


def _say(sentence: str) -> None:
    """Write a sentence to standard error, in colour on a terminal."""
    if sys.stderr.isatty():
        from rich.console import Console

        Console(stderr=True).print(sentence, style="bold red", markup=False, highlight=False)
    else:
        click.echo(sentence, err=True)


if __name__ == "__main__":
    main()
