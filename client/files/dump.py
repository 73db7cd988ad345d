"""Any file of a data directory as lines, as Kafka's DumpLogSegments shows it.

    .log, .checkpoint        batches and records (client.files.dump_log)
    .index                   offset: N position: P
    .timeindex               timestamp: T offset: N
    .snapshot                one line per producer
    .producers               the same for batches before the last (Barnabas' own; no Kafka tool)
    .txnindex                one line per aborted transaction

It prints what the file contains; whether that is right is for `barnabas verify`. Files are opened
for reading only.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from client.files.batches import LogBytes
from client.files.dump_log import JSON, KAFKA, Complain, Shown, log_lines
from storage.errors import CheckpointError
from storage.files import filenames
from storage.files.filenames import Kind, Name
from storage.files.os_filesystem import OsFileSystem
from storage.producers.snapshot_format import decode_history, decode_snapshot

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
TRANSACTION_STATE: Final = "__transaction_state"
TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")

Row = dict[str, Any]


class NotDumpable(Exception):
    """The file cannot be shown; the text says which files can."""


def kind_of(path: str) -> Name:
    """Return the kind of a file, by its name. Raises NotDumpable."""
    base = os.path.basename(path)
    name = filenames.parse(base)
    if name is not None:
        if name.kind in (Kind.SEGMENT, Kind.METADATA_SNAPSHOT):
            return name
        if name.file == filenames.BOOTSTRAP_CHECKPOINT:
            return name
        if name.kind is Kind.QUARANTINE:
            return dataclasses.replace(name, file=filenames.LOG)
    raise NotDumpable(
        f"{path}: not the name of a segment's file (<20 digits>.log, .index, .timeindex, "
        ".snapshot, .producers or .txnindex) or of a metadata snapshot (*.checkpoint). Text files "
        "(meta.properties, *-checkpoint) can be read as they are"
    )


def files_in(path: str) -> list[str]:
    """Return the files to dump for a path: the file itself, or those of a directory."""
    if not os.path.lexists(path):
        raise NotDumpable(f"{path}: {os.strerror(errno.ENOENT)}")
    if not os.path.isdir(path):
        return [path]
    found = []
    for base in sorted(os.listdir(path)):
        name = filenames.parse(base)
        if name is not None and name.kind in (Kind.SEGMENT, Kind.METADATA_SNAPSHOT):
            found.append(os.path.join(path, base))
    if not found:
        raise NotDumpable(
            f"{path}: no segment in this directory; expected a partition's, such as DATA/topic-0"
        )
    return found


def is_metadata(path: str) -> bool:
    """Whether a file holds metadata records, by its directory and its name."""
    parent = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return parent == filenames.METADATA_DIRECTORY or path.endswith(".checkpoint")


def is_transaction_state(path: str) -> bool:
    """Whether a file belongs to `__transaction_state`, by its directory."""
    parent = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return parent.rpartition("-")[0] == TRANSACTION_STATE


def dump_lines(path: str, shown_as: Shown, complain: Complain) -> Iterator[str]:
    """Yield the lines of one file. Raises NotDumpable and OSError."""
    name = kind_of(path)
    if shown_as.form == JSON:
        yield json.dumps({"type": "file", "path": path})
    elif shown_as.form == KAFKA:
        yield f"Dumping {path}"
    if name.kind is Kind.SEGMENT and name.file in _BINARY:
        rows = list(_BINARY[name.file](path, name.base_offset, complain))
        if not rows and name.file == filenames.OFFSET_INDEX and shown_as.form == KAFKA:
            yield f"{path} is empty."
        for row in rows:
            yield json.dumps({"type": name.file} | row) if shown_as.form == JSON else words(row)
        return
    if shown_as.form == KAFKA:
        yield _title(name)
    if name.kind is not Kind.SEGMENT and name.kind is not Kind.QUARANTINE:
        shown_as = dataclasses.replace(shown_as, metadata=True)
    file = OsFileSystem().open(path, write=False)
    try:
        start = position_before(path, name.base_offset, shown_as.offset_start)
        yield from log_lines(
            LogBytes(file), os.path.basename(path), shown_as, complain, position=start
        )
    finally:
        file.close()


def _title(name: Name) -> str:
    if name.kind is Kind.METADATA_SNAPSHOT:
        return f"Snapshot end offset: {name.base_offset}, epoch: {name.epoch}"
    if name.kind is Kind.FILE:
        return "KRaft bootstrap snapshot"
    return f"Log starting offset: {name.base_offset}"


def words(row: Row) -> str:
    """Return a row as Kafka's tool prints it: name, colon, value, with Java's nulls."""
    return " ".join(f"{key}: {_OPTIONAL.get(key, str)(value)}" for key, value in row.items())


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


_OPTIONAL: Final[dict[str, Callable[[Any], str]]] = {"currentTxnFirstOffset": _optional}


def read_index(path: str, entry: struct.Struct) -> list[tuple[int, ...]]:
    """Return the entries of an index file, see `index_entries`. Raises OSError."""
    return index_entries(OsFileSystem().read(path), entry)


def index_entries(data: bytes, entry: struct.Struct) -> list[tuple[int, ...]]:
    """Return the entries of an index without the zeros of a preallocated end.

    An incomplete entry at the end is left out.
    """
    data = data[: len(data) // entry.size * entry.size]
    zeros = bytes(entry.size)
    end = len(data.rstrip(b"\0"))
    end = min(len(data), -(-end // entry.size) * entry.size)
    found: list[tuple[int, ...]] = [tuple(one) for one in entry.iter_unpack(data[:end])]
    if not found and data.startswith(zeros):
        return []
    return found


def position_before(path: str, base_offset: int, offset: int) -> int:
    """Return the position of a batch at or before `offset`, by the index of a `.log` file.

    0 if the index is missing or does not lead to such a batch.
    """
    if offset <= base_offset or not path.endswith(".log"):
        return 0
    best = 0
    try:
        for relative, position in read_index(path[: -len("log")] + "index", OFFSET_ENTRY):
            if base_offset + relative < offset:
                best = position
        with open(path, "rb") as file:
            file.seek(best)
            found = int.from_bytes(file.read(8), "big")
    except OSError:
        return 0
    return best if base_offset <= found <= offset else 0


def _index_rows(path: str, base_offset: int, _complain: Complain) -> Iterator[Row]:
    for relative, position in read_index(path, OFFSET_ENTRY):
        yield {"offset": base_offset + relative, "position": position}


def _time_index_rows(path: str, base_offset: int, _complain: Complain) -> Iterator[Row]:
    for timestamp, relative in read_index(path, TIME_ENTRY):
        yield {"timestamp": timestamp, "offset": base_offset + relative}


def _transaction_rows(path: str, _base_offset: int, complain: Complain) -> Iterator[Row]:
    data = OsFileSystem().read(path)
    rest = len(data) % TRANSACTION_ENTRY.size
    if rest:
        complain(
            f"{path}: {rest} bytes at the end are not a whole entry of {TRANSACTION_ENTRY.size}"
        )
        data = data[:-rest]
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    for entry in TRANSACTION_ENTRY.iter_unpack(data):
        yield dict(zip(names, entry, strict=True))


def _snapshot_rows(path: str, _base_offset: int, complain: Complain) -> Iterator[Row]:
    try:
        entries = decode_snapshot(OsFileSystem().read(path), path)
    except CheckpointError as error:
        complain(str(error))
        return
    for entry in entries:
        row: Row = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.txn_first_offset
            if entry.txn_first_offset >= 0
            else None,
            "lastTimestamp": entry.last_timestamp,
        }
        for batch in entry.batches:
            row |= {"firstSequence": batch.first_sequence} | batch_row(batch)
        yield row


def batch_row(batch: Any) -> Row:
    """Return the fields of a producer's batch, with Kafka's names."""
    return {
        "lastSequence": batch.last_sequence,
        "lastOffset": batch.last_offset,
        "offsetDelta": batch.offset_delta,
        "timestamp": batch.timestamp,
    }


def _producers_rows(path: str, _base_offset: int, complain: Complain) -> Iterator[Row]:
    try:
        found, aborts = decode_history(OsFileSystem().read(path), path)
    except CheckpointError as error:
        complain(str(error))
        return
    for producer_id, epoch, seen_ms, older in found:
        head: Row = {"producerId": producer_id, "producerEpoch": epoch, "heardOf": seen_ms}
        if not older:
            yield head
        for batch in older:
            yield head | {"firstSequence": batch.first_sequence} | batch_row(batch)
    for base_offset, (entry_count, crc) in (aborts or {}).items():
        yield {"segment": base_offset, "abortedTransactions": entry_count, "crc": crc}


_BINARY: Final[dict[str, Callable[[str, int, Complain], Iterator[Row]]]] = {
    filenames.OFFSET_INDEX: _index_rows,
    filenames.TIME_INDEX: _time_index_rows,
    filenames.TRANSACTION_INDEX: _transaction_rows,
    filenames.SNAPSHOT: _snapshot_rows,
    filenames.PRODUCERS: _producers_rows,
}
