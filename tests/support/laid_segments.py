"""Segments filled with batches of known places, in memory and opened again."""

from __future__ import annotations

import random

from storage.files.open_files import OpenFiles
from storage.segments.segment import Segment
from tests.support.batches import batch, header_of
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.segments import create_segment

INDEX_SIZE_MAX = 10 * 1024 * 1024


def create(disk: MemoryFileSystem, base_offset: int = 0, interval: int = 4096) -> Segment:
    return create_segment(
        OpenFiles(disk, 10), "/t-0", base_offset, interval=interval, index_max=INDEX_SIZE_MAX
    )


def reopen(disk: MemoryFileSystem, segment: Segment) -> Segment:
    """Return the segment as a new process opens it, with its end known."""
    segment.indexes.write()
    opened = Segment(
        OpenFiles(disk, 10),
        "/t-0",
        segment.base_offset,
        size=segment.size,
        index_interval_bytes=segment.indexes.interval_bytes,
        index_size_max=INDEX_SIZE_MAX,
        created_ms=0,
    )
    opened.next_offset = segment.next_offset
    return opened


def append(segment: Segment, base_offset: int, count: int, size: int | None = None) -> int:
    data = batch(base_offset, count, size=size, timestamp=1_000 + base_offset)
    return segment.append(data, header_of(data))


def filled(
    disk: MemoryFileSystem, *, base_offset: int = 0, count: int = 200, interval: int = 1000
) -> tuple[Segment, list[tuple[int, int, int]]]:
    """Return a segment of `count` batches and (position, first offset, last offset) of each."""
    randomness = random.Random(count)
    segment = create(disk, base_offset, interval)
    offset, laid = base_offset, []
    for _ in range(count):
        records = randomness.randint(1, 9)
        position = append(segment, offset, records, randomness.randint(300, 600))
        laid.append((position, offset, offset + records - 1))
        offset += records
    return segment, laid
