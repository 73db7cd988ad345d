"""`barnabas nursery`: the process from which the test kit (pytest-barnabas) gets its brokers."""

from __future__ import annotations

import gc
import os
import sys

import click

from client.commands.careful_command import CarefulCommand


@click.command(cls=CarefulCommand, hidden=True)
@click.option("--directory", metavar="DIR", help="Where directories of brokers are made.")
def nursery(directory: str | None) -> None:
    """Fork brokers for tests, by commands on standard input, until it ends.

    This is the other side of pytest-barnabas, and not for use by hand.
    """
    parent = os.getppid()
    gc.disable()  # what is loaded is kept; each broker collects once it serves
    from broker.testing.nursery import run

    sys.exit(run(directory, parent))
