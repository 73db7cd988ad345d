"""The pipeline `verify`: all segments of data directories checked in parallel.

    barnabas-pipeline verify DIR…

A task checks one segment, or some small ones (pyspark_barnabas.jobs.segment_check); the driver
holds the logs together (pyspark_barnabas.jobs.log_check). On segments it says what
`barnabas verify` says of them. Executors must see the directories under the same paths.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any, Final

from pyspark_barnabas.jobs.findings import CACHE, DAMAGE, Findings
from pyspark_barnabas.jobs.log_check import Plan, conclude, plan
from pyspark_barnabas.jobs.segment_check import SegmentReport, check_segment
from pyspark_barnabas.jobs.session import Outcome, Run, bytes_text, plural
from pyspark_barnabas.source.segments import Segment

MiB = 1024 * 1024
GROUP_BYTES: Final = 64 * MiB  # a task: what one core checks in a fraction of a second
GROUP_COUNT_MAX: Final = 256  # segments: opening files takes its time too
Job = tuple[Segment, str]  # with how its broker ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `verify` takes."""
    parser.add_argument("paths", metavar="DIR", nargs="+", help="a data directory (log.dirs)")
    parser.add_argument("--topic", metavar="NAME[,NAME]", help="check these topics only")
    parser.add_argument(
        "--records", action="store_true", help="open every batch and check its records as well"
    )
    parser.add_argument(
        "--compacted", action="store_true", help="take holes in the offsets for compaction's"
    )


def run(run: Run) -> Outcome:
    """Check everything. Raises NotALog."""
    arguments = run.arguments
    topics = [name for name in (arguments.topic or "").split(",") if name]
    plans = [plan(os.path.abspath(path), topics) for path in arguments.paths]
    jobs = [(segment, one.ending) for one in plans for segment in one.segments]
    reports: list[SegmentReport] = []
    groups = grouped(jobs)
    if groups:
        spark = run.spark
        size = bytes_text(sum(segment.size for segment, _ in jobs))
        what = f"checking {plural(len(jobs), 'segment')}, {size}"
        with run.progress.watching(spark, what):
            tasks = spark.sparkContext.parallelize(groups, len(groups))
            reports = tasks.flatMap(_Task(open_records=arguments.records)).collect()
    return outcome(plans, reports, all_compacted=arguments.compacted)


class _Task:
    """What a task does with its group of segments."""

    def __init__(self, *, open_records: bool) -> None:
        self._open_records = open_records

    def __call__(self, group: list[Job]) -> Iterator[SegmentReport]:
        for segment, ending in group:
            yield check_segment(segment, ending, open_records=self._open_records)


def grouped(jobs: list[Job]) -> list[list[Job]]:
    """Put small segments together, the largest first, so that no long task begins at the end."""
    groups: list[list[Job]] = []
    room = count = 0
    for job in sorted(jobs, key=lambda job: (-job[0].size, job[0].path)):
        if not groups or job[0].size > room or count == GROUP_COUNT_MAX:
            groups.append([])
            room, count = GROUP_BYTES, 0
        groups[-1].append(job)
        room -= job[0].size
        count += 1
    return groups


def outcome(plans: list[Plan], reports: list[SegmentReport], *, all_compacted: bool) -> Outcome:
    """Return what was found, for a person and for a program."""
    findings = Findings()
    for one in plans:
        inside = one.directory + os.sep
        own = [part for part in reports if part.segment.path.startswith(inside)]
        findings.extend([conclude(one, own, all_compacted=all_compacted)])
    seen = [part for part in reports if not part.is_gone]
    counts: dict[str, Any] = {
        "partitions": sum(len(one.logs) for one in plans),
        "segments": len(seen),
        "files": sum(part.file_count for part in seen),
        "batches": sum(part.batch_count for part in seen),
        "records_opened": sum(part.record_count for part in seen),
        "bytes": sum(part.segment.size for part in seen),
    }
    holders = [one.holder for one in plans if one.holder]
    facts = findings.facts() | counts | {"broker_pids": holders}
    lines = findings.lines()
    lines += [
        f"A broker (process {holder}) runs on it: what it appends meanwhile was left out."
        for holder in holders
    ]
    checked = (
        f"{plural(counts['partitions'], 'partition')}, {plural(counts['segments'], 'segment')}, "
        f"{plural(counts['batches'], 'batch')}, {bytes_text(counts['bytes'])} of log"
    )
    if counts["records_opened"]:
        checked += f", {plural(counts['records_opened'], 'record')} opened"
    if findings.is_sound:
        lines.append(f"Sound: {checked}.")
    else:
        lines.append(
            f"Not sound: {plural(findings.count(DAMAGE), 'finding')} of damage, "
            f"{findings.count(CACHE)} in files that can be built again. Checked {checked}."
        )
    return Outcome(facts=facts, lines=lines, failed=not findings.is_sound)
