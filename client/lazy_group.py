"""A click group whose subcommands live in modules of their own, imported when they are called.

A container's health check is a process every few seconds: it must not pay for what `serve` or a
table needs. A misspelt subcommand is answered with the one that was probably meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """`lazy` maps the name of a subcommand to `package.module:attribute`."""

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every subcommand, imported or not."""
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; a misspelt one ends in a usage error with a suggestion."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from client.suggest import did_you_mean

            hint = did_you_mean(args[0], self.list_commands(ctx)) if args else ""
            if not hint or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} {hint}", ctx) from None
