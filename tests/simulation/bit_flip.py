"""Which bit of a disk flips: one in a batch below its log's recovery point.

No recovery looks there. The points are those of the checkpoint file, so they may be behind the
broker's own. The flip happens in what programs read and on the disk alike.

A `Flip` knows the batch as it was written and as it is now. So whoever is served it can tell
whether what was served has the flipped bit.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from protocol.record_batch import HEADER_SIZE, LOG_OVERHEAD, read_header, verify
from protocol.record_errors import RecordError
from protocol.wire import ZERO_UUID
from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.text_files import decode_offsets, decode_partition_metadata
from tests.simulation.clients.served import MAGIC_AT, seen_batch
from tests.support.memory_inodes import Directory, Inode, find

CRC_AT: Final = 5  # behind the offset and the size: epoch and magic are not covered
_LAST_OFFSET_DELTA: Final = range(23, 27)
_LEADING: Final = {*range(LOG_OVERHEAD), MAGIC_AT, *_LAST_OFFSET_DELTA}


class Batch(NamedTuple):
    """A batch in a log, as it was written: bytes [begin, end), and what it holds."""

    begin: int
    end: int
    base_offset: int
    next_offset: int
    epoch: int
    records: Collection[tuple[int, bytes]]  # offset and value


@dataclass(frozen=True, slots=True)
class Flip:
    """What was flipped, in which batch, and what that makes of it."""

    partition: str  # the name of its directory
    topic_id: bytes  # whose partition that is
    path: str
    position: int
    bit: int
    batch: Batch
    head: bytes  # of the batch as it is now: its header, and the flipped byte in any case
    since_ns: int = 0  # when it flipped

    def __str__(self) -> str:
        batch = self.batch
        byte = f"byte {self.at} of the batch {batch.base_offset} to {batch.next_offset - 1}"
        return f"has a flipped bit {self.bit} in {byte}, {self.path} at {self.position}"

    @property
    def at(self) -> int:
        """Where in its batch the flipped byte is."""
        return self.position - self.batch.begin

    @property
    def base_offset(self) -> int:
        """The first offset of the batch, as it was written."""
        return self.batch.base_offset

    @property
    def next_offset(self) -> int:
        """The offset after the batch, as it was written."""
        return self.batch.next_offset

    @property
    def hides(self) -> bool:
        """Whether it is in what leads from this batch to the next."""
        return self.at in _LEADING

    @property
    def shows(self) -> bool:
        """Whether whoever checks the CRC of the batch finds it."""
        return self.at >= LOG_OVERHEAD + CRC_AT

    @property
    def shift(self) -> int:
        """By how much the offsets of the batch are too high now."""
        return read_header(self.head).base_offset - self.base_offset

    def begins(self, data: bytes | bytearray | memoryview, at: int) -> bool:
        """Whether the batch, with the flipped bit, is what begins at a place of some bytes."""
        found = bytes(data[at : at + len(self.head)])
        return len(found) > self.at and self.head.startswith(found)

    def is_in(self, records: Iterable[tuple[int, bytes]], epoch: int = -1) -> bool:
        """Whether records are of the batch and show the flipped bit, which no CRC covers.

        `epoch` is that of their batch, if it is known. Compaction may have copied them.
        """
        shift = self.shift
        if not shift and epoch in (-1, self.batch.epoch):
            return False
        if not shift and epoch != read_header(self.head).leader_epoch:
            return False
        return any((offset - shift, value) in self.batch.records for offset, value in records)


def flip_bit(
    root: Directory, rng: random.Random, but: Collection[str], known: Sequence[Flip] = ()
) -> Flip | None:
    """Flip a bit of a partition that is not in `but`; None if no log has a recovery point.

    It is none of those in `known`, which have been flipped before.
    """
    logs = [found for found in _logs(root, "", known) if found.name not in but]
    if not logs:
        return None
    chosen = rng.choice(sorted({log.directory for log in logs}))
    log = rng.choice([log for log in logs if log.directory == chosen])
    batch = rng.choice(log.batches)
    flipped = {(flip.path, flip.position, flip.bit) for flip in known}
    while True:
        position, bit = rng.randrange(batch.begin, batch.end), rng.randrange(8)
        if (log.path, position, bit) not in flipped:
            break
    content = log.inode.live
    content[position] ^= 1 << bit
    if position < len(log.inode.durable):
        log.inode.durable[position] ^= 1 << bit
    head = content[batch.begin : max(batch.begin + HEADER_SIZE, position + 1)]
    return Flip(log.name, log.topic_id, log.path, position, bit, batch, bytes(head))


def holds(root: Directory, flip: Flip) -> bool:
    """Whether a flipped bit is still there, as it was left."""
    node = find(root, flip.path)
    return isinstance(node, Inode) and flip.begins(node.live, flip.batch.begin)


def found_again(root: Directory, flip: Flip) -> int:
    """Return an offset at which what is behind the batch with a flipped bit can be found.

    That is the next batch, unless the bit is in what leads there: then the next segment.
    """
    directory = find(root, posixpath.dirname(flip.path))
    names = sorted(directory.live) if isinstance(directory, Directory) else []
    found = [filenames.parse(name) for name in names]
    bases = [one.base_offset for one in found if one is not None and one.file == filenames.LOG]
    end = min((base for base in bases if base > flip.base_offset), default=filenames.OFFSET_MAX)
    node = find(root, flip.path)
    if not flip.hides and isinstance(node, Inode) and holds(root, flip):
        try:
            base_offset = read_header(node.live, flip.batch.end).base_offset
        except RecordError:
            return end  # it is the last one
        if flip.next_offset <= base_offset < end:
            return base_offset
    return end


def refused_from(root: Directory, flip: Flip, known: Sequence[Flip]) -> int:
    """Return the offset from which reading a log with holes meets the batch with a flipped bit.

    That is where the batch before it ends; it is refused itself if the two seem to overlap.
    """
    node = find(root, flip.path)
    if not isinstance(node, Inode) or not holds(root, flip):
        return 0  # compaction has copied it
    flips = {one.batch.begin: one for one in known if one.path == flip.path}
    batches = list(batches_below(node.live, filenames.OFFSET_MAX, flips))
    before = [one for one in batches if one.begin < flip.batch.begin]
    if flip.shift < 0 and before:
        before.pop()
    return before[-1].next_offset if before else 0


class _Log(NamedTuple):
    """One file of a log, with batches below its recovery point."""

    directory: str
    topic_id: bytes
    path: str
    inode: Inode
    batches: list[Batch]

    @property
    def name(self) -> str:
        return posixpath.basename(self.directory)


def _logs(directory: Directory, path: str, known: Sequence[Flip]) -> Iterator[_Log]:
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
                yield from _segments(node, f"{path}/{name}", point, known)
        return
    for name, node in sorted(directory.live.items(), key=lambda entry: entry[0]):
        if isinstance(node, Directory):
            yield from _logs(node, f"{path}/{name}", known)


def _segments(directory: Directory, path: str, point: int, known: Sequence[Flip]) -> Iterator[_Log]:
    topic_id = _topic_id(directory)
    for name, node in sorted(directory.live.items(), key=lambda entry: entry[0]):
        parsed = filenames.parse(name)
        if parsed is None or parsed.kind is not Kind.SEGMENT or not isinstance(node, Inode):
            continue
        if parsed.file == filenames.LOG and not parsed.transit:
            at = f"{path}/{name}"
            flips = {flip.batch.begin: flip for flip in known if flip.path == at}
            batches = list(batches_below(node.live, point, flips))
            if batches:
                yield _Log(path, topic_id, at, node, batches)


def _topic_id(directory: Directory) -> bytes:
    file = directory.live.get(filenames.PARTITION_METADATA)
    if isinstance(file, Inode):
        try:
            return decode_partition_metadata("", bytes(file.live))
        except CheckpointError:
            pass  # a power cut has emptied it
    return ZERO_UUID


def batches_below(
    content: bytearray, point: int, known: Mapping[int, Flip] = MappingProxyType({})
) -> Iterator[Batch]:
    """Yield the batches that end at or below an offset, as far as they can be read.

    `known` has flips by the place of their batch: what was written there is known.
    """
    begin = 0
    while begin < len(content):
        flip = known.get(begin)
        if flip is not None and flip.begins(content, begin):
            batch = flip.batch
        else:
            try:
                end = begin + verify(content, begin).size
            except RecordError:
                return
            seen = seen_batch(memoryview(bytes(content[begin:end])))
            following = seen.last_offset + 1
            records = frozenset(seen.records)
            batch = Batch(begin, end, seen.base_offset, following, seen.epoch, records)
        if batch.next_offset > point:
            return
        yield batch
        begin = batch.end
