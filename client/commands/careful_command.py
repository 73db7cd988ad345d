"""Commands that refuse an option given twice if one of the two values would be lost.

Of an option that is not repeatable, click silently takes the last value. A command that changes
offsets or settings would then do half of what was asked for, and exit with code 0. So an option
either collects its values (`multiple=True`) or is refused when it is given twice.
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
