"""Whether a log is on a disk in memory: the bytes of its batches, and the names of its files."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Final

from protocol.record_batch import verify
from protocol.record_errors import RecordError
from storage.files import filenames
from storage.files.filenames import Kind
from tests.support.memory_inodes import Directory, Inode

_parse: Final = functools.lru_cache(maxsize=10_000)(filenames.parse)


def missing(directory: Directory, end_offset: int, begin_offset: int = 0) -> str:
    """Say what of a log is not on the disk; "" if all of it is.

    It is about the batches below `end_offset`, without the segments that end below `begin_offset`.
    """
    segments = sorted(_segments(directory.live), key=lambda one: one[0])
    on_disk = {id(node) for node in directory.durable.values()}
    for place, (base_offset, name, inode) in enumerate(segments):
        if base_offset >= end_offset:
            break
        next_base = segments[place + 1][0] if place + 1 < len(segments) else None
        if next_base is not None and next_base <= begin_offset:
            continue
        if id(inode) not in on_disk:
            return f"the name {name}"
        if inode.durable == inode.live:
            continue
        size = len(inode.live)
        if next_base is None or next_base > end_offset:
            size = max((end for _, end in _batches(inode.live, end_offset)), default=0)
        if inode.durable[:size] != inode.live[:size]:
            return f"{name}, as far as byte {size}"
    return ""


def missing_anywhere(data: Directory) -> Iterator[tuple[str, str]]:
    """Yield the directory of each log that is not wholly on the disk, and what of it is missing."""
    for name, node in sorted(data.live.items(), key=lambda entry: entry[0]):
        parsed = _parse(name)
        if parsed is None or parsed.kind is not Kind.PARTITION or not isinstance(node, Directory):
            continue
        what = missing(node, filenames.OFFSET_MAX) or missing_name(data, name)
        if what:
            yield name, what


def missing_name(data: Directory, name: str) -> str:
    """Say whether a directory's own name is missing on the disk."""
    is_there = data.live.get(name) is data.durable.get(name)
    return "" if is_there else "the name of its directory"


def durable_start(data: Directory, name: str) -> int | None:
    """Return where a log would begin after a power cut now; None if nothing tells."""
    starts = []
    checkpoint = data.durable.get(filenames.LOG_START_CHECKPOINT)
    if isinstance(checkpoint, Inode):
        for line in checkpoint.durable.decode(errors="replace").splitlines()[2:]:
            topic, partition, offset = line.split(" ")
            if filenames.partition_directory(topic, int(partition)) == name:
                starts.append(int(offset))
    directory = data.durable.get(name)
    if isinstance(directory, Directory):
        bases = [base for base, _, _ in _segments(directory.durable)]
        starts += [min(bases)] if bases else []
    return max(starts, default=None)


def end_offset(directory: Directory) -> int | None:
    """Return the offset behind the last batch of a log; None if that cannot be read."""
    for base_offset, _, inode in sorted(_segments(directory.live), key=lambda one: -one[0]):
        if not inode.live:
            return base_offset
        *_, (following, end) = [(0, 0), *_batches(inode.live, filenames.OFFSET_MAX)]
        return following if end == len(inode.live) else None
    return 0


def _batches(content: bytearray, point: int) -> Iterator[tuple[int, int]]:
    """Yield next offset and end of the batches that end at or below an offset, while readable."""
    end = 0
    while end < len(content):
        try:
            header = verify(content, end)
        except RecordError:
            return
        if header.last_offset >= point:
            return
        end += header.size
        yield header.last_offset + 1, end


def _segments(names: Mapping[str, Inode | Directory]) -> Iterator[tuple[int, str, Inode]]:
    """Yield the base offset, name and file of each segment."""
    for name, node in names.items():
        parsed = _parse(name)
        if (
            isinstance(node, Inode)
            and parsed is not None
            and parsed.kind is Kind.SEGMENT
            and parsed.file == filenames.LOG
            and not parsed.transit
        ):
            yield parsed.base_offset, name, node
