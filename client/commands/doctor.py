"""`barnabas doctor`: what is wrong with a machine, configuration or directory, and what to do."""

from __future__ import annotations

import os
import sys

import click

from client.commands.careful_command import CarefulCommand
from client.commands.output import show_json


@click.command(cls=CarefulCommand)
@click.option("--config", "file", metavar="FILE", help="The broker's properties file.")
@click.option("--data", "data_dir", metavar="DIR", help="The data directory; sets log.dirs.")
@click.option(
    "--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Set one key; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(
    file: str | None, data_dir: str | None, assignments: tuple[str, ...], *, as_json: bool
) -> None:
    """Examine this machine for a broker, with the options and environment of `barnabas serve`.

    It looks at the file system, its room and how long an fdatasync takes, at limits, the clock,
    ports and advertised addresses, the configuration, and the data directory. The broker may be
    running. Nothing is changed; one file is written for timing and removed.

    Exit code: 0 a broker can work here, perhaps with warnings; 1 it cannot.
    """
    from client.files.doctor import examine, is_well
    from config.broker import BrokerConfig
    from config.errors import ConfigError
    from config.load import Loaded, load

    loaded: Loaded | ConfigError
    try:
        loaded = load(file=file, environment=os.environ, set_values=assignments, data_dir=data_dir)
        data = loaded.config.data_directory
    except ConfigError as error:
        loaded, data = error, data_dir or BrokerConfig().data_directory
    found = examine(loaded, data)
    if as_json:
        rows = [
            {"check": one.check, "weight": one.weight, "found": one.found, "do": one.remedy}
            for one in found
        ]
        show_json({"well": is_well(found), "findings": rows})
        sys.exit(0 if is_well(found) else 1)
    colours = {"good": "green", "note": "cyan", "warning": "yellow", "bad": "red"}
    for one in found:
        mark = click.style(one.weight.upper().ljust(8), fg=colours[one.weight])
        click.echo(f"{mark}{one.check}: {one.found}")
        if one.remedy:
            click.echo(f"        do: {one.remedy}")
    sys.exit(0 if is_well(found) else 1)
