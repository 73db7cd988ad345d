"""Segments without a log."""

from __future__ import annotations

import random

from storage.files.open_files import OpenFiles
from storage.segments.segment import Segment
from tests.support.batches import batch, header_of
from tests.support.memory_filesystem import MemoryFileSystem

# Timestamps of batches of one record, in the orders that matter.
TIMES = {
    "rising": list(range(1_000, 1_060)),
    "constant": [1_000] * 60,
    "falling": list(range(1_060, 1_000, -1)),
    "shuffled": random.Random(1).sample(range(1_000, 2_000), 60),
    "one far ahead": [*range(1_000, 1_030), 9_999, *range(1_030, 1_059)],
    "none": [-1] * 60,
}


def create_segment(
    files: OpenFiles,
    directory: str,
    base_offset: int = 0,
    *,
    interval: int = 4096,
    index_max: int = 1 << 20,
    created_ms: int = 0,
) -> Segment:
    """Return an empty segment with its three files and an index entry every `interval` bytes."""
    segment = Segment(
        files,
        directory,
        base_offset,
        size=0,
        index_interval_bytes=interval,
        index_size_max=index_max,
        created_ms=created_ms,
    )
    segment.log_file.create()
    segment.indexes.clear()
    return segment


def reopen(disk: MemoryFileSystem, segment: Segment, *, known_end: bool = True) -> Segment:
    opened = Segment(
        OpenFiles(disk, 10),
        "/t-0",
        segment.base_offset,
        size=disk.size(segment.log_file.path),
        index_interval_bytes=segment.indexes.interval_bytes,
        index_size_max=1 << 20,
        created_ms=9,
    )
    if known_end:
        opened.next_offset = segment.next_offset
    return opened


def append(segment: Segment, base_offset: int, count: int = 3, **options: int) -> int:
    data = batch(base_offset, count, **options)
    return segment.append(data, header_of(data))


def fill(segment: Segment, times: list[int], size: int = 400) -> None:
    """Append a batch of one record per time."""
    for time in times:
        append(segment, segment.next_offset, 1, size=size, timestamp=time)
