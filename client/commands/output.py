"""How commands print: tables on a terminal, plain columns into a pipe, JSON for programs.

A table wider than the terminal is printed as one block of lines per row, so that names and ids are
not broken and can be copied.

`rich` is imported only to show a table on a terminal. A command that fails prints one sentence to
standard error and exits with code 1; a wrong command line exits with click's code 2.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn, TypeVar

import click

from client.addresses import Address, login_of, tls_of
from client.kafka.connection import BrokerError, Connection

FAILED = 1
WIDE: Final = 100_000  # columns: wider than any table needs
INT16_MAX: Final = (1 << 15) - 1  # the protocol's integers: larger numbers cannot be sent
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1


class Seconds(click.FloatRange):
    """A duration in seconds. Refuses `nan`, which click takes for a number of any range."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number, or fail as click does."""
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return found


DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Show what would be done, and change nothing."
)
TIMEOUT = click.option(
    "--timeout", "timeout_s", metavar="SECONDS", type=Seconds(min=0.001, max=86_400), default=10.0,
    show_default=True, help="How long to wait for each answer.",
)  # fmt: skip

COMMAND_CONFIG = click.option(
    "--command-config", metavar="FILE", envvar="BARNABAS_COMMAND_CONFIG", show_envvar=True,
    help="A properties file with the client's security.protocol and ssl.* keys.",
)  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])


def broker_options(function: Function) -> Function:
    """Add --bootstrap, --timeout and --json to a command that asks a broker."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    bootstrap = _bootstrap_option("BARNABAS_BOOTSTRAP")
    return bootstrap(COMMAND_CONFIG(TIMEOUT(as_json(_secured(function)))))


def record_options(function: Function) -> Function:
    """Add --bootstrap and --timeout to a command that moves records; see `in_its_dialect`."""
    bootstrap = _bootstrap_option("BARNABAS_MSGPACK_BOOTSTRAP", "BARNABAS_BOOTSTRAP")
    return bootstrap(COMMAND_CONFIG(TIMEOUT(_secured(function))))


def in_its_dialect(bootstrap: str, timeout_s: float) -> str:
    """Return the address with the dialect that its listener speaks; exit if none answers."""
    connection = Connection(bootstrap, timeout_s, is_msgpack=not bootstrap.endswith(":9092"))
    try:
        connection.introduce()
    except BrokerError as error:
        fail(str(error))
    connection.close()
    if connection.is_msgpack:
        return bootstrap
    return Address(bootstrap, tls_of(bootstrap), login_of(bootstrap), is_kafka=True)


def _secured(function: Function) -> Function:
    """Give `bootstrap` the TLS and the login that the file of --command-config asks for."""

    @functools.wraps(function)
    def wrapped(*args: Any, bootstrap: str, command_config: str | None, **kwargs: Any) -> Any:
        if command_config is not None:
            # By name: a health check without a file imports neither `config` nor `ssl`.
            found = import_module("client.security_file").read_security(command_config)
            if any(found):
                bootstrap = Address(bootstrap, found.tls, found.login)
        return function(*args, bootstrap=bootstrap, **kwargs)

    return wrapped  # type: ignore[return-value]


def _bootstrap_option(*variables: str) -> Callable[[Function], Function]:
    """Return the option --bootstrap; without it and `variables`, this machine's broker is asked."""
    return click.option(
        "--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True,
        envvar=list(variables), show_envvar=True,
        help="A listener of the broker, for Kafka's protocol or msgpack.",
    )  # fmt: skip


def refusing(function: Function) -> Function:
    """Print a BrokerError that a command raises as one sentence, and exit with code 1."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BrokerError as error:
            fail(str(error))

    return wrapped  # type: ignore[return-value]


def connect(bootstrap: str, timeout_s: float) -> Connection:
    """Return a connection that a `with` statement opens."""
    return Connection(bootstrap, timeout_s)


def fail(*sentences: str) -> NoReturn:
    """Print what was not done and why, one line each, and exit with code 1.

    With --json, standard output gets an object with `error`, so that programs need not read both.
    """
    context = click.get_current_context(silent=True)
    if context is not None and context.params.get("as_json"):
        show_json({"error": " ".join(sentences)})
    for sentence in sentences:
        click.secho(sentence, fg="red", err=True)
    sys.exit(FAILED)


def show_json(value: Any) -> None:
    """Print one JSON value on one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their columns, with numbers aligned to the right."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    right = [
        bool(rows) and all(isinstance(row[n], int | None) for row in rows)
        for n in range(len(columns))
    ]
    if sys.stdout.isatty():
        _show_rich(columns, texts, right)
        return
    widths = [max([len(name), *(len(row[n]) for row in texts)]) for n, name in enumerate(columns)]
    for row in [list(columns), *texts]:
        cells = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def _show_rich(columns: Sequence[str], texts: Sequence[list[str]], right: Sequence[bool]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, is_right in zip(columns, right, strict=True):
        table.add_column(name, justify="right" if is_right else "left")
    for row in texts:
        table.add_row(*(Text(cell) for cell in row))
    if console.measure(table, options=console.options.update(width=WIDE)).maximum > console.width:
        _show_blocks(columns, texts)
    else:
        console.print(table)


def _show_blocks(columns: Sequence[str], texts: Sequence[list[str]]) -> None:
    """Print each row as one line per cell, which the terminal wraps where it must."""
    width = max(map(len, columns))
    for number, row in enumerate(texts):
        if number:
            click.echo()
        for name, cell in zip(columns, row, strict=True):
            click.echo(f"{click.style(name.ljust(width), bold=True)}  {cell}".rstrip())
