"""Commands that refuse an option given twice, where one of the two values would be lost.

Click takes the last value of an option that is not declared repeatable and says nothing. For a
command that changes offsets or settings this means half of what was asked for, with exit code 0. So
an option either adds up (`multiple=True`) or is refused when it comes twice.
"""

from __future__ import annotations

from collections import Counter

import click


class CarefulCommand(click.Command):
    """A command whose options count."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. Raises click.UsageError for a single option given twice."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(given).items():
            if count > 1 and isinstance(parameter, click.Option) and _holds_one(parameter):
                raise click.UsageError(
                    f"{parameter.opts[0]} was given {count} times and takes one value.", ctx
                )
        return super().parse_args(ctx, args)


def _holds_one(option: click.Option) -> bool:
    """Whether a second value would replace the first; a flag said twice still says the same."""
    return not (option.multiple or option.count or option.is_flag)


class CarefulGroup(click.Group):
    """A group whose own commands are careful."""

    command_class = CarefulCommand
