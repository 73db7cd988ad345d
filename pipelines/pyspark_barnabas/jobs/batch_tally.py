"""Sums over a partition's batches: counts, bytes, codecs, sizes, times.

`tally_range` fetches a range of offsets and returns its Tally. Most figures come from batch
headers. Batches are opened only for their records' timestamps, and not at all with log append time.
A batch's bytes are spread over time like its records. Batches are counted whole. One compressed
batch in SAMPLE_EVERY is decompressed to measure what compression saves. Control batches hold no
user records and are counted separately. Records that cannot be decoded, or have no timestamp, are
counted without one.

A Tally is small, however large its range: tasks pickle theirs and the driver merges them. If there
are too many intervals of time, it widens them from a minute to an hour to a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyspark_barnabas.columns import Decoder
from pyspark_barnabas.offsets import Range
from pyspark_barnabas.options import SourceOptions
from pyspark_barnabas.source.reader import LogPartition, fetch_range
from pyspark_barnabas.wire.batches import HEADER_BYTES, Batch, Buffer
from pyspark_barnabas.wire.compression import NAMES, decompress
from pyspark_barnabas.wire.errors import CorruptBatch

INTERVAL_NAMES: Final = {60_000: "minute", 3_600_000: "hour", 86_400_000: "day"}
WIDTHS_MS: Final = tuple(INTERVAL_NAMES)
INTERVALS_MAX: Final = 50_000  # a month of minutes, five years of hours
SAMPLE_EVERY: Final = 16


@dataclass(slots=True)
class CodecTally:
    """Batches of one codec; the sample is those decompressed, in bytes without headers."""

    batch_count: int = 0
    size_bytes: int = 0
    sample_packed: int = 0
    sample_unpacked: int = 0

    @property
    def unpacked_bytes(self) -> float:
        """The bytes of the batches without compression, estimated from the sample."""
        if not self.sample_packed:
            return self.size_bytes
        headers = self.batch_count * HEADER_BYTES
        return headers + (self.size_bytes - headers) * self.sample_unpacked / self.sample_packed


@dataclass(slots=True)
class Tally:
    """Figures of one partition's batches, or of a part of them. Times are ms since 1970."""

    topic: str
    partition: int
    record_count: int = 0
    size_bytes: int = 0
    batch_count: int = 0
    control_count: int = 0
    timeless_count: int = 0  # records without a timestamp, or that cannot be decoded
    start_offset: int = -1
    end_offset: int = -1
    time_min: int = -1
    time_max: int = -1
    batch_bytes_max: int = 0
    batch_records_max: int = 0
    codecs: dict[str, CodecTally] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)  # power of two -> batches up to it, bytes
    counts: dict[int, int] = field(default_factory=dict)  # the same, records
    width_ms: int = WIDTHS_MS[0]
    times: dict[int, list[int]] = field(default_factory=dict)  # interval -> records, bytes

    def add(self, data: Buffer, batches: Sequence[Batch]) -> None:
        """Add batches that are in `data`."""
        for batch in batches:
            self._add_header(data, batch)
        users = [batch for batch in batches if not batch.is_control]
        opened = [batch for batch in users if not batch.is_log_append_time]
        for batch in users:
            if batch.is_log_append_time:
                times = np.full(batch.record_count, batch.max_timestamp, np.int64)
                self._add_times([batch], times)
        try:
            self._add_times(opened, self._times(data, opened))
        except CorruptBatch:
            for batch in opened:
                self._add_times_of_one(data, batch)
        self._widen_if_many()

    def _add_header(self, data: Buffer, batch: Batch) -> None:
        if self.start_offset < 0:
            self.start_offset = batch.base_offset
        self.end_offset = batch.last_offset + 1
        if batch.is_control:
            self.control_count += 1
            return
        size, count = batch.size, batch.record_count
        self.batch_count += 1
        self.record_count += count
        self.size_bytes += size
        self.batch_bytes_max = max(self.batch_bytes_max, size)
        self.batch_records_max = max(self.batch_records_max, count)
        _count(self.sizes, size)
        _count(self.counts, count)
        self._add_codec(data, batch)

    def _add_codec(self, data: Buffer, batch: Batch) -> None:
        name = NAMES[batch.codec] if batch.codec < len(NAMES) else f"codec {batch.codec}"
        tally = self.codecs.setdefault(name, CodecTally())
        if batch.codec and tally.batch_count % SAMPLE_EVERY == 0:
            start, end = batch.position + HEADER_BYTES, batch.position + batch.size
            packed = memoryview(data)[start:end]
            try:
                unpacked = len(decompress(batch.codec, packed, 1 << 28))
            except CorruptBatch:
                unpacked = 0  # reading the records reports it
            if unpacked:
                tally.sample_packed += len(packed)
                tally.sample_unpacked += unpacked
        tally.batch_count += 1
        tally.size_bytes += batch.size

    def _times(self, data: Buffer, batches: Sequence[Batch]) -> npt.NDArray[np.int64]:
        """Return the timestamps of the records of these batches. Raises CorruptBatch."""
        tables = Decoder(["timestamp"], self.topic, self.partition).decode(data, batches)
        found = [table["timestamp"].cast(pa.int64()).to_numpy() // 1000 for table in tables]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _add_times_of_one(self, data: Buffer, batch: Batch) -> None:
        try:
            self._add_times([batch], self._times(data, [batch]))
        except CorruptBatch:
            self.timeless_count += batch.record_count  # reading the records reports it

    def _add_times(self, batches: Sequence[Batch], times: npt.NDArray[np.int64]) -> None:
        """Add the timestamps of the records of these batches, in order."""
        timed = times[times >= 0]
        self.timeless_count += len(times) - len(timed)
        if not len(timed):
            return
        first = int(timed.min())
        self.time_min = first if self.time_min < 0 else min(self.time_min, first)
        self.time_max = max(self.time_max, int(timed.max()))
        row = 0
        for batch in batches:
            mine = times[row : row + batch.record_count]
            row += batch.record_count
            intervals, counts = np.unique(mine[mine >= 0] // self.width_ms, return_counts=True)
            done = size = 0
            for interval, count in zip(intervals.tolist(), counts.tolist(), strict=True):
                done += count
                upto = batch.size * done // len(mine)
                _add_pair(self.times, interval, [count, upto - size])
                size = upto

    def _widen_if_many(self) -> None:
        while len(self.times) > INTERVALS_MAX and self.width_ms < WIDTHS_MS[-1]:
            self.widen(WIDTHS_MS[WIDTHS_MS.index(self.width_ms) + 1])

    def widen(self, width_ms: int) -> None:
        """Make the intervals at least `width_ms` wide, one of WIDTHS_MS."""
        if width_ms <= self.width_ms:
            return
        factor = width_ms // self.width_ms
        narrow, self.times, self.width_ms = self.times, {}, width_ms
        for interval, part in narrow.items():
            _add_pair(self.times, interval // factor, part)

    def merge(self, other: Tally) -> None:
        """Add another part of the same partition, or another partition's tally for a total."""
        for name in ("record_count", "size_bytes", "batch_count", "control_count",
                     "timeless_count"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("batch_bytes_max", "batch_records_max", "end_offset", "time_max"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        for name in ("start_offset", "time_min"):
            known = [one for one in (getattr(self, name), getattr(other, name)) if one >= 0]
            setattr(self, name, min(known, default=-1))
        for codec, theirs in other.codecs.items():
            ours = self.codecs.setdefault(codec, CodecTally())
            ours.batch_count += theirs.batch_count
            ours.size_bytes += theirs.size_bytes
            ours.sample_packed += theirs.sample_packed
            ours.sample_unpacked += theirs.sample_unpacked
        for mine, more in ((self.sizes, other.sizes), (self.counts, other.counts)):
            for power, count in more.items():
                mine[power] = mine.get(power, 0) + count
        self.widen(other.width_ms)
        factor = self.width_ms // other.width_ms
        for interval, part in other.times.items():
            _add_pair(self.times, interval // factor, part)
        self._widen_if_many()

    @property
    def unpacked_bytes(self) -> float:
        """The bytes of the batches without compression, estimated from the samples."""
        return sum(codec.unpacked_bytes for codec in self.codecs.values())

    @property
    def ratio(self) -> float:
        """How many times larger the batches would be without compression; 1 if there are none."""
        return self.unpacked_bytes / self.size_bytes if self.size_bytes else 1.0


def merged(tallies: Iterable[Tally]) -> list[Tally]:
    """Return one Tally for each partition, by topic and partition."""
    found: dict[tuple[str, int], Tally] = {}
    for tally in tallies:
        key = tally.topic, tally.partition
        found.setdefault(key, Tally(*key)).merge(tally)
    return [found[key] for key in sorted(found)]


def tally_range(options: SourceOptions, part: Range) -> Tally:
    """Fetch a range of offsets and return its tally. Raises DataLost, CorruptBatch."""
    tally = Tally(part.topic, part.partition)
    for fetched, batches in fetch_range(options, LogPartition(part)):
        tally.add(
            fetched.data,
            [
                one
                for one in batches
                if part.start <= one.last_offset and one.base_offset < part.end
            ],
        )
    return tally


def _count(powers: dict[int, int], value: int) -> None:
    power = 1 << max(0, value - 1).bit_length()
    powers[power] = powers.get(power, 0) + 1


def _add_pair(times: dict[int, list[int]], interval: int, part: list[int]) -> None:
    have = times.setdefault(interval, [0, 0])
    have[0] += part[0]
    have[1] += part[1]
