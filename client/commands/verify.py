"""`barnabas verify`: whether the files on disk hold what was written."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from client.commands.careful_command import CarefulCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from client.files.findings import Finding, Report

DAMAGED = 1
REFUSED = 2


@click.command(cls=CarefulCommand)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option("--records", is_flag=True, help="Also open every batch and check its records.")
@click.option("--compacted", is_flag=True, help="Accept gaps in the offsets as left by compaction.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
@click.option(
    "--quiet", is_flag=True, help="Print no notes, and nothing at all if everything is sound."
)
def verify(
    paths: tuple[str, ...], *, records: bool, compacted: bool, as_json: bool, quiet: bool
) -> None:
    """Check a data directory, a partition's directory, or single files. Nothing is written.

    It checks the checksum, size and order of every batch, offsets against file names, offset and
    time indexes against the log, producer snapshots, checkpoints, and the metadata log. The broker
    may be running; what it appends meanwhile is not read.

    Some damage cannot be detected: a checkpoint whose number was changed to another possible one,
    or a wrong base offset inside a gap that compaction left.

    Exit code: 0 sound; 1 damaged; 2 a path cannot be checked.
    """
    from client.files.verify import NotVerifiable, Verification, log_bytes
    from storage.files.os_filesystem import OsFileSystem

    with _bar(as_json=as_json, total=lambda: log_bytes(paths)) as (progress, began):
        run = Verification(
            OsFileSystem(),
            open_records=records,
            all_compacted=compacted,
            progress=progress,
            began=began,
        )
        refusal = ""
        try:
            report = run.run(paths)
        except NotVerifiable as error:
            refusal = str(error)
        except OSError as error:
            refusal = f"{error.filename or paths[0]}: {error.strerror or error}"
    if refusal:
        if as_json:
            click.echo(json.dumps({"error": refusal}, ensure_ascii=False))
        click.echo(refusal, err=True)
        sys.exit(REFUSED)
    if as_json:
        click.echo(json.dumps(report.as_json() | {"broker_pid": run.holder}))
    else:
        _tell(report, run.holder, quiet=quiet)
    sys.exit(0 if report.is_sound else DAMAGED)


@contextmanager
def _bar(
    *, as_json: bool, total: Callable[[], int]
) -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """Show a progress bar, on a terminal only."""
    if as_json or not sys.stderr.isatty():
        yield _ignore, _ignore
        return
    import os

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns: tuple[Any, ...] = (
        BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total())
        yield (
            lambda count: bar.advance(task, count),
            lambda path: bar.update(task, description=os.path.basename(path)),
        )


def _ignore(_value: object) -> None:
    """Show no progress."""


def _tell(report: Report, holder: int | None, *, quiet: bool) -> None:
    """Print the report as text."""
    from client.files.texts import plural
    from client.units import size_text

    for finding in report.findings:
        if not (quiet and finding.weight == "note"):
            _tell_finding(finding)
    for (path, kind), count in report.untold.items():
        click.echo(f"{path}: {plural(count, 'more finding')} of kind {kind}")
    if quiet and report.is_sound:
        return
    if holder is not None:
        who = f"process {holder}" if holder else "in another container"
        click.echo(f"A broker ({who}) is running on it; records appended meanwhile were not read.")
    checked = (
        f"{plural(report.partition_count, 'partition')}, {plural(report.file_count, 'file')}, "
        f"{plural(report.batch_count, 'batch')}, {size_text(report.size_bytes)} of log"
    )
    if report.record_count:
        checked += f", {plural(report.record_count, 'record')} opened"
    damaged = sum(finding.weight == "damage" for finding in report.findings)
    rebuilt = sum(finding.weight == "cache" for finding in report.findings)
    if report.is_sound:
        click.secho(f"Sound: {checked}.", fg="green")
        return
    click.secho(
        f"Not sound: {plural(damaged, 'finding')} of damage, {rebuilt} in files that can be "
        f"rebuilt. Checked {checked}.",
        fg="red",
    )


def _tell_finding(finding: Finding) -> None:
    colour = {"damage": "red", "cache": "yellow", "note": "cyan"}[finding.weight]
    place = finding.path
    if finding.position >= 0:
        place += f" at position {finding.position}"
    click.echo(f"{click.style(finding.weight.upper(), fg=colour)} {finding.kind}: {place}")
    click.echo(f"  found:   {finding.found}")
    click.echo(f"  means:   {finding.meaning}")
    click.echo(f"  do:      {finding.remedy}")
