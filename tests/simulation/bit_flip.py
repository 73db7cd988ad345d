"""Which bit of a disk flips: one in a batch below its log's recovery point.

No recovery looks there. The points are those of the checkpoint file, so they may be behind the
broker's own. The flip happens in what programs read and on the disk alike.
"""

from __future__ import annotations

import posixpath
import random
import struct
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.text_files import decode_offsets
from tests.support.memory_inodes import Directory, Inode, find

_FRAME: Final = struct.Struct(">qi")  # base offset, length of what follows
_MAGIC_AT: Final = 16
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23
_SMALLEST_BYTES: Final = 27
_LEADING: Final = {*range(12), _MAGIC_AT, *range(_LAST_OFFSET_DELTA_AT, _SMALLEST_BYTES)}


class Flip(NamedTuple):
    """What was flipped, and the batch that holds it: [base_offset, next_offset)."""

    partition: str  # the name of its directory
    path: str
    position: int
    bit: int
    base_offset: int
    next_offset: int
    hides: bool = False  # it is in what leads from this batch to the next


class Batch(NamedTuple):
    """A batch in a log: bytes [begin, end)."""

    begin: int
    end: int
    base_offset: int
    next_offset: int


def flip_bit(root: Directory, rng: random.Random, but: Collection[str]) -> Flip | None:
    """Flip a bit of a partition that is not in `but`; None if no log has a recovery point."""
    logs = [found for found in _logs(root, "") if posixpath.basename(found[0]) not in but]
    if not logs:
        return None
    partitions = sorted({directory for directory, _, _, _ in logs})
    chosen = rng.choice(partitions)
    of_partition = [found for found in logs if found[0] == chosen]
    directory, name, inode, batches = rng.choice(of_partition)
    batch = rng.choice(batches)
    position, bit = rng.randrange(batch.begin, batch.end), rng.randrange(8)
    inode.live[position] ^= 1 << bit
    if position < len(inode.durable):
        inode.durable[position] ^= 1 << bit
    path = posixpath.join(directory, name)
    partition = posixpath.basename(directory)
    hides = position - batch.begin in _LEADING
    return Flip(partition, path, position, bit, batch.base_offset, batch.next_offset, hides)


def segment_end(root: Directory, flip: Flip) -> int:
    """Return the offset at which the segment behind that of a flipped bit begins."""
    directory = find(root, posixpath.dirname(flip.path))
    names = sorted(directory.live) if isinstance(directory, Directory) else []
    found = [filenames.parse(name) for name in names]
    bases = [one.base_offset for one in found if one is not None and one.file == filenames.LOG]
    return min((base for base in bases if base > flip.base_offset), default=filenames.OFFSET_MAX)


def _logs(directory: Directory, path: str) -> Iterator[tuple[str, str, Inode, list[Batch]]]:
    """Yield the directory, name and file of each log with batches below its recovery point."""
    checkpoint = directory.live.get(filenames.RECOVERY_POINT_CHECKPOINT)
    if isinstance(checkpoint, Inode):
        try:
            points = decode_offsets(path, bytes(checkpoint.live))
        except CheckpointError:
            points = {}
        for (topic, partition), point in sorted(points.items()):
            name = f"{topic}-{partition}"
            node = directory.live.get(name)
            if isinstance(node, Directory):
                yield from _segments(node, f"{path}/{name}", point)
        return
    for name, node in sorted(directory.live.items(), key=lambda entry: entry[0]):
        if isinstance(node, Directory):
            yield from _logs(node, f"{path}/{name}")


def _segments(
    directory: Directory, path: str, point: int
) -> Iterator[tuple[str, str, Inode, list[Batch]]]:
    for name, node in sorted(directory.live.items(), key=lambda entry: entry[0]):
        parsed = filenames.parse(name)
        if parsed is None or parsed.kind is not Kind.SEGMENT or not isinstance(node, Inode):
            continue
        if parsed.file == filenames.LOG and not parsed.transit:
            batches = list(batches_below(node.live, point))
            if batches:
                yield path, name, node, batches


def batches_below(content: bytearray, point: int) -> Iterator[Batch]:
    """Yield the batches that end at or below an offset, as far as they can be read."""
    begin = 0
    while begin + _SMALLEST_BYTES <= len(content):
        base_offset, length = _FRAME.unpack_from(content, begin)
        end = begin + _FRAME.size + length
        if length <= 0 or end > len(content):
            return
        next_offset = base_offset + 1
        if content[begin + _MAGIC_AT] >= 2:
            next_offset += _LAST_OFFSET_DELTA.unpack_from(content, begin + _LAST_OFFSET_DELTA_AT)[0]
        if next_offset > point:
            return
        yield Batch(begin, end, base_offset, next_offset)
        begin = end
