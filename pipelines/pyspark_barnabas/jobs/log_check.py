"""A data directory's logs, from the reports of their segments: what no segment tells alone.

    plan(DIR) -> Plan           on the driver: whose segments there are, how the broker ended
    check_segment for each      in the tasks
    conclude(plan, reports)     on the driver: all findings, in the order of the logs

Held against each other are neighbouring segments (holes, epochs that fall), a log and the recovery
point of its directory, and index files and the logs beside them. Holes are damage unless the log is
compacted: by `--compacted`, by name for Kafka's own topics, by cleaner-offset-checkpoint, or
because a batch of it has fewer records than offsets.

Left to `barnabas verify`, because they are few and small: meta.properties, the metadata log and its
snapshots, partition.metadata, checkpoints, producer snapshots, messages from before Kafka 0.11.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark_barnabas.jobs.findings import Findings
from pyspark_barnabas.jobs.index_check import INDEX, TIME_INDEX, beside
from pyspark_barnabas.jobs.segment_check import (
    CLEAN,
    CRASHED,
    RUNNING,
    TRANSACTIONS,
    EpochRun,
    SegmentReport,
    read_checkpoint,
    tell_epoch,
    tell_transactions,
)
from pyspark_barnabas.jobs.session import plural
from pyspark_barnabas.source.segments import PartitionLog, Segment, find_logs

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CLEANED: Final = "cleaner-offset-checkpoint"
CLEAN_MARKER: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
COMPACTED_ALWAYS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_INDEX_NAME: Final = re.compile(rf"(\d{{20}})\.({INDEX}|{TIME_INDEX}|{TRANSACTIONS})", re.ASCII)
_FLOCK: Final = struct.Struct("hhqqi4x")  # Linux: type, whence, (padding,) start, length, pid


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to check in one data directory."""

    directory: str
    ending: str
    holder: int  # process id of the broker that runs on it; 0: none
    logs: tuple[PartitionLog, ...]
    points: dict[tuple[str, int], int]
    cleaned: frozenset[tuple[str, int]]

    @property
    def segments(self) -> list[Segment]:
        """All segments of all logs."""
        return [segment for log in self.logs for segment in log.segments]


def plan(directory: str, topics: Iterable[str] = ()) -> Plan:
    """Find what is to be checked: all logs, or those of some topics. Raises NotALog."""
    wanted = set(topics)
    holder = lock_holder(os.path.join(directory, LOCK))
    ending = CRASHED
    if holder:
        ending = RUNNING
    elif os.path.exists(os.path.join(directory, CLEAN_MARKER)):
        ending = CLEAN
    points = _offsets(os.path.join(directory, RECOVERY_POINTS))
    cleaned = _offsets(os.path.join(directory, CLEANED))
    logs = tuple(log for log in find_logs(directory) if not wanted or log.topic in wanted)
    return Plan(directory, ending, holder, logs, points, frozenset(cleaned))


def conclude(
    planned: Plan, reports: Iterable[SegmentReport], *, all_compacted: bool = False
) -> Findings:
    """Return all findings: those of the segments, and those between them."""
    by_log: dict[tuple[str, int], list[SegmentReport]] = {}
    for report in reports:
        key = report.segment.topic, report.segment.partition
        by_log.setdefault(key, []).append(report)
    findings = Findings()
    for log in planned.logs:
        key = log.topic, log.partition
        every = sorted(by_log.get(key, []), key=lambda part: part.segment.base_offset)
        parts = [part for part in every if not part.is_gone]
        between = Findings()
        is_compacted = (
            all_compacted
            or log.topic in COMPACTED_ALWAYS
            or key in planned.cleaned
            or any(part.is_compacted for part in parts)
        )
        if not is_compacted:
            _tell_holes(between, every)
        _tell_epochs(between, parts)
        end = parts[-1].end_offset if parts else 0
        if not every or not every[-1].is_gone:
            _check_end(between, planned, log, end)
        if planned.ending != RUNNING:
            _tell_orphans(between, log)
        for part in parts:
            if part.transactions_end > end and planned.ending != RUNNING:
                path = beside(part.segment.path, TRANSACTIONS)
                found = f"offsets up to {part.transactions_end}, but the log ends at {end}"
                tell_transactions(between, path, found)
        findings.extend([*(part.findings for part in every), between])
    return findings


def _tell_holes(findings: Findings, parts: list[SegmentReport]) -> None:
    end: int | None = None
    for part in parts:
        base, path = part.segment.base_offset, part.segment.path
        holes = list(part.holes)
        if end is not None and end < base:
            holes.insert(0, (-1, end, base))
        if part.is_gone:
            end = None  # what was there is not known
            continue
        for position, offset, following in holes:
            findings.damage(
                "missing", path, f"offset {offset} is followed by {following}",
                f"{plural(following - offset, 'record')} are missing, and the topic is not "
                "compacted",
                "Restore the missing segment from a backup. If the topic was compacted once, this "
                "is healthy: say so with --compacted",
                position=position, offset=offset,
            )  # fmt: skip
        end = part.end_offset


def _tell_epochs(findings: Findings, parts: list[SegmentReport]) -> None:
    """Leader epochs never fall. Where they do, find which side is wrong, and tell of that."""
    sound: list[tuple[str, EpochRun]] = []
    for part in parts:
        for run in part.epochs:
            while sound and sound[-1][1].epoch > run.epoch:
                path, before = sound[-1]
                if _trust(run, part) < _trust(before, part):
                    tell_epoch(findings, part.segment.path, run, f"{before.epoch} is before it")
                    break
                sound.pop()
                tell_epoch(findings, path, before, f"{run.epoch} is behind it")
            else:
                sound.append((part.segment.path, run))


def _trust(run: EpochRun, part: SegmentReport) -> tuple[bool, int]:
    """Return what speaks for an epoch: that the checkpoint knows it, then that batches have it."""
    return run.epoch in part.known_epochs, run.batch_count


def _check_end(findings: Findings, planned: Plan, log: PartitionLog, end: int) -> None:
    point = planned.points.get((log.topic, log.partition), 0)
    if point > end and planned.ending != RUNNING:
        findings.damage(
            "missing", log.path,
            f"the log ends at offset {end}, but up to {point} it was known to be on the disk",
            f"{plural(point - end, 'record')} are missing at its end",
            "Restore the log from a backup. The broker goes on at the recovery point and gives no "
            "offset out twice", offset=end,
        )  # fmt: skip
    elif not log.segments and planned.ending == CLEAN:
        findings.damage(
            "missing", log.path, "there is no .log file", "an open log has at least one"
        )


def _tell_orphans(findings: Findings, log: PartitionLog) -> None:
    bases = {segment.base_offset for segment in log.segments}
    for name in sorted(os.listdir(log.path)):
        match = _INDEX_NAME.fullmatch(name)
        base = int(match[1]) if match else -1
        if match and base not in bases and not _was_swapped(log, base):
            findings.damage(
                "missing", os.path.join(log.path, name), f"there is no {match[1]}.log beside it",
                "the segment's records are gone, unless it was deleted on purpose",
                "Restore the .log file from a backup, or delete this file", offset=base,
            )  # fmt: skip


def _was_swapped(log: PartitionLog, base: int) -> bool:
    """Whether a segment is only left out because a compacted copy stands for it."""
    return os.path.exists(os.path.join(log.path, f"{base:020}.log"))


def _offsets(path: str) -> dict[tuple[str, int], int]:
    return {
        (topic, int(partition)): int(offset)
        for topic, partition, offset in read_checkpoint(path, 3)
    }


def lock_holder(path: str) -> int:
    """Return the process id of the broker that holds the lock on a file; 0 if none is seen.

    Asked with F_GETLK, which takes nothing: taking the lock could keep a broker from starting.
    Known for Linux only; elsewhere a running broker is taken for one that crashed.
    """
    if not sys.platform.startswith("linux"):
        return 0
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return 0
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    finally:
        os.close(file)
    if kind == fcntl.F_UNLCK:
        return 0
    return max(1, int(pid))  # a holder in another container has no number here
