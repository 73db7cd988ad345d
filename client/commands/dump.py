"""`barnabas dump`: the contents of a data directory, as Kafka's DumpLogSegments shows them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator

import click

from client.commands.careful_command import CarefulCommand
from client.commands.output import INT64_MAX

DAMAGED = 1
REFUSED = 2


@click.command(cls=CarefulCommand)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--short", "form", flag_value="short", help="Print one line per record and none per batch."
)
@click.option("--json", "form", flag_value="json", help="Print one JSON object per line.")
@click.option("--records/--no-records", default=True, help="Show the records in each batch.")
@click.option("--values/--no-values", default=True, help="Show keys and values of records.")
@click.option(
    "--metadata/--no-metadata",
    default=None,
    help="Read values as metadata records [default: in __cluster_metadata-0 and *.checkpoint].",
)
@click.option(
    "--transaction-state/--no-transaction-state",
    default=None,
    help="Read records as states of transactional ids [default: in __transaction_state-*].",
)
@click.option(
    "--from-offset", "offset_start", metavar="N", type=click.IntRange(0, INT64_MAX), default=0,
    help="Start at this offset.",
)  # fmt: skip
@click.option(
    "--limit", "record_count_max", metavar="N", type=click.IntRange(1, INT64_MAX),
    help="Stop after this many records (with --no-records: batches) of each file.",
)  # fmt: skip
def dump(
    paths: tuple[str, ...],
    *,
    form: str | None,
    records: bool,
    values: bool,
    metadata: bool | None,
    transaction_state: bool | None,
    offset_start: int,
    record_count_max: int | None,
) -> None:
    """Show the contents of .log, .index, .timeindex, .snapshot, .producers and .txnindex files.

    PATH is such a file, or the directory of a partition. The metadata log, its snapshots and
    __transaction_state are shown as JSON records. Messages of magic 0 and 1 are shown too. Nothing
    is written, and the broker may be running.

    The lines are the same as those of Kafka's DumpLogSegments, for programs that parse them.
    Control characters in keys and values are escaped.

    Exit code: 0 everything was shown; 1 something was damaged; 2 a path cannot be shown.
    """
    from client.files.dump import (
        NotDumpable,
        dump_lines,
        files_in,
        is_metadata,
        is_transaction_state,
    )
    from client.files.dump_log import KAFKA, Shown

    complaints: list[str] = []

    def complain(sentence: str) -> None:
        complaints.append(sentence)
        click.echo(sentence, err=True)

    shown_as = Shown(
        form=form or KAFKA,
        records=records,
        values=values,
        offset_start=offset_start,
        record_count_max=record_count_max,
    )
    refused: list[str] = []

    def lines_of(path: str) -> Iterator[str]:
        """Yield the lines, and report what cannot be read. Write errors are not caught here."""
        try:
            for file in files_in(path):
                as_shown = dataclasses.replace(
                    shown_as,
                    metadata=_chosen(metadata, is_metadata(file)),
                    transactions=_chosen(transaction_state, is_transaction_state(file)),
                )
                yield from dump_lines(file, as_shown, complain)
        except (NotDumpable, OSError) as error:
            click.echo(_why(path, error), err=True)
            refused.append(path)

    write = sys.stdout.write
    for path in paths:
        for line in lines_of(path):
            write(line + "\n")
    if refused:
        sys.exit(REFUSED)
    if complaints:
        click.echo("Some of it is damaged; `barnabas verify` says what that means.", err=True)
        sys.exit(DAMAGED)


def _chosen(option: bool | None, default: bool) -> bool:  # noqa: FBT001
    return default if option is None else option


def _why(path: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or path}: {error.strerror or error}"
    return str(error)
