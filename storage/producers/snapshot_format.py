"""The producer state of a partition at one offset, as two files named after that offset.

`<offset>.snapshot` is Kafka's, byte for byte (ProducerSnapshot.json, version 1, read by
ProducerStateManager). All integers are big-endian:

    position  size  field
           0     2  version             1
           2     4  CRC-32C             of everything from position 6 to the end
           6     4  entry count
          10        the entries, 46 bytes each:
           0     8  producer id
           8     2  producer epoch
          10     4  last sequence       of the producer's last batch, -1 for none
          14     8  last offset         of the same batch, -1 for none
          22     4  offset delta        its last offset - its first
          26     8  timestamp           the largest in its last batch
          34     4  coordinator epoch   of its last transaction marker, -1 for none
          38     8  first offset        of its open transaction, -1 for none

It holds one batch a producer. After a restart, a producer that repeats an older one of its five
batches in flight would get OutOfOrderSequence. So a second file holds the older batches:

`<offset>.producers` is our own. Kafka ignores it, as it does every name that it does not know:

    position  size  field
           0     4  "BPRD"
           4     2  version             1 or 2
           6     4  CRC-32C             of everything from position 10 to the end
          10     4  entry count
          14        the entries, each:
           0     8  producer id
           8     2  producer epoch
          10     8  last append at      ms, by the broker's clock; -1 for unknown
          18     1  batch count         0 to 4
          19        the batches before the last one, oldest first, 24 bytes each:
           0     4  last sequence
           4     8  last offset
          12     4  offset delta
          16     8  timestamp

Version 2 is for logs that have had transactions. Behind the entries it says what the `.txnindex`
files of the log hold about markers below that offset:

           0     4  list count
           4        the lists that are not empty, 16 bytes each:
           0     8  base offset         of the segment
           8     4  entry count
          12     4  CRC-32C             of these entries

A list that differs lacks entries, or has others, and is built anew (`storage.opening.
abort_loading`). So that this is known without the file, too, a snapshot of such a log has always an
entry with a coordinator epoch (`ProducerState.witness`).

Both files are caches. If one is missing, damaged or of an unknown version, it is ignored, and the
state is replayed from the log. Without `.producers`, or if its batches do not continue into the
batch of the `.snapshot`, a producer has the one batch that Kafka would have.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import TypeAlias

from protocol.checksum import crc32c
from storage.errors import CheckpointError
from storage.producers.producer_state import (
    BATCHES_KEPT,
    SEQUENCE_MAX,
    AppendedBatch,
    ProducerEntry,
)

_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION = 1
_SNAPSHOT_CRC_START = 2 + 4
assert (_SNAPSHOT_HEAD.size, _SNAPSHOT_ENTRY.size) == (10, 46)

_HISTORY_MAGIC = b"BPRD"
_HISTORY_HEAD = struct.Struct(">4shIi")
_HISTORY_ENTRY = struct.Struct(">qhqb")
_HISTORY_BATCH = struct.Struct(">iqiq")
_HISTORY_VERSION = 1
_HISTORY_VERSION_WITH_ABORTS = 2
_LIST = struct.Struct(">qiI")
_HISTORY_CRC_START = 4 + 2 + 4
assert (_HISTORY_HEAD.size, _HISTORY_ENTRY.size, _HISTORY_BATCH.size) == (14, 19, 24)


# How many entries a list of aborted transactions has, and the CRC-32C of their bytes; by the base
# offset of the segment.
Tallies: TypeAlias = Mapping[int, tuple[int, int]]

_Histories: TypeAlias = list[tuple[int, int, int, list[AppendedBatch]]]


def encode_snapshot(entries: Collection[ProducerEntry]) -> bytes:
    """Return the bytes of a `.snapshot` file."""
    body = bytearray(struct.pack(">i", len(entries)))
    for entry in entries:
        last = entry.batches[-1] if entry.batches else AppendedBatch(-1, -1, 0, -1)
        body += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
    return struct.pack(">hI", _SNAPSHOT_VERSION, crc32c(body)) + bytes(body)


def decode_snapshot(data: bytes, path: str) -> list[ProducerEntry]:
    """Read a `.snapshot` file. Raises CheckpointError."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CheckpointError(path, f"{len(data)} bytes, expected at least {_SNAPSHOT_HEAD.size}")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CheckpointError(path, f"version {version}, expected {_SNAPSHOT_VERSION}")
    computed = crc32c(memoryview(data)[_SNAPSHOT_CRC_START:])
    if crc != computed:
        raise CheckpointError(path, f"CRC-32C {computed:#010x}, the file says {crc:#010x}")
    size = _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size
    if size != len(data):
        raise CheckpointError(path, f"{len(data)} bytes, {count} entries take {size}")
    return [
        ProducerEntry(
            producer_id,
            epoch,
            batches=[AppendedBatch(sequence, offset, delta, timestamp)] if offset >= 0 else (),
            last_timestamp=timestamp,
            seen_ms=timestamp,
            coordinator_epoch=coordinator_epoch,
            txn_first_offset=txn_first_offset,
        )
        for (
            producer_id,
            epoch,
            sequence,
            offset,
            delta,
            timestamp,
            coordinator_epoch,
            txn_first_offset,
        ) in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :])
    ]


def encode_history(entries: Collection[ProducerEntry], aborts: Tallies) -> bytes:
    """Return the bytes of a `.producers` file."""
    body = bytearray(struct.pack(">i", len(entries)))
    for entry in entries:
        older = entry.batches[:-1]
        body += _HISTORY_ENTRY.pack(entry.producer_id, entry.epoch, entry.seen_ms, len(older))
        for batch in older:
            body += _HISTORY_BATCH.pack(*batch)
    version = _HISTORY_VERSION
    if aborts or any(entry.coordinator_epoch >= 0 for entry in entries):
        version = _HISTORY_VERSION_WITH_ABORTS
        body += struct.pack(">i", len(aborts))
        for base_offset, tally in aborts.items():
            body += _LIST.pack(base_offset, *tally)
    return _HISTORY_MAGIC + struct.pack(">hI", version, crc32c(body)) + bytes(body)


def decode_history(data: bytes, path: str) -> tuple[_Histories, Tallies | None]:
    """Read a `.producers` file.

    Returns (producer id, epoch, last append ms, older batches) of each producer, and what it says
    of aborted transactions; None if it is of version 1. Raises CheckpointError.
    """
    if len(data) < _HISTORY_HEAD.size:
        raise CheckpointError(path, f"{len(data)} bytes, expected at least {_HISTORY_HEAD.size}")
    magic, version, crc, count = _HISTORY_HEAD.unpack_from(data)
    if magic != _HISTORY_MAGIC or version not in (_HISTORY_VERSION, _HISTORY_VERSION_WITH_ABORTS):
        raise CheckpointError(
            path,
            f"begins {magic!r} version {version}, expected {_HISTORY_MAGIC!r} version "
            f"{_HISTORY_VERSION} or {_HISTORY_VERSION_WITH_ABORTS}",
        )
    computed = crc32c(memoryview(data)[_HISTORY_CRC_START:])
    if crc != computed:
        raise CheckpointError(path, f"CRC-32C {computed:#010x}, the file says {crc:#010x}")
    try:
        found, position = _decode_producers(data, count)
        aborts = None
        if version == _HISTORY_VERSION_WITH_ABORTS:
            aborts, position = _decode_aborts(data, position)
    except struct.error as error:
        raise CheckpointError(path, f"{count} entries in {len(data)} bytes: {error}") from None
    if count < 0 or position != len(data):
        reason = f"{count} entries in {len(data)} bytes: the entries end at {position}"
        raise CheckpointError(path, reason)
    return found, aborts


def apply_history(data: bytes, entries: Mapping[int, ProducerEntry], path: str) -> Tallies | None:
    """Add the batches of a `.producers` file to `entries`, which the `.snapshot` gave.

    Batches that do not continue, sequence by sequence, into the entry's last batch are left out.
    Returns what the file says of aborted transactions, if anything. Raises CheckpointError, with
    `entries` unchanged.
    """
    found, aborts = decode_history(data, path)
    for producer_id, epoch, seen_ms, older in found:
        entry = entries.get(producer_id)
        if entry is None or entry.epoch != epoch:
            continue
        entry.seen_ms = max(entry.seen_ms, seen_ms)
        if _continues(older, entry):
            entry.batches[:0] = older
    return aborts


def _decode_producers(data: bytes, count: int) -> tuple[_Histories, int]:
    found = []
    position = _HISTORY_HEAD.size
    for _ in range(count):
        producer_id, epoch, seen_ms, batch_count = _HISTORY_ENTRY.unpack_from(data, position)
        position += _HISTORY_ENTRY.size
        older = []
        for _ in range(batch_count):
            older.append(AppendedBatch(*_HISTORY_BATCH.unpack_from(data, position)))
            position += _HISTORY_BATCH.size
        found.append((producer_id, epoch, seen_ms, older))
    return found, position


def _decode_aborts(data: bytes, position: int) -> tuple[Tallies, int]:
    (count,) = struct.unpack_from(">i", data, position)
    position += 4
    aborts = {}
    for _ in range(count):
        base_offset, entry_count, crc = _LIST.unpack_from(data, position)
        if entry_count <= 0:
            raise struct.error(f"a list of {entry_count} entries")
        aborts[base_offset] = (entry_count, crc)
        position += _LIST.size
    return aborts, position


def _continues(older: list[AppendedBatch], entry: ProducerEntry) -> bool:
    if len(older) >= BATCHES_KEPT or not entry.batches:
        return False
    chain = [*older, entry.batches[0]]
    return all(
        after.first_sequence == (before.last_sequence + 1) % (SEQUENCE_MAX + 1)
        and after.first_offset > before.last_offset
        for before, after in pairwise(chain)
    )
