"""The options of commands that ask a broker's HTTP listener: where it is, and its password."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from client.commands.output import TIMEOUT
from client.http.broker_http import BrokerHttp

VARIABLE = "BARNABAS_HTTP_PASSWORD"
HTTP = click.option(
    "--http", "http_address", metavar="HOST:PORT", default="127.0.0.1:9095", show_default=True,
    envvar="BARNABAS_HTTP", show_envvar=True,
    help=f"The broker's HTTP listener. {VARIABLE} is its password, if it has one, or"
    f" {VARIABLE}_FILE the file that has it.",
)  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])


def http_options(function: Function) -> Function:
    """Add --http, --timeout and --json to a command, which gets `http`."""

    @functools.wraps(function)
    def wrapped(*args: Any, http_address: str, timeout_s: float, **kwargs: Any) -> Any:
        return function(*args, http=opened(http_address, timeout_s), **kwargs)

    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    return HTTP(TIMEOUT(as_json(wrapped)))  # type: ignore[return-value]


def opened(http_address: str, timeout_s: float) -> BrokerHttp:
    """Return the listener. Raises click.ClickException if the password cannot be read."""
    return BrokerHttp(http_address, timeout_s, _password())


def _password() -> str | None:
    """Return the password as the broker reads it from its environment; no `ps` shows it."""
    from config.errors import ConfigError
    from config.secret_files import secret_of
    from config.values import Kind, parse

    try:
        found = secret_of(os.environ, VARIABLE)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    return None if found is None else str(parse(Kind.PASSWORD, found))
