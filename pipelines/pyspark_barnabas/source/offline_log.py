"""What a broker would answer about its logs, found in its directory: topics, offsets, times.

`DataDirectory` answers the three questions that `pyspark_barnabas.offsets` asks a Cluster, so that
options mean over files what they mean over the wire. Where a log begins is its first segment, or
what `log-start-offset-checkpoint` says if that is later; where it ends is behind its last whole
batch. There is no high watermark in files: what was appended and not yet acknowledged counts.

Indexes are caches and have no checksum. An entry of an `.index` is used only if the batch that it
leads to is whole and holds the offset; an entry of a `.timeindex` only if that batch has its
timestamp. Without them, or with wrong ones, the answer is the same and takes a walk.

Damage in the way of an answer by time raises DamagedLog, unless `tolerant`; that of other answers
is left for those who read the records.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.source.segments import MAGIC, PartitionLog, Piece, Segment, find_logs, walk
from pyspark_barnabas.source.transactions import Transactions, find_transactions
from pyspark_barnabas.wire.batches import HEADER, HEADER_BYTES, Batch, read_batches
from pyspark_barnabas.wire.errors import CorruptBatch, DamagedLog, UnknownTopic
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST, TopicPartition

_LOG_START = "log-start-offset-checkpoint"
_KAFKAS_OWN = re.compile(r"__.*")  # __consumer_offsets, __transaction_state, __cluster_metadata
_NAMED_MAX = 10
_NEAR_BYTES = 1024 * 1024
_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("time", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True, slots=True)
class Spot:
    """A position in a segment at which a batch begins, and the lowest offset that may be there."""

    position: int
    offset: int


class LogFiles:
    """One partition's log, asked without a broker."""

    def __init__(self, log: PartitionLog, log_start: int, *, tolerant: bool) -> None:
        self.log = log
        self._log_start = log_start
        self._tolerant = tolerant

    @cached_property
    def end_offset(self) -> int:
        """The offset behind the last record that is readable."""
        for segment in reversed(self.log.segments):
            end = -1
            spot = near_end(segment, self.spot(segment, (1 << 63) - 1))
            for found in walk(segment, start=spot.position, next_offset=spot.offset):
                if isinstance(found, Piece):
                    end = found.batches[-1].last_offset + 1
            if end >= 0:
                return end
        return max(self._log_start, self.log.segments[-1].base_offset if self.log.segments else 0)

    @cached_property
    def start_offset(self) -> int:
        """The first offset that was not deleted."""
        first = self.log.segments[0].base_offset if self.log.segments else 0
        return min(max(first, self._log_start), max(first, self.end_offset))

    @cached_property
    def transactions(self) -> Transactions:
        """The aborted ones, and where the first open one begins."""
        return find_transactions(self.log, self._walk_from, self.end_offset)

    @property
    def last_stable_offset(self) -> int:
        """The end for those who read what is committed."""
        first_open = self.transactions.first_open
        return self.end_offset if first_open is None else max(first_open, self.start_offset)

    def segments_of(self, start: int, end: int | None) -> list[Segment]:
        """Return the segments that may hold offsets from `start` to `end` (exclusive)."""
        return [
            segment
            for segment in self.log.segments
            if (end is None or segment.base_offset < end)
            and (segment.next_base is None or segment.next_base > start)
        ]

    def spot(self, segment: Segment, offset: int) -> Spot:
        """Return a place from which a walk meets `offset`: by the index, else the beginning."""
        if offset > segment.base_offset:
            entries = offset_index(segment)
            row = int(np.searchsorted(entries["offset"], offset - segment.base_offset)) - 1
            if row >= 0:
                batch = batch_of_entry(segment, entries[row])
                if batch is not None:
                    return Spot(batch.position, batch.base_offset)
        return Spot(0, segment.base_offset)

    def _walk_from(self, offset: int) -> Iterator[Piece]:
        """Walk all batches from a place before `offset` to the end of the log."""
        for segment in self.segments_of(offset, None):
            spot = self.spot(segment, offset)
            for found in walk(segment, start=spot.position, next_offset=spot.offset):
                if isinstance(found, Piece):
                    yield found

    def offset_at(self, time: int) -> int:
        """Return the first offset whose record has a timestamp of at least `time` ms; -1: none."""
        for segment in self.segments_of(self.start_offset, None):
            spot = self._spot_before(segment, time)
            if spot is None:
                continue
            for found in walk(segment, start=spot.position, next_offset=spot.offset):
                if not isinstance(found, Piece):
                    if not self._tolerant:
                        raise DamagedLog(f"looking for a time, {found}. {CURE}")
                    continue
                offset = self._first_since(found, time)
                if offset is not None:
                    return offset
        return -1

    def _first_since(self, piece: Piece, time: int) -> int | None:
        late = [batch for batch in piece.batches if batch.max_timestamp >= time]
        decoder = Decoder(["offset", "timestamp"], self.log.topic, self.log.partition)
        for batch in late:
            if batch.last_offset < self.start_offset:
                continue
            try:
                tables = list(decoder.decode(piece.data, [batch], self.start_offset))
            except CorruptBatch as error:
                if self._tolerant:
                    continue
                at = piece.position + batch.position
                name = f"{self.log.topic}-{self.log.partition} offset {batch.base_offset}"
                raise DamagedLog(f"{name} at position {at}: {error.reason}. {CURE}") from None
            for table in tables:
                times = table["timestamp"].cast("int64").to_numpy()
                rows = np.flatnonzero(times >= time * 1000)
                if len(rows):
                    return int(table["offset"][int(rows[0])].as_py())
        return None

    def _spot_before(self, segment: Segment, time: int) -> Spot | None:
        """Return a place before which all is older than `time`; None if all of the segment is."""
        entries = time_index(segment)
        row = int(np.searchsorted(entries["time"], time)) - 1
        if row < 0:
            return Spot(0, segment.base_offset)
        offset = segment.base_offset + int(entries["offset"][row])
        spot = self.spot(segment, offset + 1)
        for found in walk(segment, start=spot.position, next_offset=spot.offset):
            if not isinstance(found, Piece):
                break
            for batch in found.batches:
                if batch.base_offset <= offset <= batch.last_offset:
                    if batch.max_timestamp != int(entries["time"][row]):
                        return Spot(0, segment.base_offset)
                    if row + 1 == len(entries) and not segment.is_last:
                        return None  # the last entry of a segment that is rolled is its newest
                    return Spot(found.position + batch.position, batch.base_offset)
            if found.batches[-1].last_offset > offset:
                break
        return Spot(0, segment.base_offset)


CURE = (
    "Restore the file from a copy, or read around the place with startingOffsets and "
    "endingOffsets, or with onDamage=skip or rows; `barnabas verify` lists all damage"
)


class DataDirectory:
    """All logs of a directory, as a cluster."""

    def __init__(self, path: str, *, tolerant: bool = False) -> None:
        """List what is there. Raises NotALog, and DamagedLog for a checkpoint that is none."""
        self.path = path
        starts = read_log_starts(path)
        self.logs = {
            (log.topic, log.partition): LogFiles(
                log, starts.get((log.topic, log.partition), 0), tolerant=tolerant
            )
            for log in find_logs(path)
        }

    def topics(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Return the partitions of topics; UnknownTopic if one is not there."""
        known = self._partitions()
        missing = [name for name in names if name not in known]
        if missing:
            others = list(self.all_topics())
            there = ", ".join(others[:_NAMED_MAX]) or "no topic"
            more = f" and {len(others) - _NAMED_MAX} more" if len(others) > _NAMED_MAX else ""
            raise UnknownTopic(
                f"there is no {', '.join(missing)} in {self.path}, which holds {there}{more}. "
                "Check the options assign, subscribe and path"
            )
        return {name: known[name] for name in names}

    def all_topics(self) -> dict[str, list[int]]:
        """Return the partitions of every topic that is not Kafka's own."""
        return {
            name: found
            for name, found in self._partitions().items()
            if not _KAFKAS_OWN.fullmatch(name)
        }

    def _partitions(self) -> dict[str, list[int]]:
        known: dict[str, list[int]] = {}
        for topic, partition in self.logs:
            known.setdefault(topic, []).append(partition)
        return known

    def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation: int = 0
    ) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time for each partition, -1 for none."""
        return {at: self._offset(self.logs[at], time, isolation) for at, time in times.items()}

    def _offset(self, log: LogFiles, time: int, isolation: int) -> int:
        if time == EARLIEST:
            return log.start_offset
        end = log.last_stable_offset if isolation else log.end_offset
        if time == LATEST:
            return end
        found = log.offset_at(time)
        return found if found < end else -1


def read_log_starts(directory: str) -> dict[TopicPartition, int]:
    """Read `log-start-offset-checkpoint`; without the file, nothing was deleted.

    Nor was it while the file is empty, as Kafka makes it at its first start.
    """
    path = os.path.join(directory, _LOG_START)
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DamagedLog(f"{path}: {error}. {_DELETE}") from None
    if not lines:
        return {}
    try:
        version, count, rows = int(lines[0]), int(lines[1]), [row.split(" ") for row in lines[2:]]
        found = {(topic, int(index)): int(offset) for topic, index, offset in rows}
    except (IndexError, ValueError):
        raise DamagedLog(f"{path} is no checkpoint of offsets. {_DELETE}") from None
    if version != 0 or count != len(rows):
        raise DamagedLog(f"{path} has {len(rows)} lines and announces {count}. {_DELETE}")
    return found


_DELETE = (
    "Restore the file; read without it, in a copy of the directory, records that were deleted from "
    "the beginning of a log are seen again"
)


# -- indexes -------------------------------------------------------------------------------------


def _entries(segment: Segment, kind: str, layout: Any, columns: Iterable[str]) -> Any:
    """Return the entries of a cache beside a segment, as far as they rise; none without a file."""
    head, _, tail = segment.path.rpartition(".log")
    try:
        with open(f"{head}.{kind}{tail}", "rb") as file:
            data = file.read()
    except OSError:
        data = b""
    entries = np.frombuffer(data, layout, len(data) // layout.itemsize)
    rises = np.ones(len(entries), bool)
    for name in columns:
        values = entries[name].astype(np.int64)
        rises[1:] &= values[1:] > values[:-1]
        rises &= values >= 0
    count = len(rises) if rises.all() else int(np.argmin(rises))
    entries = entries[:count]
    if count == 1 and not data[: layout.itemsize].strip(b"\0"):
        entries = entries[:0]  # a file that was given its size and has no entry yet
    return entries


def offset_index(segment: Segment) -> Any:
    """Return `.index` as an array of (offset - base, position), both rising."""
    return _entries(segment, "index", _OFFSET_ENTRY, ("offset", "position"))


def time_index(segment: Segment) -> Any:
    """Return `.timeindex` as an array of (time in ms, offset - base); times rise."""
    return _entries(segment, "timeindex", _TIME_ENTRY, ("time",))


# -- headers alone ---------------------------------------------------------------------------------


def follow_headers(segment: Segment, spot: Spot, end: int) -> Iterator[Batch]:
    """Yield the headers of batches from a place on, their positions in the file, unchecked.

    Stops at position `end`, or where the sizes lead nowhere: whoever reads the records says so.
    """
    try:
        file = os.open(segment.path, os.O_RDONLY)
    except OSError:
        return
    position, offset = spot.position, spot.offset
    try:
        while position < end:
            head = os.pread(file, HEADER_BYTES, position)
            if len(head) < HEADER_BYTES:
                return
            batch = Batch(position, *HEADER.unpack(head))
            behind = position + batch.size
            if batch.magic != MAGIC or batch.size < HEADER_BYTES or behind > segment.size:
                return
            if batch.base_offset < offset:
                return
            yield batch
            position, offset = behind, batch.last_offset + 1
    finally:
        os.close(file)


def near_end(segment: Segment, spot: Spot) -> Spot:
    """Return a place near the end of a segment from which few batches are left to be checked.

    A broker that runs has not written the index of the newest segment yet; without this all of it
    would be read to find its end.
    """
    before = near = spot
    if segment.size - spot.position <= _NEAR_BYTES:
        return spot
    for batch in follow_headers(segment, spot, segment.size):
        if batch.position - near.position >= _NEAR_BYTES:
            before, near = near, Spot(batch.position, batch.base_offset)
    return before


def batch_of_entry(segment: Segment, entry: Any) -> Batch | None:
    """Return the batch that an entry of `.index` leads to, its position in the file.

    None if there is no whole batch with that offset: the index is not this file's.
    """
    offset, position = segment.base_offset + int(entry["offset"]), int(entry["position"])
    try:
        file = os.open(segment.path, os.O_RDONLY)
    except OSError:
        return None  # who reads it says so
    try:
        head = os.pread(file, HEADER_BYTES, position)
        if len(head) < HEADER_BYTES:
            return None
        batch = Batch(position, *HEADER.unpack(head))
        inside = batch.base_offset <= offset <= batch.last_offset
        if batch.magic != MAGIC or not inside or batch.size > segment.size - position:
            return None
        if next(read_batches(os.pread(file, batch.size, position)), None) is None:
            return None
    except CorruptBatch:
        return None
    finally:
        os.close(file)
    return batch
