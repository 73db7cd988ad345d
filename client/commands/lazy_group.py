"""A click group whose subcommands live in modules of their own, imported when they are called.

A container's health check starts a process every few seconds: it must not import what only `serve`
or a table needs.

With --json, a wrong command line is an object with `error` on standard output, as other failures.

Every command runs inside this group, so it also handles early ends: a reader that stops reading
(`| head`) is a success, an output that cannot be written (a full disk, `>&-`) is reported in one
sentence, and Ctrl-C exits with code 130, whatever the command was doing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from client.commands.careful_command import CarefulGroup

_JSON = "client.json"  # in a context's meta: --json was given
INTERRUPTED = 130  # as shells report Ctrl-C


class LazyGroup(CarefulGroup):
    """`lazy` maps the name of a subcommand to `package.module:attribute`."""

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the name of every subcommand, imported or not."""
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand."""
        place = self._lazy.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], *more: Any, **kwargs: Any
    ) -> click.Context:
        """Parse the command line; --help and --version may write to an output that is closed."""
        _open_what_is_closed()
        is_json = "--json" in args
        with _early_ends(), _as_json(is_json=is_json):
            context = super().make_context(info_name, args, *more, **kwargs)
        context.meta[_JSON] = is_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and flush its output while an error can still be reported."""
        with _early_ends(), _as_json(is_json=ctx.meta[_JSON]):
            result = super().invoke(ctx)
            sys.stdout.flush()
        return result


@contextmanager
def _as_json(*, is_json: bool) -> Iterator[None]:
    """Print a wrong command line on standard output, too, as programs read it there."""
    try:
        with _utf8():
            yield
    except click.ClickException as error:
        if is_json:
            click.echo(json.dumps({"error": error.format_message()}, ensure_ascii=False))
        raise


@contextmanager
def _utf8() -> Iterator[None]:
    """Refuse names and texts of the command line with bytes that are no text."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise click.UsageError(f"{error.object!r} is not UTF-8, as names and texts are.") from None


@contextmanager
def _early_ends() -> Iterator[None]:
    """Turn an early end into its exit code and, where needed, one sentence."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        _close_output()
        raise click.exceptions.Exit(0) from None
    except OSError as error:
        _close_output()
        subject = "standard output" if error.filename is None else error.filename
        click.secho(f"{subject}: {error.strerror or error}", fg="red", err=True)
        raise click.exceptions.Exit(1) from None


def _open_what_is_closed() -> None:
    """Open a file in place of each standard stream that the caller closed (None in Python).

    Otherwise a socket or a log would get that descriptor. Reading the input and writing the output
    then fail as on a closed stream; what is written to standard error is lost.
    """
    for number, name, how in (
        (0, "stdin", os.O_WRONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, how)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            stream = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115 - stays open
            setattr(sys, name, stream)


def _close_output() -> None:
    """Discard unwritten output: Python would try to write it at exit, and print an error."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
