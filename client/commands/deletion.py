"""How a command deletes: it shows what will be deleted, asks, deletes, and says how much it was.

It asks on a terminal. Elsewhere, and with --json, it needs --yes or --dry-run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from client.commands.output import DRY_RUN, fail, show_json
from client.files.texts import plural

_YES = click.option("--yes", is_flag=True, help="Delete without asking.")


@dataclass(frozen=True, slots=True)
class Deletion:
    """The options of a command that deletes."""

    yes: bool
    dry_run: bool
    as_json: bool

    def run(
        self,
        noun: str,
        rows: list[dict[str, Any]],
        described: Callable[[dict[str, Any]], str],
        delete: Callable[[], list[str]],
        *,
        done: str = "Deleted",
    ) -> None:
        """Show `rows`, ask, and call `delete`, which returns a reason for each refusal.

        Raises click.UsageError if it cannot ask, click.Abort if the answer is no.
        """
        if not self.as_json:
            for row in rows:
                verb = "Would delete" if self.dry_run else "To be deleted:"
                click.echo(f"{verb} {described(row)}")
        if not self.dry_run:
            self._confirm()
            if refusals := delete():
                fail(*refusals)
        if self.as_json:
            show_json({"deleted": not self.dry_run, f"{noun}s": rows})
        elif not self.dry_run:
            click.echo(f"{done} {plural(len(rows), noun)}.")

    def _confirm(self) -> None:
        if self.yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise click.UsageError("Not a terminal; pass --yes to delete, or --dry-run.")
        click.confirm("Delete this? It cannot be undone", abort=True)


def deletes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --yes and --dry-run to a command; it gets them, and --json, as `deletion`."""

    @functools.wraps(function)
    def wrapped(*args: Any, yes: bool, dry_run: bool, as_json: bool, **others: Any) -> Any:
        return function(*args, deletion=Deletion(yes, dry_run, as_json), **others)

    return _YES(DRY_RUN(wrapped))
