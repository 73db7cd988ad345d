"""Load a metadata log's directory into an image, or refuse it.

The newest usable snapshot, `<end offset>-<epoch>.checkpoint`, comes first, then every batch of the
segments from its end offset on. Nothing is written here.

The rule is: **all of it or nothing**. A partition's log may lose a damaged tail to quarantine; a
metadata log that did would forget topics and their data with them. So every batch is checked:
CRC; base offset equal to the end of the batch before (the CRC does not cover it); leader epoch
equal to that of the batch before, unless the batch is the LeaderChange that begins a new epoch
(not covered either). If a check fails, it raises `CorruptMetadata`, and the broker does not start.

One thing is tolerated: a write that a crash interrupted before any client was told of it. These are
the *last* bytes of the *last* segment, if they are the beginning of a batch, or are zeroes from the
batch's start or from a disk sector on, and no whole batch follows them. `broker.metadata.tail`
decides. Recovery of the log cuts them afterwards.

Record transactions (KIP-868): records between BEGIN_TRANSACTION and END_TRANSACTION are applied
at its end, and dropped at ABORT_TRANSACTION. A transaction still open at the end of the log is
dropped, and `in_transaction` tells the writer to abort it first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from broker.metadata.image import ClusterImage
from broker.metadata.image_error import ImageError
from broker.metadata.records_io import decode_record
from broker.metadata.tail import damage_of_tail
from protocol.errors import DecodeError
from protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ControlRecordType,
    EndTransactionRecord,
    RemoveTopicRecord,
)
from protocol.record_errors import RecordError
from protocol.records import BatchHeader, Record, read_header, read_records, verify
from storage.errors import CorruptMetadata
from storage.files import filenames
from storage.files.filesystem import File, FileSystem

CHUNK_BYTES: Final = 1 << 20
TAIL_BYTES_MAX: Final = 16 << 20  # of an interrupted write: twice Kafka's largest batch
RECORDS_BYTES_MAX: Final = 64 << 20  # of one batch when decompressed; Kafka's batches end at 8 MiB

CONTROL_KEY: Final = struct.Struct(">hh")  # of a control record: version, ControlRecordType

_WHAT_TO_DO = "Nothing was changed; restore it from a copy"


@dataclass(slots=True)
class LoadedImage:
    """The contents of a metadata directory."""

    image: ClusterImage
    start_offset: int = 0  # of the log
    end_offset: int = 0
    epoch: int = 0  # of the last batch; 0 in an empty log
    in_transaction: bool = False
    snapshot: str = ""  # name of the snapshot that was used
    bytes_since_snapshot: int = 0  # of batches
    voters: dict[int, Record] = field(default_factory=dict)  # Kafka's, by ControlRecordType
    removed: set[bytes] = field(default_factory=set)  # ids of topics, since the snapshot
    warnings: list[str] = field(default_factory=list)

    @property
    def is_new(self) -> bool:
        """Whether the log's first records were never written: it is to be bootstrapped."""
        return not self.image.feature_levels and not self.image.topics


class _ImageBuilder:
    """Feeds records to an image, holding those of an open transaction back."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.removed: set[bytes] = set()  # ids of topics
        self._held: list[Any] | None = None

    @property
    def in_transaction(self) -> bool:
        return self._held is not None

    def take(self, record: Any) -> None:
        if isinstance(record, BeginTransactionRecord):
            if self._held is not None:
                raise ImageError("a record transaction begins inside another")
            self._held = []
        elif isinstance(record, EndTransactionRecord):
            if self._held is None:
                raise ImageError("a record transaction ends without having begun")
            held, self._held = self._held, None
            for one in held:
                self._apply(one)
        elif isinstance(record, AbortTransactionRecord):
            if self._held is None:
                raise ImageError("a record transaction is aborted without having begun")
            self._held = None
        elif self._held is not None:
            self._held.append(record)
        else:
            self._apply(record)

    def _apply(self, record: Any) -> None:
        self.image.apply(record)
        if isinstance(record, RemoveTopicRecord):
            self.removed.add(bytes(record.topic_id))


def load_image(filesystem: FileSystem, directory: str, *, recovery_point: int = 0) -> LoadedImage:
    """Read `directory` (`…/__cluster_metadata-0`, may be missing) whole.

    `recovery_point` is the offset below which the log is known to have been fsynced: a log that
    ends before it has lost records. Raises CorruptMetadata.
    """
    if not filesystem.exists(directory):
        return LoadedImage(ClusterImage())
    names = [filenames.parse(name) for name in filesystem.list(directory)]
    bases = sorted(
        name.base_offset
        for name in names
        if name is not None
        and name.kind is filenames.Kind.SEGMENT
        and name.file == filenames.LOG
        and not name.transit
    )
    snapshots = sorted(
        (name.base_offset, name.epoch)
        for name in names
        if name is not None and name.kind is filenames.Kind.METADATA_SNAPSHOT and not name.transit
    )
    log_start = bases[0] if bases else 0
    builder, result = _begin(filesystem, directory, snapshots, log_start)
    snapshot_end, result.start_offset = result.end_offset, log_start
    result.end_offset = log_start
    previous_epoch = -1
    for index, base in enumerate(bases):
        path = f"{directory}/{filenames.log_name(base)}"
        if base != result.end_offset:
            raise CorruptMetadata(
                path,
                f"begins at offset {base}, but the segment before it ends at {result.end_offset}: "
                f"records are missing. {_WHAT_TO_DO}.",
            )
        for header, batch in _batches(filesystem, path, base, is_last=index == len(bases) - 1):
            _check_epoch(path, header, batch, previous_epoch)
            previous_epoch = result.epoch = header.leader_epoch
            result.end_offset = header.next_offset
            if header.next_offset > snapshot_end:
                result.bytes_since_snapshot += header.size
                _take_batch(builder, path, header, batch, snapshot_end, result.voters)
    _check_end(directory, result, snapshot_end, recovery_point)
    result.in_transaction = builder.in_transaction
    result.removed = builder.removed
    return result


def _check_end(directory: str, result: LoadedImage, snapshot_end: int, recovery_point: int) -> None:
    for wanted, what in (
        (snapshot_end, f"the snapshot {result.snapshot} ends"),
        (recovery_point, "it was flushed"),
    ):
        if result.end_offset < wanted:
            raise CorruptMetadata(
                directory,
                f"the log ends at offset {result.end_offset}, but {what} at {wanted}: "
                f"records are missing. {_WHAT_TO_DO}.",
            )


def _begin(
    filesystem: FileSystem, directory: str, snapshots: list[tuple[int, int]], log_start: int
) -> tuple[_ImageBuilder, LoadedImage]:
    """Load the newest snapshot that is whole and that the log continues."""
    warnings: list[str] = []
    voters: dict[int, Record] = {}
    for end_offset, epoch in reversed(snapshots):
        name = filenames.metadata_snapshot_name(end_offset, epoch)
        if end_offset < log_start:
            break
        voters = {}
        try:
            builder = _read_snapshot(filesystem, f"{directory}/{name}", voters)
        except CorruptMetadata as error:
            warnings.append(f"snapshot skipped: {error}")
            continue
        if not end_offset:
            break  # it holds the voters of a formatted Kafka, no records
        result = LoadedImage(
            builder.image,
            end_offset=end_offset,
            epoch=epoch,
            snapshot=name,
            voters=voters,
            warnings=warnings,
        )
        return builder, result
    if log_start > 0:
        raise CorruptMetadata(
            directory,
            f"the log begins at offset {log_start}, and no readable *.checkpoint holds the "
            f"records before it ({'; '.join(warnings) or 'none found'}). {_WHAT_TO_DO}.",
        )
    builder = _ImageBuilder()
    return builder, LoadedImage(builder.image, voters=voters, warnings=warnings)


def read_snapshot(
    filesystem: FileSystem, path: str, voters: dict[int, Record] | None = None
) -> list[tuple[bytes, Any]]:
    """Return the metadata records of a `*.checkpoint`, frames and decoded; it must be whole.

    `voters` is given the control records of Kafka's voters. Kafka's `bootstrap.checkpoint` has the
    same format. Raises CorruptMetadata.
    """
    records: list[tuple[bytes, Any]] = []
    control_types: list[int] = []
    for header, batch in _batches(filesystem, path, 0, is_last=False):
        for record in _open(path, header, batch):
            if header.is_control:
                control_types.append(_control_type(path, header, record))
                if voters is not None:
                    _note_voters(control_types[-1], record, voters)
            else:
                records.append((record.value or b"", _decode(path, record)))
    if not control_types or control_types[0] != ControlRecordType.SNAPSHOT_HEADER:
        raise CorruptMetadata(path, "the snapshot does not begin with a header")
    if control_types[-1] != ControlRecordType.SNAPSHOT_FOOTER:
        raise CorruptMetadata(path, "the snapshot has no footer: it is incomplete")
    return records


def _note_voters(control_type: int, record: Record, voters: dict[int, Record]) -> None:
    if control_type in (ControlRecordType.KRAFT_VERSION, ControlRecordType.KRAFT_VOTERS):
        voters[control_type] = record


def _read_snapshot(filesystem: FileSystem, path: str, voters: dict[int, Record]) -> _ImageBuilder:
    builder = _ImageBuilder()
    for _frame, record in read_snapshot(filesystem, path, voters):
        try:
            builder.take(record)
        except ImageError as error:
            raise CorruptMetadata(path, str(error)) from error
    return builder


def _batches(
    filesystem: FileSystem, path: str, base_offset: int, *, is_last: bool
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the checked batches of a file; they must be gapless from `base_offset` on."""
    file = filesystem.open(path, write=False)
    try:
        yield from _batches_of(file, path, base_offset, is_last=is_last)
    finally:
        file.close()


def _batches_of(
    file: File, path: str, base_offset: int, *, is_last: bool
) -> Iterator[tuple[BatchHeader, memoryview]]:
    size = file.size()
    position = 0
    wanted = base_offset
    chunk_bytes = CHUNK_BYTES
    while position < size:
        chunk = memoryview(file.pread(min(chunk_bytes, size - position), position))
        used = 0
        while True:
            try:
                header = read_header(chunk, used)
                if header.size > len(chunk) - used and position + len(chunk) < size:
                    break  # it continues in the file, or its length is wrong: read more to tell
                verify(chunk, used)
            except RecordError as error:
                if len(chunk) - used < CHUNK_BYTES and position + len(chunk) < size:
                    break
                _refuse_tail(file, path, position + used, wanted, error, is_last=is_last)
                return
            if header.base_offset != wanted:
                raise _damaged(
                    path, position + used, f"base offset {header.base_offset}, expected {wanted}"
                )
            yield header, chunk[used : used + header.size]
            wanted = header.next_offset
            used += header.size
            if used == len(chunk):
                break
        # A batch longer than the chunk: nothing was used, so read more of it, at most all.
        chunk_bytes = CHUNK_BYTES if used else chunk_bytes * 4
        position += used


def _refuse_tail(
    file: File, path: str, position: int, wanted: int, error: RecordError, *, is_last: bool
) -> None:
    """Return if a crash may have left this tail of the log; raise otherwise."""
    size = file.size()
    if not is_last:
        raise _damaged(path, position, str(error)) from error
    if size - position > TAIL_BYTES_MAX:
        raise _damaged(path, position, f"{error}; {size - position} bytes follow it")
    damage = damage_of_tail(file.pread(size - position, position), position, wanted)
    if damage:
        raise _damaged(path, position, f"{error}; {damage}") from error


def _damaged(path: str, position: int, reason: str) -> CorruptMetadata:
    return CorruptMetadata(
        path,
        f"damaged at position {position}: {reason}. {_WHAT_TO_DO}. If there is none, "
        "keep the original and cut the file at that position: every change to topics from there "
        "on is lost",
    )


def _check_epoch(path: str, header: BatchHeader, batch: memoryview, previous: int) -> None:
    epoch = header.leader_epoch
    if epoch == previous or (previous < 0 <= epoch):
        return
    if epoch > previous and header.is_control:
        kinds = [_control_type(path, header, record) for record in _open(path, header, batch)]
        if kinds[:1] == [ControlRecordType.LEADER_CHANGE]:
            return
    raise CorruptMetadata(
        path,
        f"the batch at offset {header.base_offset} has leader epoch {epoch}, expected {previous} "
        f"or a LeaderChange to a higher one. {_WHAT_TO_DO}.",
    )


def _take_batch(
    builder: _ImageBuilder,
    path: str,
    header: BatchHeader,
    batch: memoryview,
    start_offset: int,
    voters: dict[int, Record],
) -> None:
    if header.is_control:  # leader changes, voters: kept for Kafka, not needed by one node
        for record in _open(path, header, batch):
            _note_voters(_control_type(path, header, record), record, voters)
        return
    for record in _open(path, header, batch):
        if record.offset < start_offset:
            continue
        decoded = _decode(path, record)
        try:
            builder.take(decoded)
        except ImageError as error:
            raise CorruptMetadata(
                path, f"record at offset {record.offset}: {error}. {_WHAT_TO_DO}."
            ) from error


def _open(path: str, header: BatchHeader, batch: memoryview) -> list[Record]:
    try:
        return list(read_records(batch, size_max=RECORDS_BYTES_MAX, skip_headers=True))
    except RecordError as error:
        raise CorruptMetadata(path, f"batch at offset {header.base_offset}: {error}") from error


def _control_type(path: str, header: BatchHeader, record: Record) -> int:
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        raise CorruptMetadata(path, f"control batch at offset {header.base_offset} has no type")
    kind: int = CONTROL_KEY.unpack_from(record.key)[1]
    return kind


def _decode(path: str, record: Record) -> Any:
    if record.value is None:
        raise CorruptMetadata(path, f"record at offset {record.offset} has no value")
    try:
        return decode_record(record.value)
    except DecodeError as error:
        raise CorruptMetadata(path, f"record at offset {record.offset}: {error}") from error
