"""The command `barnabas`: what it accepts, and which part of the house answers it.

    serve                           runs the broker (here)
    topics, groups, config, health  ask a running broker (client/commands/, client/kafka/)
    produce, consume                send and read records (client/commands/, client/msgpack/)
    dump, verify                    read a data directory (client/commands/, client/files/)

This is the top layer: it may import everything and nobody imports it. It imports late, because a
start should pay for nothing it does not use: the broker when it serves, a command's module when it
is called, `rich` when a terminal is there to show it on. Exit codes of `serve`: 0 done, 1 the
broker failed, 2 the command or the configuration was refused.
"""

from __future__ import annotations

import gc
import os
import sys

import click

from client.commands.lazy_group import LazyGroup
from config.errors import ConfigError

REFUSED = 2
COMMANDS = {
    "config": "client.commands.config:config",
    "consume": "client.commands.consume:consume",
    "dump": "client.commands.dump:dump",
    "groups": "client.commands.groups:groups",
    "health": "client.commands.health:health",
    "produce": "client.commands.produce:produce",
    "topics": "client.commands.topics:topics",
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
    help="Show the version and leave.",
)
def main() -> None:
    """Barnabas: a single-node log broker that speaks Kafka's protocol."""


@main.command()
@click.option("--config", "file", metavar="FILE", help="A properties file; a Kafka's works.")
@click.option("--data", "data_dir", metavar="DIR", help="The data directory, as log.dirs.")
@click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="One key's value; beats environment and file. May be repeated.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Serve the directory and change nothing in it, as barnabas.read.only=true.",
)
def serve(
    file: str | None, data_dir: str | None, assignments: tuple[str, ...], *, read_only: bool
) -> None:
    """Run the broker until SIGTERM or SIGINT; a second one hurries the stop.

    Values come from the file, from environment variables (BARNABAS_NUM_PARTITIONS, or as for the
    apache/kafka image KAFKA_NUM_PARTITIONS) and from --set, the later ones holding.
    """
    from config.load import load

    if read_only:
        assignments = (*assignments, "barnabas.read.only=true")
    try:
        loaded = load(file=file, environment=os.environ, set_values=assignments, data_dir=data_dir)
    except ConfigError as error:
        _say(f"barnabas cannot start: {error}")
        sys.exit(REFUSED)
    gc.disable()  # until it serves: what a start makes stays
    from broker.server import run

    sys.exit(run(loaded))


def _say(sentence: str) -> None:
    """Write a sentence to standard error, in colour where a person reads it."""
    if sys.stderr.isatty():
        from rich.console import Console

        Console(stderr=True).print(sentence, style="bold red", markup=False, highlight=False)
    else:
        click.echo(sentence, err=True)


if __name__ == "__main__":
    main()
