"""`barnabas-pipeline archive`: topics to partitioned Parquet, each record once.

A streaming query whose tasks write the files (`archive_writer`) into a directory whose file names
say what it holds (`archive_files`). This module runs it: it fixes where each partition begins
before there is a file, takes the lock, checks that the files join, and sums up.

Killed at any moment and started again, it continues: from the checkpoint, whose unfinished
micro-batch has the same ranges and so writes the same files; without a checkpoint, from where the
files end.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark_barnabas.jobs import archive_files
from pyspark_barnabas.jobs.archive_files import CHECKPOINT, Contents, Description
from pyspark_barnabas.jobs.archive_writer import CODECS, ELSEWHERE, ArchiveWriter, Target
from pyspark_barnabas.jobs.arguments import add_source_arguments, source_options
from pyspark_barnabas.jobs.session import Outcome, Run, bytes_text, finish, plural, table
from pyspark_barnabas.offsets import Offsets, partitions_of, recreated, resolve, to_json
from pyspark_barnabas.options import SourceOptions
from pyspark_barnabas.options import source_options as read_options
from pyspark_barnabas.source.stream import HAS_LIMITS
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.errors import BadOption, DataLost, UnknownTopic
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST

OFFSETS_MAX: Final = 4_000_000  # of one micro-batch: the most that a kill can cost
INTERVAL_S: Final = 60


@dataclass
class ArchiveOptions:
    """The options of a run; `source` are options of format("barnabas")."""

    source: dict[str, str]
    root: Path
    by_date: bool = False
    codec: str = CODECS[0]
    offsets_max: int = OFFSETS_MAX
    follow: bool = False
    interval_s: int = INTERVAL_S


@dataclass
class Archived:
    """What a run has written so far; a range written twice counts twice."""

    batches: int = 0
    offsets: int = 0
    records: int = 0
    files: int = 0
    bytes: int = 0
    topics: dict[str, int] = field(default_factory=dict)

    def add(self, rows: list[Any]) -> None:
        """Add the rows of one micro-batch's tasks."""
        self.batches += bool(rows)
        for row in rows:
            self.offsets += row.end - row.start
            self.records += row.records
            self.files += row.files
            self.bytes += row.bytes
            self.topics[row.topic] = self.topics.get(row.topic, 0) + row.records


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline's own arguments."""
    add_source_arguments(parser)
    parser.add_argument(
        "--to", metavar="DIR", required=True,
        help="the archive: its own directory, on a disk that all executors have",
    )  # fmt: skip
    parser.add_argument(
        "--by-date",
        action="store_true",
        help="also make a directory for each day (UTC) of the records",
    )
    parser.add_argument(
        "--codec", choices=CODECS, default=CODECS[0], help="codec of the Parquet files"
    )
    parser.add_argument(
        "--max-offsets", metavar="N", type=int, default=OFFSETS_MAX,
        help=f"of one micro-batch, all partitions together; default: {OFFSETS_MAX:,}",
    )  # fmt: skip
    parser.add_argument(
        "--follow", action="store_true", help="continue until interrupted, past the current end"
    )
    parser.add_argument(
        "--interval", metavar="SECONDS", type=int, default=INTERVAL_S,
        help=f"between the files of a partition, with --follow; default: {INTERVAL_S}",
    )  # fmt: skip


def run(run: Run) -> Outcome:
    """Archive, and return the summary."""
    given = run.arguments
    for name in ("max_offsets", "interval"):
        if getattr(given, name) < 1:
            raise BadOption(
                f"--{name.replace('_', '-')} is {getattr(given, name)}, expected at least 1"
            )
    options = ArchiveOptions(
        source=source_options(given),
        root=archive_files.local(given.to),
        by_date=given.by_date,
        codec=given.codec,
        offsets_max=given.max_offsets,
        follow=given.follow,
        interval_s=given.interval,
    )
    done = archive(run, options)
    return outcome(options, done)


def archive(run: Run, options: ArchiveOptions) -> Archived:
    """Write what the topics hold; with `follow`, also what arrives until interrupted.

    Raises CorruptArchive if files are missing or overlap, and whatever the source raises.
    """
    done = Archived()
    options.root.mkdir(parents=True, exist_ok=True)
    with archive_files.locked(options.root):
        starts, waiting = _prepare(options)
        if options.follow:
            what = "archived {done.records:,} records in {done.files:,} files"
        else:
            what = f"archived {{done.offsets:,}} of {waiting:,} offsets in {{done.files:,}} files"
        query = _start(run.spark, options, starts, done)
        with _until_interrupted(options), run.progress.showing(
            lambda: what.format(done=done)
        ):  # fmt: skip
            finish(query)
        archive_files.check(archive_files.contents(options.root), options.root)
    return done


def _prepare(options: ArchiveOptions) -> tuple[Offsets, int]:
    """Check the directory and record what is new; return the starts and how many offsets wait."""
    root = options.root
    found = archive_files.contents(root)
    archive_files.sweep(root)
    archive_files.check(found, root)
    description = archive_files.read_description(root)
    if description is None:
        _require_empty(root, found)
    elif description.by_date != options.by_date:
        raise BadOption(
            f"{root} was started with{'' if description.by_date else 'out'} --by-date: run it so"
        )
    if not any((root / CHECKPOINT / "offsets").glob("[0-9]*")):
        archive_files.drop_unfinished(found)
    given = dict(options.source)
    if not any(name.lower().startswith("starting") for name in given):
        given["startingOffsets"] = "earliest"
    source = read_options(given, streaming=True)
    with Cluster(source.cluster) as cluster:
        subscribed = partitions_of(cluster, source.subscription)
        if not subscribed:
            raise UnknownTopic("no topic of this cluster matches --pattern")
        topic_ids = cluster.topic_ids(topic for topic, _ in subscribed)
        if description is not None:
            topic_ids = _same_topics(description.topic_ids, topic_ids)
        known = _starts(cluster, source, subscribed, description)
        latest = cluster.list_offsets(dict.fromkeys(subscribed, LATEST), source.isolation)
    archive_files.write_description(root, Description(known, options.by_date, topic_ids))
    starts = {at: found.ends().get(at, known[at]) for at in subscribed}
    return starts, sum(max(0, latest[at] - start) for at, start in starts.items())


def _same_topics(known: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the ids of all topics. Raises DataLost if one was created again."""
    for topic, topic_id in known.items():
        if now.get(topic, topic_id) != topic_id:
            raise DataLost(f"{recreated(topic, topic_id, now[topic])}. {ELSEWHERE}")
    return {**known, **now}


def _require_empty(root: Path, found: Contents) -> None:
    """Raise BadOption if the directory holds something else."""
    foreign = [entry.name for entry in root.iterdir() if entry.name != archive_files.LOCK]
    if found.pieces or foreign:
        raise BadOption(
            f"{root} holds {sorted(foreign)[0]} and no {archive_files.DESCRIPTION}, so it is not "
            "an archive: choose a new or empty directory with --to"
        )


def _starts(
    cluster: Cluster, source: SourceOptions, subscribed: list[Any], description: Description | None
) -> Offsets:
    """Return where each partition begins; a later one begins at its earliest offset."""
    if description is None:
        return resolve(cluster, source.starting, subscribed, source.isolation)
    fresh = [at for at in subscribed if at not in description.starts]
    earliest = cluster.list_offsets(dict.fromkeys(fresh, EARLIEST)) if fresh else {}
    return {**description.starts, **earliest}


def _start(spark: Any, options: ArchiveOptions, starts: Offsets, done: Archived) -> Any:
    """Start the query; each micro-batch's rows go to `done`."""
    given = {
        name: value
        for name, value in options.source.items()
        if not name.lower().startswith("starting")
    }
    given["startingOffsets"] = json.dumps(to_json(starts))
    if HAS_LIMITS:
        given["maxOffsetsPerTrigger"] = str(options.offsets_max)
    target = Target(options.root, options.by_date, options.codec)
    spark.dataSource.register(ArchiveWriter)
    stream = spark.readStream.format(ArchiveWriter.name()).options(**given, **target.options())
    trigger: dict[str, Any] = (
        {"processingTime": f"{options.interval_s} seconds"}
        if options.follow
        else {"availableNow": True}
    )
    return (
        stream.load()
        .writeStream.queryName("archive")
        .option("checkpointLocation", (options.root / CHECKPOINT).as_uri())
        .foreachBatch(lambda frame, _: done.add(frame.collect()))
        .trigger(**trigger)
        .start()
    )


@contextmanager
def _until_interrupted(options: ArchiveOptions) -> Iterator[None]:
    """With `follow`, make SIGINT and SIGTERM a normal end."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, interrupt) if is_main and options.follow else None
    try:
        yield
    except KeyboardInterrupt:
        if not options.follow:
            raise
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def outcome(options: ArchiveOptions, done: Archived) -> Outcome:
    """Return the summary of a run and of the archive."""
    found = archive_files.contents(options.root)
    ends = found.ends()
    begins = {at: several[0].start for at, several in found.pieces.items() if several}
    facts = {
        "directory": str(options.root),
        "records": done.records,
        "files": done.files,
        "bytes": done.bytes,
        "batches": done.batches,
        "startingOffsets": to_json({at: begins[at] for at in ends}),
        "endingOffsets": to_json(ends),
    }
    rows = []
    for topic in sorted({topic for topic, _ in ends}):
        mine = [at for at in ends if at[0] == topic]
        pieces = [piece for at in mine for piece in found.pieces[at]]
        offsets = sum(ends[at] - begins[at] for at in mine)
        files = sum(len(piece.paths) for piece in pieces)
        rows.append((topic, len(mine), files, offsets, done.topics.get(topic, 0)))
    written = (
        f"{options.root}: {plural(done.records, 'record')} written in "
        f"{plural(done.files, 'file')}, {bytes_text(done.bytes)}."
    )
    columns = ("topic", "partitions", "files", "offsets", "records of this run")
    lines = [written, *table(columns, rows)]
    return Outcome(facts=facts, lines=lines)
