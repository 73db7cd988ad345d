"""Commands that refuse an option given twice if one of the two values would be lost.

Of an option that is not repeatable, click silently takes the last value. A command that changes
offsets or settings would then do half of what was asked for, and exit with code 0. So an option
either collects its values (`multiple=True`) or is refused when it is given twice.

A misspelt subcommand of a group gets the nearest one as a suggestion.
"""

from __future__ import annotations

from collections import Counter

import click


class CarefulCommand(click.Command):
    """A command that counts how often each option was given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Raises click.UsageError if a single-valued option is given twice."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(given).items():
            if count > 1 and isinstance(parameter, click.Option) and _holds_one(parameter):
                raise click.UsageError(
                    f"{parameter.opts[0]} was given {count} times, but takes one value.", ctx
                )
        return super().parse_args(ctx, args)


def _holds_one(option: click.Option) -> bool:
    """Whether a second value would replace the first. A repeated flag means the same."""
    return not (option.multiple or option.count or option.is_flag)


class CarefulGroup(click.Group):
    """A group whose commands are `CarefulCommand`s."""

    command_class = CarefulCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand. Raises click.UsageError, with a suggestion for a misspelt name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from client.suggest import did_you_mean

            hint = did_you_mean(args[0], self.list_commands(ctx)) if args else ""
            if not hint or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} {hint}", ctx) from None
