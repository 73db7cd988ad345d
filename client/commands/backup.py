"""`barnabas backup` and `barnabas restore`: copies of the data directory of a running broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from client.commands.careful_command import CarefulCommand
from client.commands.output import fail, show_json

if TYPE_CHECKING:
    from client.files.backup_run import Done

_NO_VERIFY = click.option("--no-verify", is_flag=True, help="Do not verify the copy.")
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command(cls=CarefulCommand)
@click.argument("data", metavar="DATA", type=click.Path())
@click.argument("to", metavar="BACKUPS", type=click.Path())
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(min=1),
    help="Remove the oldest backups, so that N stay.",
)
@_NO_VERIFY
@_AS_JSON
def backup(data: str, to: str, *, keep: int | None, no_verify: bool, as_json: bool) -> None:
    """Back up the data directory DATA to a new directory inside BACKUPS.

    The broker, Barnabas or Apache Kafka, may be running. The backup holds everything that was
    acknowledged before the command began, all logs as of one moment. Files that an earlier backup
    in BACKUPS has are linked, so each backup is complete and costs what is new.
    """
    from client.files.backup_run import back_up

    done = _run(lambda: back_up(data, to, keep=keep or 0, check=not no_verify))
    if as_json:
        show_json(_as_json(done) | {"removed": list(done.removed), "attempts": done.passes})
        return
    counts = done.counts
    click.echo(f"Backup: {done.path}")
    click.echo(
        f"{_size(counts.copied_bytes)} copied in {_files(counts.copied_files)}, "
        f"{_size(counts.linked_bytes)} linked in {_files(counts.linked_files)}{_verified(done)}."
    )
    for name in done.removed:
        click.echo(f"Removed the backup {name}.")


@click.command(cls=CarefulCommand)
@click.argument("backup_path", metavar="BACKUP", type=click.Path())
@click.argument("data", metavar="DATA", type=click.Path())
@_NO_VERIFY
@_AS_JSON
def restore(backup_path: str, data: str, *, no_verify: bool, as_json: bool) -> None:
    """Restore BACKUP to the new or empty directory DATA.

    BACKUP is one backup, or the directory of `barnabas backup`: then the newest is taken.
    """
    from client.files.backup_run import find_backup
    from client.files.backup_run import restore as run

    found = _run(lambda: find_backup(backup_path))
    done = _run(lambda: run(found, data, check=not no_verify))
    if as_json:
        show_json(_as_json(done) | {"backup": found})
        return
    counts = done.counts
    click.echo(
        f"Restored {found} to {done.path}: {_size(counts.copied_bytes)} in "
        f"{_files(counts.copied_files)}{_verified(done)}."
    )


def _run(call: Callable[[], Any]) -> Any:
    """Return what a call returns; where it is refused or fails, say why and exit."""
    from client.files.backup_cut import NotBackedUp

    try:
        return call()
    except NotBackedUp as error:
        fail(f"{error}.")
    except OSError as error:
        name = error.filename2 or error.filename or "the backup"
        fail(f"{name}: {error.strerror or error}. Nothing was changed.")


def _as_json(done: Done) -> dict[str, Any]:
    counts = done.counts
    return {
        "path": done.path,
        "copied_files": counts.copied_files,
        "copied_bytes": counts.copied_bytes,
        "linked_files": counts.linked_files,
        "linked_bytes": counts.linked_bytes,
        "verified": done.report is not None,
    }


def _size(count: int) -> str:
    from client.units import size_text

    return size_text(count)


def _files(count: int) -> str:
    from client.files.texts import plural

    return plural(count, "file")


def _verified(done: Done) -> str:
    from client.files.texts import plural

    if done.report is None:
        return ", not verified"
    return f", verified ({plural(done.report.batch_count, 'batch')})"
