"""The pipeline `report`: what topics hold, its rate and distribution, and the lag of groups.

    barnabas-pipeline report --topic NAME [--to report.html]

Figures of batches come from their headers and their records' timestamps
(`pyspark_barnabas.jobs.batch_tally`), with a task for each range of offsets. A second pass over the
same offsets counts keys, as a DataFrame of that one column; --no-keys skips it. The brokers are
asked for the lag of consumer groups.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
from collections.abc import Sequence
from typing import Any, Final

from pyspark_barnabas.jobs import arguments
from pyspark_barnabas.jobs.batch_tally import (
    INTERVAL_NAMES,
    Tally,
    merged,
    tally_range,
)
from pyspark_barnabas.jobs.group_lag import (
    GroupLag,
    lag_of_cluster,
)
from pyspark_barnabas.jobs.page import page, time_text
from pyspark_barnabas.jobs.session import Outcome, Run, bytes_text, plural, table
from pyspark_barnabas.offsets import Range, every_range, split
from pyspark_barnabas.options import source_options
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.protocol import LATEST, TopicPartition

TOP_KEYS: Final = 20
_SHOWN_MAX: Final = 10  # table rows for a person; the page and --json have all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline's own arguments."""
    arguments.add_source_arguments(parser)
    parser.add_argument(
        "--to", metavar="FILE", default="report.html",
        help="the page, which is overwritten; default: report.html",
    )  # fmt: skip
    parser.add_argument(
        "--no-keys", action="store_true", help="do not count keys, which saves a pass over the data"
    )


def run(run: Run) -> Outcome:
    """Read, write the page, and return its figures. Raises BadOption, UnknownTopic, DataLost."""
    given = run.arguments
    options = arguments.source_options(given)
    source = source_options(options, streaming=False)
    with Cluster(source.cluster) as cluster:
        ranges = every_range(cluster, source)
        ends = cluster.list_offsets({at_of(part): LATEST for part in ranges})
    filled = [part for part in ranges if part.count > 0]
    parts = split(filled, source.partitions_min, source.records_per_partition_max)
    tallies = [Tally(*at_of(part)) for part in ranges]
    if parts:
        spark = run.spark
        with run.progress.watching(spark, "reading batches"):
            parallel = spark.sparkContext.parallelize(parts, len(parts))
            tallies += parallel.map(lambda part: tally_range(source, part)).collect()
    facts = figures(merged(tallies))
    facts["keys"] = None if given.no_keys else count_keys(run, options, ranges)
    run.progress.show("asking for consumer groups")
    facts["groups"] = [_group(one) for one in lag_of_cluster(source.cluster, ends)]
    facts["source"] = options["kafka.bootstrap.servers"]
    facts["written"] = time_text(run.clock.now_ms())
    facts["to"] = os.path.abspath(given.to)
    with open(given.to, "w", encoding="utf-8") as file:
        file.write(page(facts))
    return Outcome(facts=facts, lines=lines(facts))


def at_of(part: Range) -> TopicPartition:
    """Return the partition of a range."""
    return part.topic, part.partition


def exactly(options: dict[str, str], ranges: Sequence[Range]) -> dict[str, str]:
    """Return options for the same source and exactly these ranges."""
    left_out = ("subscribe", "assign", "starting", "ending")
    kept = {name: text for name, text in options.items() if not name.lower().startswith(left_out)}
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for part in ranges:
        assigned.setdefault(part.topic, []).append(part.partition)
        starts.setdefault(part.topic, {})[str(part.partition)] = part.start
        ends.setdefault(part.topic, {})[str(part.partition)] = part.end
    return kept | {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }


def count_keys(run: Run, options: dict[str, str], ranges: Sequence[Range]) -> dict[str, Any]:
    """Count the records of every key in these ranges; return the most frequent."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    filled = [part for part in ranges if part.count > 0]
    if not filled:
        return {"records": 0, "without_key": 0, "distinct": 0, "top": []}
    observed = Observation("keys")
    frame = run.load(["topic", "key"], exactly(options, filled))
    counted = (
        frame.groupBy("topic", "key")
        .agg(f.count(f.lit(1)).alias("records"))
        .observe(
            observed,
            f.sum("records").alias("records"),
            f.sum(f.expr("if(key is null, records, 0)")).alias("without_key"),
            f.count_if(f.expr("key is not null")).alias("distinct"),
        )
        .where("key is not null")
        .orderBy(f.desc("records"), "topic", "key")
        .limit(TOP_KEYS)
    )
    with run.progress.watching(run.spark, "counting keys"):
        rows = counted.collect()
    counts = {name: int(value or 0) for name, value in observed.get.items()}
    total = counts["records"] or 1
    return counts | {
        "top": [
            {"topic": row.topic, **_key(row.key), "records": row.records,
             "share": round(row.records / total, 6)}
            for row in rows
        ]
    }  # fmt: skip


def _key(key: bytes) -> dict[str, str]:
    """Return a key as text; if it is not UTF-8, also as base64."""
    try:
        return {"key": bytes(key).decode()}
    except UnicodeDecodeError:
        shown = bytes(key).decode("latin-1").encode("unicode_escape").decode()
        return {"key": shown, "key_base64": base64.b64encode(key).decode()}


def _group(one: GroupLag) -> dict[str, Any]:
    return {
        "group": one.group, "topic": one.topic, "lag": one.total, "partitions": len(one.lags),
        "lag_max": max(one.lags.values()),
    }  # fmt: skip


# -- the figures of tallies ------------------------------------------------------------------------


def figures(tallies: Sequence[Tally]) -> dict[str, Any]:
    """Return the figures of the partitions' tallies, for a program."""
    whole = Tally("", -1)
    topics: dict[str, Tally] = {}
    for one in tallies:
        whole.merge(one)
        topics.setdefault(one.topic, Tally(one.topic, -1)).merge(one)
    begun = sorted(whole.times)
    return {
        **_counts(whole),
        "records_without_time": whole.timeless_count,
        "time_min_ms": whole.time_min if whole.time_min >= 0 else None,
        "time_max_ms": whole.time_max if whole.time_max >= 0 else None,
        "topics": [{"topic": name, **_counts(one)} for name, one in topics.items()],
        "partitions": [
            {"topic": one.topic, "partition": one.partition, **_counts(one),
             "first_offset": one.start_offset, "next_offset": one.end_offset}
            for one in tallies
        ],
        "times": {
            "width_ms": whole.width_ms,
            "begin_ms": [begin * whole.width_ms for begin in begun],
            "records": [whole.times[begin][0] for begin in begun],
            "bytes": [whole.times[begin][1] for begin in begun],
        },
        "batch_bytes": _sizes(whole, whole.size_bytes, whole.batch_bytes_max, whole.sizes),
        "batch_records": _sizes(whole, whole.record_count, whole.batch_records_max, whole.counts),
        "codecs": [
            {"codec": name, "batches": codec.batch_count, "bytes": codec.size_bytes,
             "ratio": round(codec.unpacked_bytes / codec.size_bytes, 3)}
            for name, codec in sorted(whole.codecs.items())
        ],
    }  # fmt: skip


def _counts(one: Tally) -> dict[str, Any]:
    return {
        "records": one.record_count, "bytes": one.size_bytes, "batches": one.batch_count,
        "control_batches": one.control_count, "compression_ratio": round(one.ratio, 3),
    }  # fmt: skip


def _sizes(whole: Tally, total: int, largest: int, powers: dict[int, int]) -> dict[str, Any]:
    mean = round(total / whole.batch_count) if whole.batch_count else 0
    low, high = min(powers, default=1).bit_length() - 1, max(powers, default=0).bit_length()
    bins = [{"up_to": 1 << n, "batches": powers.get(1 << n, 0)} for n in range(low, high)]
    return {"mean": mean, "max": largest, "histogram": bins}


def lines(facts: dict[str, Any]) -> list[str]:
    """Return the figures for a person, as much as fits on a screen."""
    stored = f"{plural(facts['batches'], 'batch')}, {bytes_text(facts['bytes'])} stored"
    times = f"without compression {facts['compression_ratio']:.2f} times as much"
    said = [f"{plural(facts['records'], 'record')} in {stored}; {times}."]
    if facts["time_min_ms"] is not None:
        begin, end = time_text(facts["time_min_ms"]), time_text(facts["time_max_ms"])
        busiest = plural(max(facts["times"]["records"]), "record")
        unit = INTERVAL_NAMES[facts["times"]["width_ms"]]
        said.append(f"From {begin} to {end}; at most {busiest} in one {unit}.")
    said += ["", *_some("partitions", [
        {"partition": f"{row['topic']}-{row['partition']}", "records": row["records"],
         "share %": 100 * row["records"] / (facts["records"] or 1),
         "ratio": row["compression_ratio"], "stored": bytes_text(row["bytes"])}
        for row in sorted(facts["partitions"], key=lambda row: -row["records"])
    ])]  # fmt: skip
    keys = facts["keys"]
    if keys is not None:
        without = plural(keys["without_key"], "record")
        said += ["", f"{plural(keys['distinct'], 'distinct key')}; {without} without a key."]
        said += _some("keys", [
            {"key": row["key"], "records": row["records"], "share %": 100 * row["share"]}
            for row in keys["top"]
        ])  # fmt: skip
    said += ["", *_some("groups", [
        {name: row[name] for name in ("group", "topic", "lag")}
        for row in sorted(facts["groups"], key=lambda row: -row["lag"])
    ])]  # fmt: skip
    return [*said, "", f"Wrote {facts['to']}"]


def _some(what: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the first rows as a table, and how many more there are."""
    if not rows:
        return [f"No {what}."]
    shown = rows[:_SHOWN_MAX]
    found = table(list(shown[0]), [list(row.values()) for row in shown])
    if len(rows) > len(shown):
        found.append(f"and {len(rows) - len(shown):,} more {what}")
    return found
