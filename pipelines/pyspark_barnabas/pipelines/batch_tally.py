"""What batches' headers say of a partition, added up: counts, bytes, codecs, sizes, times.

    tally_range(options, range)     over the wire: batches are fetched and not opened
    tally_files(task)               from segment files, the same

A header has the time of its first record and the largest: a batch's records and bytes are spread
evenly from the one to the other, which for a batch of a second is the truth and for a batch of an
hour a fair guess. Batches are counted whole. One compressed batch in SAMPLE_EVERY is unpacked, to
know what compression saves. Control batches hold no records of a user's, and are counted apart.

A Tally is small, whatever it is made of, and pickled: tasks send theirs to the driver, which merges
them. Times that would make it large widen its intervals, from a minute to an hour to a day.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pyspark_barnabas.batches import HEADER_BYTES, Batch, Buffer
from pyspark_barnabas.compression import NAMES, decompress
from pyspark_barnabas.errors import CorruptBatch
from pyspark_barnabas.offline_plan import Task
from pyspark_barnabas.offsets import Range
from pyspark_barnabas.options import SourceOptions
from pyspark_barnabas.reader import fetch_range
from pyspark_barnabas.segments import Damage, walk

INTERVAL_NAMES: Final = {60_000: "minute", 3_600_000: "hour", 86_400_000: "day"}
WIDTHS_MS: Final = tuple(INTERVAL_NAMES)
INTERVALS_MAX: Final = 50_000  # a month of minutes, five years of hours
SAMPLE_EVERY: Final = 16


@dataclass(slots=True)
class CodecTally:
    """Batches of one codec; the sample is what was unpacked of them, bytes without headers."""

    batch_count: int = 0
    size_bytes: int = 0
    sample_packed: int = 0
    sample_unpacked: int = 0

    @property
    def unpacked_bytes(self) -> float:
        """What the batches would take without compression, by the sample."""
        if not self.sample_packed:
            return self.size_bytes
        headers = self.batch_count * HEADER_BYTES
        return headers + (self.size_bytes - headers) * self.sample_unpacked / self.sample_packed


@dataclass(slots=True)
class Tally:
    """What one partition's batches are, in parts or as a whole. Times are ms since 1970."""

    topic: str
    partition: int
    record_count: int = 0
    size_bytes: int = 0
    batch_count: int = 0
    control_count: int = 0
    timeless_count: int = 0  # records of batches without a time
    damage_count: int = 0
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

    def add(self, data: Buffer, batch: Batch) -> None:
        """Take a batch that lies in `data`."""
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
        self._add_times(batch)

    def _add_codec(self, data: Buffer, batch: Batch) -> None:
        name = NAMES[batch.codec] if batch.codec < len(NAMES) else f"codec {batch.codec}"
        tally = self.codecs.setdefault(name, CodecTally())
        if batch.codec and tally.batch_count % SAMPLE_EVERY == 0:
            start, end = batch.position + HEADER_BYTES, batch.position + batch.size
            packed = memoryview(data)[start:end]
            try:
                unpacked = len(decompress(batch.codec, packed, 1 << 28))
            except CorruptBatch:
                unpacked = 0  # whoever reads the records is told
            if unpacked:
                tally.sample_packed += len(packed)
                tally.sample_unpacked += unpacked
        tally.batch_count += 1
        tally.size_bytes += batch.size

    def _add_times(self, batch: Batch) -> None:
        last = batch.max_timestamp
        first = last if batch.is_log_append_time else min(batch.base_timestamp, last)
        if first < 0:
            self.timeless_count += batch.record_count
            return
        self.time_min = first if self.time_min < 0 else min(self.time_min, first)
        self.time_max = max(self.time_max, last)
        begin, end = first // self.width_ms, last // self.width_ms
        steps = max(1, min(end - begin + 1, batch.record_count))
        done = [0, 0]
        for step in range(1, steps + 1):
            interval = begin + (end - begin) * (step - 1) // max(1, steps - 1)
            part = self.times.setdefault(interval, [0, 0])
            for column, total in enumerate((batch.record_count, batch.size)):
                upto = total * step // steps
                part[column] += upto - done[column]
                done[column] = upto
        self._widen_if_many()

    def _widen_if_many(self) -> None:
        while len(self.times) > INTERVALS_MAX and self.width_ms < WIDTHS_MS[-1]:
            self.widen(WIDTHS_MS[WIDTHS_MS.index(self.width_ms) + 1])

    def widen(self, width_ms: int) -> None:
        """Make the intervals at least so wide; one of WIDTHS_MS."""
        if width_ms <= self.width_ms:
            return
        factor = width_ms // self.width_ms
        narrow, self.times, self.width_ms = self.times, {}, width_ms
        for interval, part in narrow.items():
            _add_pair(self.times, interval // factor, part)

    def merge(self, other: Tally) -> None:
        """Take another part of the same partition, or of another to have both as one."""
        for name in ("record_count", "size_bytes", "batch_count", "control_count",
                     "timeless_count", "damage_count"):  # fmt: skip
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
        """What the batches would take without compression, by the samples."""
        return sum(codec.unpacked_bytes for codec in self.codecs.values())

    @property
    def ratio(self) -> float:
        """How many times larger the batches would be without compression; 1 without any."""
        return self.unpacked_bytes / self.size_bytes if self.size_bytes else 1.0


def merged(tallies: Iterable[Tally]) -> list[Tally]:
    """Return one Tally for each partition, by topic and partition."""
    found: dict[tuple[str, int], Tally] = {}
    for tally in tallies:
        key = tally.topic, tally.partition
        found.setdefault(key, Tally(*key)).merge(tally)
    return [found[key] for key in sorted(found)]


def tally_range(options: SourceOptions, part: Range) -> Tally:
    """Fetch a range of offsets and return what its batches are. Raises DataLost, CorruptBatch."""
    tally = Tally(part.topic, part.partition)
    for fetched, batches in fetch_range(options, part):
        for batch in batches:
            if part.start <= batch.last_offset and batch.base_offset < part.end:
                tally.add(fetched.data, batch)
    return tally


def tally_files(task: Task) -> Tally:
    """Read spans of segment files and return what their batches are; damage is counted."""
    tally = Tally(task.topic, task.partition)
    for span in task.spans:
        for found in walk(
            span.segment, start=span.start, end=span.end,
            next_offset=span.next_offset, end_offset=span.end_offset,
        ):  # fmt: skip
            if isinstance(found, Damage):
                tally.damage_count += 1
                continue
            for batch in found.batches:
                behind = task.end is not None and batch.base_offset >= task.end
                if task.start <= batch.last_offset and not behind:
                    tally.add(found.data, batch)
    return tally


def _count(powers: dict[int, int], value: int) -> None:
    power = 1 << max(0, value - 1).bit_length()
    powers[power] = powers.get(power, 0) + 1


def _add_pair(times: dict[int, list[int]], interval: int, part: list[int]) -> None:
    have = times.setdefault(interval, [0, 0])
    have[0] += part[0]
    have[1] += part[1]
