"""Transaction markers: the control records that end a producer's transaction in a partition.

A marker is a record batch of its own, transactional and control (attributes 0x30), without a
sequence, in the epoch that it ends the transaction with. Its one record::

    key     int16  version, 0
            int16  type: 0 abort, 1 commit
    value   int16  version, 0
            int32  coordinator epoch

Other types of control records (the leader changes and snapshots of a metadata log) are none of a
transaction, and neither is a batch whose marker compaction has removed: it stays, empty, as the
last batch of its producer.

Sources: ControlRecordType, EndTransactionMarker and MemoryRecords.withEndTransactionMarker, Apache
Kafka 4.3 (KIP-98); a marker of version 2 transactions has the epoch after the data's (KIP-890).
"""

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from protocol.record_batch import (
    CONTROL,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    pack_header,
    read_header,
    write_crc,
)
from protocol.records import Record, read_records

_ABORT: Final = 0
_COMMIT: Final = 1
_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
# The size, attributes, deltas of timestamp and offset; the key, the value; no headers.
_RECORD: Final = struct.Struct(">BBBB Bhh Bhi B")
_KEY_VERSION: Final = 0
_VALUE_VERSION: Final = 0

MARKER_BYTES: Final = 78
"""The size of a marker's batch, always."""

_BUILT_MAX: Final = 64  # a transaction has the same marker in each of its partitions
_BODY_BYTES_MAX: Final = 64 * 1024  # of a control batch's records, decompressed


class Marker(NamedTuple):
    """The end of a producer's transaction in a partition."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int


def build_marker(marker: Marker, now_ms: int) -> bytearray:
    """Return the batch of `marker`, for offset 0 and stamped like a produced one at its append."""
    return bytearray(_built(marker, now_ms))


@lru_cache(_BUILT_MAX)
def _built(marker: Marker, now_ms: int) -> bytes:
    producer_id, producer_epoch, is_commit, coordinator_epoch = marker
    header = BatchHeader(
        base_offset=0,
        batch_length=MARKER_BYTES - LOG_OVERHEAD,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=TRANSACTIONAL | CONTROL,
        last_offset_delta=0,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        record_count=1,
    )
    kind = _COMMIT if is_commit else _ABORT
    record = _RECORD.pack(
        *(2 * (_RECORD.size - 1), 0, 0, 0),  # sizes are zigzag varints
        *(2 * _KEY.size, _KEY_VERSION, kind),
        *(2 * _VALUE.size, _VALUE_VERSION, coordinator_epoch, 0),
    )
    batch = bytearray(pack_header(header) + record)
    write_crc(batch, 0)
    return bytes(batch)


def read_marker(batch: Buffer) -> Marker | None:
    """Return the marker at the start of `batch`; None for any other batch, also an emptied one.

    Key and value of later versions are read as those known here, as Kafka reads them. The CRC is
    not checked. Raises RecordError for bytes that are no batch or whose record cannot be read.
    """
    header = read_header(batch)
    if not (header.is_control and header.is_transactional and header.record_count):
        return None
    for record in read_records(batch, size_max=_BODY_BYTES_MAX, skip_headers=True):
        return _marker(header, record)
    return None


def _marker(header: BatchHeader, record: Record) -> Marker | None:
    key, value = record.key or b"", record.value or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    _, kind = _KEY.unpack_from(key)
    _, coordinator_epoch = _VALUE.unpack_from(value)
    if kind not in (_ABORT, _COMMIT):
        return None
    return Marker(header.producer_id, header.producer_epoch, kind == _COMMIT, coordinator_epoch)
