"""Cuts ranges of offsets into tasks that each read about as many bytes of the segment files.

Over the wire a partition is the natural task, because offsets are all that is known. Here sizes are
known: a task takes whole small segments together, up to `bytesPerPartition`, and a large segment
is cut where an entry of its `.index` leads to a whole batch, or, without an index, where a walk
over the batches' headers comes by. Planning is done on the driver, and reads no record: one header
walk of a segment of 1 GiB without an index takes some tenths of a second, all else less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from pyspark_barnabas.offsets import Range, every_range, split
from pyspark_barnabas.options import OfflineOptions
from pyspark_barnabas.source.offline_log import (
    DataDirectory,
    LogFiles,
    Spot,
    batch_of_entry,
    follow_headers,
    offset_index,
)
from pyspark_barnabas.source.segments import Segment
from pyspark_barnabas.wire.protocol import LATEST

_SLACK = 4  # a piece shorter than a quarter of a task is not cut off


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a segment from batch to batch; `next_offset`, `end_offset` as `walk` wants them."""

    segment: Segment
    start: int
    end: int
    next_offset: int
    end_offset: int | None

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.start


@dataclass(slots=True)
class Task:
    """What one task reads: offsets from `start` to `end`, None for all there is."""

    topic: str
    partition: int
    start: int
    end: int | None
    spans: list[Span] = field(default_factory=list)
    aborted: list[tuple[int, int]] = field(default_factory=list)  # producer id, first offset


def plan(directory: DataDirectory, options: OfflineOptions) -> list[Task]:
    """Return the tasks of a query. Raises DataLost, BadOption, UnknownTopic, DamagedLog."""
    parts = [
        (part, directory.logs[part.topic, part.partition]) for part in _ranges(directory, options)
    ]
    ends = [None if _is_open(log, part, options) else part.end for part, log in parts]
    spans = [
        list(_spans(log, part.start, end)) for (part, log), end in zip(parts, ends, strict=True)
    ]
    bytes_max = options.bytes_per_partition
    if options.partitions_min is not None:
        total = sum(span.size for each in spans for span in each)
        bytes_max = max(1, min(bytes_max, -(-total // options.partitions_min)))
    tasks = []
    for (part, _), end, each in zip(parts, ends, spans, strict=True):
        tasks += _tasks_of(part, end, each, bytes_max)
    if options.isolation:
        for task in tasks:
            log = directory.logs[task.topic, task.partition]
            task.aborted = log.transactions.within(task.spans[0].next_offset, task.end)
    return tasks


def _ranges(directory: DataDirectory, options: OfflineOptions) -> list[Range]:
    """Return the ranges, cut by records; those in which nothing is readable may hide damage."""
    ranges = every_range(directory, options)
    filled = [part for part in ranges if part.count > 0]
    empty = [
        part
        for part in ranges
        if part.count <= 0 and _is_open(directory.logs[part.topic, part.partition], part, options)
    ]
    return sorted(
        [*split(filled, None, options.records_per_partition_max), *empty],
        key=lambda part: (part.topic, part.partition, part.start),
    )


def _is_open(log: LogFiles, part: Range, options: OfflineOptions) -> bool:
    """Whether a range goes to the end of the log, damage behind the last batch included."""
    given = dict(options.ending.each).get((part.topic, part.partition), LATEST)
    is_offset = options.ending.kind == "offsets" and given != LATEST
    return part.end >= log.end_offset and not is_offset


def _spans(log: LogFiles, start: int, end: int | None) -> Iterator[Span]:
    """Yield what of each segment may hold offsets of a range."""
    for segment in log.segments_of(start, end):
        spot = log.spot(segment, start + 1)
        behind = None if end is None else _spot_behind(segment, end)
        if behind is not None:
            yield Span(segment, spot.position, behind.position, spot.offset, behind.offset)
        elif segment.size > spot.position:
            yield Span(segment, spot.position, segment.size, spot.offset, segment.next_base)


def _spot_behind(segment: Segment, offset: int) -> Spot | None:
    """Return a place from which no batch holds an offset below `offset`, if the index has one."""
    entries = offset_index(segment)
    row = int(np.searchsorted(entries["offset"], offset - segment.base_offset))
    for entry in entries[row : row + 2]:
        batch = batch_of_entry(segment, entry)
        if batch is not None and batch.base_offset >= offset:
            return Spot(batch.position, batch.base_offset)
    return None


def _tasks_of(part: Range, end: int | None, spans: list[Span], bytes_max: int) -> list[Task]:
    """Share the spans of one range out among tasks of about `bytes_max` each."""
    little = bytes_max // _SLACK
    tasks = [Task(part.topic, part.partition, part.start, end)]
    room = bytes_max
    for whole in spans:
        rest = whole
        if tasks[-1].spans and room < little:
            tasks.append(replace(tasks[-1], start=max(part.start, rest.next_offset), spans=[]))
            room = bytes_max
        while rest.size > room + little:
            spot = _cut(rest, rest.start + room)
            if spot is None:
                break
            tasks[-1].spans.append(replace(rest, end=spot.position, end_offset=spot.offset))
            tasks.append(replace(tasks[-1], start=max(part.start, spot.offset), spans=[]))
            room = bytes_max
            rest = replace(rest, start=spot.position, next_offset=spot.offset)
        tasks[-1].spans.append(rest)
        room -= rest.size
    return [task for task in tasks if task.spans]


def _cut(span: Span, position: int) -> Spot | None:
    """Return where a batch begins at or behind `position`, so that something is on both sides."""
    entries = offset_index(span.segment)
    row = int(np.searchsorted(entries["position"], max(position, span.start + 1)))
    if row < len(entries):
        batch = batch_of_entry(span.segment, entries[row])
        if batch is not None and span.start < batch.position < span.end:
            return Spot(batch.position, batch.base_offset)
    for batch in follow_headers(span.segment, Spot(span.start, span.next_offset), span.end):
        if batch.position >= position and batch.position > span.start:
            return Spot(batch.position, batch.base_offset)
    return None
