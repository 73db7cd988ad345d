"""The invariants over all lives of a broker: H1, H2, H4, H5 and H6.

    H1  a batch that was read once keeps its bytes
    H2  offsets are dense from the first batch to the last (a compacted key: increasing)
    H4  start offset, high watermark and leader epoch of a key never go back; committed offsets
        never go back either, and never exceed the highest commit that was sent
    H5  ListOffsets by time gives the first record that is not older, by brute force
    H6  a producer id is assigned once

Tests report what they saw, in any order, and the ledger keeps the breaches. A power cut may lose
the end of a key with write.caching: `cut` forgets the batches there.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.history_checker import Anomaly, Key
from tests.support.raw_batches import HEADER_BYTES, records_of

_HEAD = struct.Struct(">qiibIhiqqqhii")  # Kafka's DefaultRecordBatch
assert _HEAD.size == HEADER_BYTES

START, HIGH_WATERMARK, EPOCH = "start offset", "high watermark", "leader epoch"


class SeenBatch(NamedTuple):
    """One whole batch that the broker served."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    digest: bytes
    records: Sequence[tuple[int, bytes]]  # offset, value


def batches_in(fetched: bytes) -> Iterator[SeenBatch]:
    """Yield the whole batches of an answer; skips a partial batch at its end."""
    position = 0
    while position + HEADER_BYTES <= len(fetched):
        base, length, epoch, _, _, _, delta, _, timestamp, *_ = _HEAD.unpack_from(fetched, position)
        end = position + 12 + length
        if end > len(fetched):
            return
        whole = fetched[position:end]
        digest = hashlib.blake2b(whole, digest_size=12).digest()
        yield SeenBatch(base, base + delta, epoch, timestamp, digest, records_of(whole))
        position = end


@dataclass(slots=True)
class Ledger:
    """See the module. `found` holds the breaches."""

    volatile_keys: Collection[Key] = ()
    compacted_keys: Collection[Key] = ()
    found: list[Anomaly] = field(default_factory=list)
    _batches: dict[Key, dict[int, SeenBatch]] = field(default_factory=dict)
    _marks: dict[tuple[Key, str], int] = field(default_factory=dict)
    _commits: dict[tuple[str, Key], int] = field(default_factory=dict)  # the highest sent
    _producer_ids: set[int] = field(default_factory=set)

    def saw_batch(self, key: Key, batch: SeenBatch) -> None:
        """Compare a batch with the one seen at its offset before (H1)."""
        if key in self.compacted_keys:
            return  # compaction may rewrite it without superseded records
        known = self._batches.setdefault(key, {}).setdefault(batch.base_offset, batch)
        if known.digest != batch.digest:
            self.found.append(Anomaly("H1", f"{key}: the batch at {batch.base_offset} has changed"))

    def batch_with(self, key: Key, offset: int) -> SeenBatch | None:
        """Return the batch seen at an offset, or None."""
        for batch in self._batches.get(key, {}).values():
            if batch.base_offset <= offset <= batch.last_offset:
                return batch
        return None

    def saw_mark(self, key: Key, name: str, value: int) -> None:
        """Compare a start offset, high watermark or epoch with its last value (H4).

        With write.caching the high watermark is ahead of the disk and falls if the disk fails.
        """
        if name == HIGH_WATERMARK and key in self.volatile_keys:
            return
        known = self._marks.get((key, name), value)
        if value < known:
            self.found.append(Anomaly("H4", f"{key}: {name} went from {known} to {value}"))
        self._marks[key, name] = max(value, known)

    def sent_commit(self, group: str, key: Key, offset: int) -> None:
        """Note that a group may have committed an offset from now on."""
        self._commits[group, key] = max(offset, self._commits.get((group, key), -1))

    def saw_committed(self, group: str, key: Key, offset: int, metadata: str) -> None:
        """Compare an acknowledged or fetched committed offset with earlier ones (H4).

        -1 means no offset. Clients commit with the digits of the offset as metadata.
        """
        self.saw_mark(key, f"offset of group {group}", offset)
        highest = self._commits.get((group, key), -1)
        if offset > highest or metadata != (str(offset) if offset >= 0 else ""):
            detail = f"{key}: group {group} has {offset} {metadata!r}, sent were up to {highest}"
            self.found.append(Anomaly("H4", detail))

    def saw_producer_id(self, producer_id: int) -> None:
        """Note a producer id that the broker assigned (H6)."""
        if producer_id in self._producer_ids:
            self.found.append(Anomaly("H6", f"producer id {producer_id} was given out twice"))
        self._producer_ids.add(producer_id)

    def saw_log(self, key: Key, start_offset: int, batches: Sequence[SeenBatch]) -> None:
        """Check a whole log, read from its start offset, for H1, H2 and H4."""
        next_offset = batches[0].base_offset if batches else 0
        if batches and next_offset > start_offset and key not in self.compacted_keys:
            self.found.append(Anomaly("H2", f"{key}: nothing from {start_offset} to {next_offset}"))
        epoch = -1
        for batch in batches:
            self.saw_batch(key, batch)
            gap = batch.base_offset - next_offset
            if gap < 0 or (gap > 0 and key not in self.compacted_keys):
                self.found.append(
                    Anomaly("H2", f"{key}: {batch.base_offset} where {next_offset} was due")
                )
            if batch.epoch < epoch:
                self.found.append(
                    Anomaly("H4", f"{key}: epoch {batch.epoch} after {epoch}, {batch.base_offset}")
                )
            epoch = max(epoch, batch.epoch)
            next_offset = batch.last_offset + 1
        self.saw_mark(key, START, start_offset)

    def saw_offset_of_time(
        self, key: Key, start_offset: int, batches: Sequence[SeenBatch], asked: int, told: int
    ) -> None:
        """Check an answer of ListOffsets by time against the whole log (H5)."""
        wanted = next(
            (
                offset
                for batch in batches
                for offset, _ in batch.records
                if batch.timestamp >= asked and offset >= start_offset
            ),
            -1,
        )
        if told != wanted:
            self.found.append(Anomaly("H5", f"{key}: time {asked} is at {wanted}, told {told}"))

    def cut(self, ends: Mapping[Key, int]) -> None:
        """Forget what a power cut may have lost: the end of keys with write.caching."""
        for key in self.volatile_keys:
            end = ends.get(key)
            if end is None:
                continue
            known = self._batches.get(key, {})
            self._batches[key] = {base: seen for base, seen in known.items() if base < end}
