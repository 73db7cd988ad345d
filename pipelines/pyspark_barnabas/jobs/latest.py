"""The pipeline `latest`: the newest value of every key of topics, as Parquet.

    barnabas-pipeline latest --topic NAME --to DIR

The result is what full compaction would leave, of any topic. Within a partition the newest record
has the highest offset, as for compaction. A key may be in several partitions, because their number
was raised or a producer chooses partitions itself: then the newest timestamp wins, after that the
highest partition; the summary counts such keys. A key whose newest value is null (a tombstone) is
left out.

It makes one pass over the offsets that the topics had at the start; the same offsets give the same
rows. Records of aborted transactions do not count: read_committed, unless an option says otherwise.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Final

from pyspark_barnabas.jobs.arguments import add_source_arguments, source_options
from pyspark_barnabas.jobs.session import Outcome, Run, plural
from pyspark_barnabas.options import include_headers
from pyspark_barnabas.wire.errors import BadOption

_REFUSE, _SKIP = "refuse", "skip"
_COLUMNS: Final = ("value", "partition", "offset", "timestamp", "timestampType")
_ISOLATION: Final = "kafka.isolation.level"
# failures.known finds the error in what Spark makes of this text.
_KEYLESS: Final = (
    "pyspark_barnabas.wire.errors.RecordsRefused: {topic}-{partition} has a record without a key "
    "at offset {offset}, and latest goes by key: leave such records out with --keyless skip"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline's own arguments."""
    add_source_arguments(parser)
    parser.add_argument(
        "--to", metavar="DIR", required=True, help="a new directory for the Parquet files"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is in --to")
    parser.add_argument(
        "--keyless", choices=(_REFUSE, _SKIP), default=_REFUSE,
        help="records without a key: fail (default), or leave them out and count them",
    )  # fmt: skip


def run(run: Run) -> Outcome:
    """Write the newest value of every key. Raises BadOption; Spark raises RecordsRefused."""
    from pyspark.sql import Observation

    arguments = run.arguments
    options = source_options(arguments)
    if not arguments.overwrite and ":" not in arguments.to and os.path.exists(arguments.to):
        raise BadOption(
            f"{arguments.to} exists: choose a new directory with --to, or pass --overwrite"
        )
    columns = ["topic", "key", *_COLUMNS, *(["headers"] if include_headers(options) else [])]
    if _ISOLATION not in {name.lower() for name in options}:
        options[_ISOLATION] = "read_committed"
    read, kept = Observation("read"), Observation("kept")
    frame = newest(run.load(columns, options), columns, arguments.keyless, read, kept)
    with run.progress.watching(run.spark, "finding the newest value of every key"):
        mode = "overwrite" if arguments.overwrite else "errorifexists"
        frame.write.mode(mode).parquet(arguments.to)
    return _outcome(_counts(read) | _counts(kept), arguments.to)


def newest(frame: Any, columns: list[str], keyless: str, read: Any, kept: Any) -> Any:
    """Return the newest record of every key, without tombstones, observed for the summary."""
    from pyspark.sql import functions as f

    frame = frame.observe(
        read, f.count(f.lit(1)).alias("records"), f.count_if(f.expr("key is null")).alias("keyless")
    )
    if keyless == _SKIP:
        frame = frame.where("key is not null")
    else:
        text = f.concat(*_pieces(f))
        refused = f.when(f.isnull("key"), f.raise_error(text).cast("binary"))
        frame = frame.withColumn("key", refused.otherwise(f.col("key")))
    rest = [name for name in columns if name not in ("topic", "key")]
    found = (
        frame.groupBy("topic", "partition", "key")
        .agg(f.max_by(f.struct(*rest), "offset").alias("newest"))
        .groupBy("topic", "key")
        .agg(
            f.max_by("newest", f.struct("newest.timestamp", "partition")).alias("newest"),
            f.count(f.lit(1)).alias("places"),
        )
        .observe(
            kept,
            f.count(f.lit(1)).alias("keys"),
            f.count_if(f.expr("newest.value is null")).alias("tombstones"),
            f.count_if(f.expr("places > 1")).alias("keys_in_several_partitions"),
        )
        .where("newest.value is not null")
    )
    return found.select("topic", "key", *(f"newest.{name}" for name in rest))


def _pieces(f: Any) -> list[Any]:
    """Return the literals of _KEYLESS and the columns between them."""
    found = []
    for part in _KEYLESS.split("{"):
        name, brace, words = part.rpartition("}")
        if brace:
            found.append(f.col(name).cast("string"))
        found.append(f.lit(words if brace else part))
    return found


def _counts(observed: Any) -> dict[str, int]:
    return {name: int(value) for name, value in observed.get.items()}


def _outcome(counts: dict[str, int], out: str) -> Outcome:
    values = counts["keys"] - counts["tombstones"]
    keys = f"{plural(counts['records'], 'record')} of {plural(counts['keys'], 'key')}"
    lines = [f"{keys}; {counts['tombstones']:,} of these are deleted by a tombstone."]
    if counts["keyless"]:
        lines.append(f"Left out {plural(counts['keyless'], 'record')} without a key.")
    if counts["keys_in_several_partitions"]:
        several = plural(counts["keys_in_several_partitions"], "key")
        lines.append(f"{several} in several partitions: the newest timestamp is taken.")
    lines.append(f"Wrote {plural(values, 'row')} to {out}.")
    return Outcome(facts=counts | {"rows": values, "to": out}, lines=lines)
