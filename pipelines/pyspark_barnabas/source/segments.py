"""A data directory's logs as files: which segments there are, and their batches, checked.

    for log in find_logs("/var/lib/barnabas"):
        for segment in log.segments:
            for found in walk(segment):      # Piece (bytes and the batches in them) or Damage
                ...

The directory is Kafka's (docs/storage-format.md): `<topic>-<partition>/` holds `<20 digits>.log`
files, each named after its first offset. Only these are read; `.index` and the like are caches and
`pyspark_barnabas.source.offline_log` knows them. What is on its way out or in is treated as the
next start of a broker would, without writing anything:

    .cleaned                 a compaction under way: not read
    .deleted, .quarantine    replaced, expired or cut: not read
    .log.swap                a compacted copy, whole and synced: read in place of the segments that
                             begin between its base and its last batch; not if a .cleaned stands
                             beside it, nor if it is damaged while its first source is still there

`walk` holds every batch against its size, magic and CRC, and against its neighbours' offsets, for
the base offset lies outside the CRC. Behind damage it goes on at the next batch that is whole. The
kinds of Damage, with the words of `barnabas verify` where that has them:

    structure   sizes that lead nowhere, a magic that does not exist, a batch over its bounds
    checksum    a batch whose bytes are not those its CRC was taken of
    order       a whole batch whose offsets go back, or reach into the next batch or segment
    torn        the file ends within a batch whose header is in order
    zeros       nothing but zeros up to the end of the file
    format      whole messages of magic 0 or 1, from before Kafka 0.11: not damaged, and not read
    records     of a batch with a right CRC: what is in it contradicts itself (`walk` opens none)

A stop without a shutdown leaves a torn end, or zeros, in the last segment of a log. There it is no
damage, and `walk` is silent about it unless `tails` asks. Nothing here opens a batch, keeps
anything, or knows Spark.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark_barnabas.wire.batches import (
    HEADER,
    HEADER_BYTES,
    Batch,
    first_batch_size,
    read_batches,
)
from pyspark_barnabas.wire.errors import CorruptBatch, NotALog

MiB = 1024 * 1024
CHUNK_BYTES: Final = 4 * MiB  # read at a time; the decoder makes one or two tables of it
BATCH_BYTES_MAX: Final = 256 * MiB  # no broker takes a larger batch: a size beyond it is damage
MAGIC: Final = 2  # the format of batches; 0 and 1 are messages, from before Kafka 0.11
TORN, ZEROS, STRUCTURE, CHECKSUM = "torn", "zeros", "structure", "checksum"
ORDER, FORMAT, RECORDS = "order", "format", "records"

_LOG = re.compile(r"(\d{20})\.log(\.swap|\.cleaned)?", re.ASCII)
_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})", re.ASCII)
_OLD_MESSAGE_BYTES_MIN = (26, 34)  # of magic 0 and 1, with its offset and size
_OLD_CRC_POSITION, _MAGIC_POSITION = 12, 16
_OFFSET_BYTES = 8
_ZERO_CHUNK_BYTES = 1 * MiB


@dataclass(frozen=True, slots=True)
class Segment:
    """One `.log` file; `size` in bytes is what it had when the directory was listed."""

    topic: str
    partition: int
    path: str
    base_offset: int
    size: int
    next_base: int | None = None  # where the next segment begins; None: this is the last

    @property
    def is_last(self) -> bool:
        """Whether the broker was appending to it."""
        return self.next_base is None


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One partition's directory and its segments in the order of their offsets, maybe none."""

    topic: str
    partition: int
    path: str
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        """Bytes of all its segments."""
        return sum(segment.size for segment in self.segments)


class Piece(NamedTuple):
    """Bytes from `position` of a file, and whole batches in them, their positions within `data`."""

    position: int
    data: bytes
    batches: list[Batch]


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are not what was written there, or cannot be read."""

    kind: str
    path: str
    topic: str
    partition: int
    position: int  # where it begins, and how many bytes it is
    size: int
    offset: int  # the first offset that is not readable for it
    next_offset: int  # the first that is readable behind it; -1: none in this file
    reason: str

    def __str__(self) -> str:
        """Say what was found where, for a person."""
        behind = f" to {self.next_offset - 1}" if self.next_offset > self.offset else ""
        return (
            f"{self.path} at position {self.position}: {self.kind}, {self.reason}; {self.size} "
            f"bytes, offsets from {self.offset}{behind} of {self.topic}-{self.partition}"
        )


def find_logs(directory: str) -> list[PartitionLog]:
    """Return all logs of a data directory, by topic and partition; of none, an empty list.

    Raises NotALog when the directory cannot be read, or nothing says that it is a broker's.
    """
    try:
        names = sorted(os.listdir(directory))
    except NotADirectoryError:
        raise NotALog(f"{directory} is a file, wanted a broker's data directory") from None
    except OSError as error:
        raise NotALog(
            f"{directory}: {error.strerror}. A data directory must be readable under the same "
            "path on the driver and on every executor"
        ) from None
    found = []
    for name in names:
        match = _PARTITION.fullmatch(name)
        path = os.path.join(directory, name)
        if match and os.path.isdir(path):
            with suppress(FileNotFoundError):  # its topic is being deleted
                found.append(_read_log(match[1], int(match[2]), path))
    if not found and "meta.properties" not in names:
        raise NotALog(f"{directory} is no broker's data directory: {_what_it_is(directory, names)}")
    return sorted(found, key=lambda log: (log.topic, log.partition))


def _what_it_is(directory: str, names: list[str]) -> str:
    if any(_LOG.fullmatch(name) for name in names):
        above, name = os.path.split(os.path.abspath(directory))
        return f"it is the directory of one partition, {name}. Give {above} and choose by assign"
    what = "it is empty" if not names else "there is no <topic>-<partition> in it"
    return f"{what}, and no meta.properties"


def _read_log(topic: str, partition: int, path: str) -> PartitionLog:
    """List a partition's segments; what a stopped compaction left is treated as a start would."""
    sizes: dict[str, int] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            if _LOG.fullmatch(entry.name):
                with suppress(FileNotFoundError):  # a broker that runs on it deletes and compacts
                    sizes[entry.name] = entry.stat().st_size
    logs: dict[int, str] = {}
    swaps: list[Segment] = []
    cleaned: list[int] = []
    for name in sorted(sizes):
        base = int(name[:20])
        if name.endswith(".log"):
            logs[base] = name
        elif name.endswith(".cleaned"):
            cleaned.append(base)
        else:
            swaps.append(
                Segment(topic, partition, os.path.join(path, name), base, sizes[name], base)
            )
    for swap in swaps:
        if not cleaned or swap.base_offset < min(cleaned):
            with suppress(FileNotFoundError):  # it has its last name by now
                _swap_in(logs, swap)
    bases = sorted(logs)
    return PartitionLog(
        topic,
        partition,
        path,
        tuple(
            Segment(
                topic, partition, os.path.join(path, logs[base]), base, sizes[logs[base]], after
            )
            for base, after in zip(bases, [*bases, None][1:], strict=True)
        ),
    )


def _swap_in(logs: dict[int, str], swap: Segment) -> None:
    """Put a compacted copy in the place of what it was made of."""
    base = end = swap.base_offset
    whole = Segment(swap.topic, swap.partition, swap.path, base, swap.size)
    for found in walk(whole, tails=True):
        if isinstance(found, Piece):
            end = found.batches[-1].last_offset + 1
        elif base in logs and found.kind != FORMAT:
            return
    for source in [other for other in logs if base <= other < end]:
        del logs[source]
    logs[base] = os.path.basename(swap.path)


def walk(
    segment: Segment,
    *,
    start: int = 0,
    end: int | None = None,
    next_offset: int | None = None,
    end_offset: int | None = None,
    check_crc: bool = True,
    tails: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Piece | Damage]:
    """Yield the batches of a segment in order, and what is damaged between them.

    `start` and `end` are positions where a batch begins; then `next_offset` is the lowest offset
    that may stand at `start`, and `end_offset` the lowest at `end`. No Piece is without a batch.
    Batches of Pieces have rising offsets that stay below the next segment's. With `tails` it also
    tells of a torn end or zeros in the last segment. Raises OSError.
    """
    file = os.open(segment.path, os.O_RDONLY)
    try:
        yield from _Walk(
            file=file,
            segment=segment,
            end=segment.size if end is None else min(end, segment.size),
            limit=segment.next_base if end_offset is None else end_offset,
            check_crc=check_crc,
            tails=tails,
            chunk_bytes=chunk_bytes,
            next_offset=segment.base_offset if next_offset is None else next_offset,
        ).run(start)
    finally:
        os.close(file)


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One pass over an open file."""

    file: int
    segment: Segment
    end: int
    limit: int | None
    check_crc: bool
    tails: bool
    chunk_bytes: int
    next_offset: int

    def run(self, position: int) -> Iterator[Piece | Damage]:
        """Yield what stands between `position` and the end."""
        while position < self.end:
            data, batches, error = self._read_run(position)
            if batches:
                yield from self._in_order(position, data, batches)
                position += batches[-1].position + batches[-1].size
            if error is not None:
                damage = self._damage_at(position, error)
                self.next_offset = max(self.next_offset, damage.next_offset)
                if self.tails or not self._is_usual(damage):
                    yield damage
                position += damage.size

    def _is_usual(self, damage: Damage) -> bool:
        """Whether a stop without a shutdown leaves this."""
        at_end = damage.position + damage.size >= self.segment.size
        return damage.kind in (TORN, ZEROS) and self.segment.is_last and at_end

    def _pread(self, position: int, size: int) -> bytes:
        return os.pread(self.file, max(0, min(size, self.end - position)), position)

    def _read_run(self, position: int) -> tuple[bytes, list[Batch], CorruptBatch | None]:
        """Return the whole batches from `position` on, and what is wrong behind them, if it is."""
        data = self._pread(position, self.chunk_bytes)
        while True:
            batches: list[Batch] = []
            try:
                for batch in read_batches(data, check_crc=self.check_crc):
                    batches.append(batch)  # noqa: PERF402 - what comes before an error is kept
            except CorruptBatch as error:
                return data, batches, error
            size = first_batch_size(data) or 0
            left = self.end - position
            if batches:
                return data, batches, None
            if len(data) < HEADER_BYTES <= left:
                cut = f"the file was cut to {position + len(data)} bytes while it was read"
                return data, [], CorruptBatch(0, cut)
            if size > min(left, BATCH_BYTES_MAX) or left < HEADER_BYTES:
                reason = f"a batch of {size} bytes" if size else "the beginning of a batch"
                return data, [], CorruptBatch(0, f"{reason}, but {left} are left")
            if len(data) >= min(size, left):
                return data, [], CorruptBatch(0, f"a batch of {size} bytes")
            data = self._pread(position, size)

    def _in_order(
        self, position: int, data: bytes, batches: list[Batch]
    ) -> Iterator[Piece | Damage]:
        """Yield batches whose offsets fit their neighbours', and Damage for those that do not."""
        begun = 0
        for index, batch in enumerate(batches):
            limit = self.limit
            last_offset = batch.base_offset + batch.last_offset_delta
            if batch.base_offset == self.next_offset and (limit is None or last_offset < limit):
                self.next_offset = last_offset + 1
                continue
            following = self._offset_at(position + batch.position + batch.size)
            if following >= self.next_offset and (limit is None or following < limit):
                limit = following  # who stands between two that fit is the one that is wrong
            reason = ""
            if batch.base_offset < self.next_offset:
                reason = f"base offset {batch.base_offset}, wanted at least {self.next_offset}"
            elif limit is not None and last_offset >= limit:
                reason = f"offsets {batch.base_offset} to {batch.last_offset}, wanted below {limit}"
            if not reason:
                self.next_offset = last_offset + 1
                continue
            if index > begun:
                yield Piece(position, data, batches[begun:index])
            begun = index + 1
            at = position + batch.position
            yield self._damage(ORDER, at, batch.size, reason, self.next_offset)
        if begun < len(batches):
            yield Piece(position, data, batches[begun:])

    def _offset_at(self, position: int) -> int:
        """Return the base offset of the batch that begins at `position`; -1 where none does."""
        head = self._pread(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES or head[_MAGIC_POSITION] != MAGIC:
            return -1
        return int.from_bytes(head[:_OFFSET_BYTES], "big", signed=True)

    # -- behind the first batch that is none -------------------------------------------------------

    def _damage(self, kind: str, position: int, size: int, reason: str, next_offset: int) -> Damage:
        segment = self.segment
        offset = self.next_offset
        return Damage(
            kind, segment.path, segment.topic, segment.partition, position, size, offset,
            next_offset, reason,
        )  # fmt: skip

    def _damage_at(self, position: int, error: CorruptBatch) -> Damage:
        """Name what stands at `position`, and find where the log goes on."""
        head = self._pread(position, HEADER_BYTES)
        left = self.end - position
        if self._is_zero(position):
            reason = f"{left} bytes of zeros up to the end of the file"
            return self._damage(ZEROS, position, left, reason, -1)
        if len(head) > _MAGIC_POSITION and head[_MAGIC_POSITION] < MAGIC:
            old = self._old_messages(position)
            if old is not None:
                return old
        batch = Batch(0, *HEADER.unpack(head)) if len(head) == HEADER_BYTES else None
        kind = STRUCTURE
        found_at: int | None = None
        if batch is not None and batch.magic == MAGIC and HEADER_BYTES <= batch.size <= left:
            kind = CHECKSUM
            found_at = position + batch.size
        if found_at != self.end and (found_at is None or self._whole_batch(found_at) is None):
            found_at = self._search(position + 1)
        found = None if found_at is None else self._whole_batch(found_at)
        if found_at is None:
            found_at = self.end
            kind = TORN if self._is_torn(head, left) else kind
        next_offset = -1 if found is None else found.base_offset
        return self._damage(kind, position, found_at - position, error.reason, next_offset)

    def _is_torn(self, head: bytes, left: int) -> bool:
        """Whether this is how a batch begins that goes on behind the end of the file."""
        if os.fstat(self.file).st_size < self.end:
            return False  # it was longer when it was listed
        if len(head) < HEADER_BYTES:
            return len(head) < _OFFSET_BYTES or self._may_follow(
                int.from_bytes(head[:_OFFSET_BYTES], "big")
            )
        batch = Batch(0, *HEADER.unpack(head))
        sound = batch.magic == MAGIC and batch.last_offset_delta >= 0 and batch.record_count >= 0
        return (
            sound and left < batch.size <= BATCH_BYTES_MAX and self._may_follow(batch.base_offset)
        )

    def _may_follow(self, offset: int) -> bool:
        limit = self.next_offset + (1 << 31) if self.limit is None else self.limit
        return self.next_offset <= offset < limit

    def _is_zero(self, position: int) -> bool:
        while position < self.end:
            piece = self._pread(position, _ZERO_CHUNK_BYTES)
            if not piece or piece.strip(b"\0"):
                return False
            position += len(piece)
        return True

    def _whole_batch(self, position: int) -> Batch | None:
        """Return the batch at `position` if its CRC is right and its offset may stand here."""
        head = self._pread(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            return None
        batch = Batch(0, *HEADER.unpack(head))
        if batch.magic != MAGIC or not HEADER_BYTES <= batch.size <= BATCH_BYTES_MAX:
            return None
        if not self._may_follow(batch.base_offset) or batch.size > self.end - position:
            return None
        try:
            return next(read_batches(self._pread(position, batch.size)), None)
        except CorruptBatch:
            return None

    def _search(self, position: int) -> int | None:
        """Return where the next whole batch begins: its magic and half its offset are known."""
        high = re.escape((self.next_offset >> 32).to_bytes(4, "big"))
        pattern = re.compile(b"(?=" + high + b".{12}\x02)", re.DOTALL)
        while position < self.end:
            piece = self._pread(position, self.chunk_bytes)
            for match in pattern.finditer(piece):
                if self._whole_batch(position + match.start()) is not None:
                    return position + match.start()
            step = len(piece) - _MAGIC_POSITION
            if step <= 0:
                return None
            position += step
        return None

    def _old_messages(self, position: int) -> Damage | None:
        """Return the run of whole messages of magic 0 and 1 at `position`, if there is one."""
        at, count, last = position, 0, self.next_offset - 1
        magics = set()
        while True:
            head = self._pread(at, _MAGIC_POSITION + 1)
            if len(head) <= _MAGIC_POSITION or head[_MAGIC_POSITION] > 1:
                break
            size = first_batch_size(head) or 0
            offset = int.from_bytes(head[:_OFFSET_BYTES], "big")
            least = _OLD_MESSAGE_BYTES_MIN[head[_MAGIC_POSITION]]
            if not least <= size <= min(self.end - at, BATCH_BYTES_MAX) or offset <= last:
                break
            body = self._pread(at, size)
            if zlib.crc32(memoryview(body)[_MAGIC_POSITION:]) != int.from_bytes(
                body[_OLD_CRC_POSITION:_MAGIC_POSITION], "big"
            ):
                break
            magics.add(head[_MAGIC_POSITION])
            at, count, last = at + size, count + 1, offset
        if not count:
            return None
        formats = " and ".join(map(str, sorted(magics)))
        reason = f"{count} messages of format {formats}, from before Kafka 0.11"
        return self._damage(FORMAT, position, at - position, reason, last + 1)
