"""Objects to the end of a transaction whose writes a power cut would tear.

A cut rarely falls between two syncs of one end, and a client that asks again mends most of what it
tears then. So the order of the writes is looked at instead, whether the power is cut or not
(docs/decisions/0073):

    a marker of TV1                          its decision is on the disk
    Complete, and all later records of an id   so are the markers of the end before
    data behind the end of one of TV1, at its epoch    so is a later record of the id
    a recovery point above a marker            so is its decision

Only appends count: a recovery writes what it has read once more, and compaction writes copies.
What a process before has written is not known here, and neither is a marker that a failed write
has left in parts. A partition that is gone needs no marker.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Final, NamedTuple

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.transactions.transaction_states import TransactionState
from broker.transactions.transaction_step import TV2
from protocol.control_records import read_marker
from protocol.errors import DecodeError
from protocol.record_errors import RecordError
from protocol.records import batches, read_header, read_records
from protocol.transaction_records import TransactionValue, UnknownTransactionRecord, decode
from storage.files import filenames
from storage.files.filenames import Kind
from storage.files.filesystem import Buffer
from storage.files.text_files import CheckpointError, decode_offsets
from tests.support.memory_inodes import Inode

LISTED_MAX: Final = 5
BATCH_BYTES_MAX: Final = 1 << 20  # decompressed
_LOG: Final = f".{filenames.LOG}"
_CONTROL: Final = 0x20  # in the lower byte of a batch's attributes
_ATTRIBUTES_AT: Final = 22
_COMPLETE: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
Place = tuple[str, int]  # topic and partition


class _Written(NamedTuple):
    """Bytes that were appended to a file."""

    path: str
    inode: Inode
    position: int
    data: bytes

    @property
    def offset(self) -> int:
        """The offset of the batch."""
        return read_header(self.data).base_offset

    @property
    def is_missing(self) -> bool:
        """Whether they are in the file, and not on the disk."""
        span = slice(self.position, self.position + len(self.data))
        return self.inode.live[span] == self.data and self.inode.durable[span] != self.data


class _End(NamedTuple):
    """The last record of an id, if it is a decision, and the markers that followed it."""

    value: TransactionValue
    record: _Written
    markers: dict[Place, list[_Written]]  # of this outcome: an operator may write more by hand


class _Ended(NamedTuple):
    """An end of TV1: data at its epoch without a later record would be taken for those it ended."""

    epoch: int
    later: _Written | None  # the record of the id that followed


class EndWatch:
    """See the module. `found` holds the objections.

    `inode_at` returns what has a path now, `is_there` whether the broker has a partition.
    """

    def __init__(self, inode_at: Callable[[str], object]) -> None:
        self.found: list[str] = []
        self.is_there: Callable[[str, int], bool] | None = None
        self._inode_at = inode_at
        self._ends: dict[str, _End] = {}  # by transactional id
        self._ids: dict[int, str] = {}  # by producer id: those that are being ended
        self._ended: dict[int, _Ended] = {}  # by producer id

    def new_process(self) -> None:
        """Begin anew."""
        self.is_there = None
        self._ends.clear()
        self._ids.clear()
        self._ended.clear()

    def appended(self, path: str, inode: Inode, position: int, buffer: Buffer) -> None:
        """Look at bytes that were written behind the end of a file."""
        if self.is_there is None or not path.endswith(_LOG):
            return
        parsed = filenames.parse(posixpath.basename(posixpath.dirname(path)))
        if parsed is None or parsed.kind is not Kind.PARTITION:
            return
        data = bytes(buffer)
        written = _Written(path, inode, position, data)
        try:
            if parsed.topic == TRANSACTION_TOPIC:
                self._states(written)
            elif len(data) > _ATTRIBUTES_AT and data[_ATTRIBUTES_AT] & _CONTROL:
                self._marker((parsed.topic, parsed.partition), written)
            elif self._ended:
                self._data(posixpath.basename(posixpath.dirname(path)), data)
        except (RecordError, DecodeError):
            return  # the judges of files object to what cannot be read

    def replaced(self, path: str, data: bytes) -> None:
        """Look at a small file that has just got its name: it may be that of recovery points."""
        if not self._ends or posixpath.basename(path) != filenames.RECOVERY_POINT_CHECKPOINT:
            return
        try:
            points = decode_offsets(path, data)
        except CheckpointError:
            return  # another judge objects
        for name, end in self._ends.items():
            for place, markers in end.markers.items():
                if points.get(place, 0) > markers[0].offset and end.record.is_missing:
                    self._object(
                        f"{name}: the recovery point of {place[0]}-{place[1]} is above its marker,"
                        f" and the decision of epoch {end.value.producer_epoch} is not on the disk"
                    )

    def _object(self, what: str) -> None:
        if len(self.found) < LISTED_MAX:
            self.found.append(what)

    def _data(self, log: str, data: bytes) -> None:
        header = read_header(data)
        ended = self._ended.get(header.producer_id)
        if ended is None or not header.is_transactional or ended.epoch != header.producer_epoch:
            return
        if ended.later is None or ended.later.is_missing:
            self._object(
                f"data of producer {header.producer_id} are in {log}, and no record of its id is on"
                f" the disk behind the end of TV1 with epoch {ended.epoch}"
            )
        else:
            del self._ended[header.producer_id]

    def _marker(self, place: Place, written: _Written) -> None:
        marker = read_marker(written.data)
        end = None if marker is None else self._ends.get(self._ids.get(marker.producer_id, ""))
        if marker is None or end is None or end.value.producer_epoch != marker.producer_epoch:
            return
        value = end.value
        if value.client_transaction_version < TV2 and end.record.is_missing:
            self._object(
                f"{self._ids[marker.producer_id]}: the marker of an end of TV1 is in"
                f" {place[0]}-{place[1]}, and its decision is not on the disk"
            )
        topics = {one.topic: one.partition_ids for one in value.transaction_partitions or ()}
        if place[1] in topics.get(place[0], ()):
            is_commit = value.transaction_status == TransactionState.PREPARE_COMMIT
            if marker.is_commit == is_commit:
                end.markers.setdefault(place, []).append(written)

    def _states(self, written: _Written) -> None:
        for position, header in batches(written.data):
            if header.is_control:
                continue
            for record in read_records(written.data, position, size_max=BATCH_BYTES_MAX):
                decoded = decode(record.key or b"", record.value)
                if not isinstance(decoded, UnknownTransactionRecord):
                    self._state(decoded[0].transactional_id, decoded[1], written)

    def _state(self, name: str, value: TransactionValue | None, written: _Written) -> None:
        before = self._ends.pop(name, None)
        if before is not None:
            self._ids.pop(before.value.producer_id, None)
            self._look_at_markers(name, before)
        if value is None:
            return
        state, producer_id = TransactionState(value.transaction_status), value.producer_id
        if state.is_prepared:
            self._ends[name] = _End(value, written, {})
            self._ids[producer_id] = name
        is_end = state.is_prepared or state in _COMPLETE
        if is_end and value.client_transaction_version < TV2:
            self._ended[producer_id] = _Ended(value.producer_epoch, None)
        elif (ended := self._ended.get(producer_id)) and ended.later is None:
            self._ended[producer_id] = ended._replace(later=written)

    def _look_at_markers(self, name: str, end: _End) -> None:
        assert self.is_there is not None
        for (topic, number), markers in end.markers.items():
            path, inode = markers[-1].path, markers[-1].inode
            is_there = self.is_there(topic, number) and self._inode_at(path) is inode
            if is_there and all(marker.is_missing for marker in markers):
                self._object(
                    f"{name}: a record follows the decision of epoch {end.value.producer_epoch},"
                    f" whose marker in {topic}-{number} is not on the disk"
                )
