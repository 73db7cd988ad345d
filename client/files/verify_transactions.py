"""The transactions of a log, and what its `.txnindex` files say of them.

While the log is walked, the data of producers and the markers that end their transactions are
followed. After each segment, its `.txnindex` is compared: it must list every aborted transaction
that has data and whose marker is in the segment, and nothing as aborted that was committed. Readers
of committed records rely on it: they get what is missing in it, and miss what is too much.

An entry may begin before the first data that the log still has, since deletion and compaction
remove some. A broker that runs, or has crashed, may not have written the newest entries yet.

In `__transaction_state` each record must be readable: it is the state of a transactional id.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from client.files.batches import Entry
from client.files.dump import TRANSACTION_ENTRY, is_transaction_state
from client.files.findings import Report
from client.files.verify_expected import CLEAN, Expected
from protocol.control_records import Marker, read_marker
from protocol.errors import DecodeError
from protocol.record_errors import RecordError
from protocol.transaction_records import decode
from storage.files import filenames
from storage.files.filesystem import FileSystem

ANEW: Final = "Start Barnabas on the directory: it builds the file anew from the markers"


class Ended(NamedTuple):
    """A marker in the log, the first data that it ends (-1: none), and the stable offset after."""

    marker: Marker
    first_offset: int
    stable_offset: int


class TransactionCheck:
    """Follows the transactions of one log, batch after batch."""

    def __init__(
        self, report: Report, filesystem: FileSystem, directory: str, expected: Expected
    ) -> None:
        self._report = report
        self._filesystem = filesystem
        self._directory = directory
        self._expected = expected
        self._open: dict[int, int] = {}  # producer id -> first offset of its data, oldest first
        self._ended: dict[int, Ended] = {}  # offset -> marker, of the segment that is walked
        self._has_states = is_transaction_state(os.path.join(directory, filenames.log_name(0)))

    def see(self, path: str, entry: Entry) -> None:
        """Follow the next batch, whose checksum is right."""
        header = entry.header
        if header is None:
            return
        if self._has_states and not header.is_control:
            self._check_states(path, entry)
        if header.is_transactional and not header.is_control:
            self._open.setdefault(header.producer_id, header.base_offset)
        elif header.is_transactional and header.record_count:
            self._end(path, entry)

    def _end(self, path: str, entry: Entry) -> None:
        try:
            marker = read_marker(entry.data)
        except RecordError as error:
            self._damage_at(
                path, entry, "marker", f"a control batch that cannot be read: {error}",
                "nobody can tell whether the transaction before it was committed or aborted",
            )  # fmt: skip
            return
        if marker is not None:
            first_offset = self._open.pop(marker.producer_id, -1)
            stable_offset = next(iter(self._open.values()), entry.base_offset + 1)
            self._ended[entry.base_offset] = Ended(marker, first_offset, stable_offset)

    def _check_states(self, path: str, entry: Entry) -> None:
        try:
            for record in entry.records():
                decode(record.key or b"", record.value)
        except (RecordError, DecodeError) as error:
            self._damage_at(
                path, entry, "state", f"the state of a transactional id cannot be read: {error}",
                "the coordinator does not know how the transactions of that id ended",
            )  # fmt: skip

    def _damage_at(self, path: str, entry: Entry, kind: str, found: str, meaning: str) -> None:
        self._report.damage(
            kind, path, found, meaning, position=entry.position, offset=entry.base_offset
        )

    def lose_track(self) -> None:
        """Begin anew behind batches that cannot be read: a marker may have been among them."""
        self._open.clear()

    def compare(self, base: int) -> None:
        """Compare the `.txnindex` of the segment at `base`, which was walked, with its markers."""
        ended, self._ended = self._ended, {}
        path = os.path.join(self._directory, filenames.transaction_index_name(base))
        try:
            data = self._filesystem.read(path)
        except FileNotFoundError:
            data = b""
        whole = data[: len(data) - len(data) % TRANSACTION_ENTRY.size]
        listed = set()
        for _, producer_id, first, last, stable in TRANSACTION_ENTRY.iter_unpack(whole):
            found = ended.get(last)
            if found is not None and self._is_right(path, found, producer_id, first, last, stable):
                listed.add(last)
        for offset, (marker, first_offset, _) in ended.items():
            is_aborted = not marker.is_commit and first_offset >= 0
            if is_aborted and offset not in listed and self._must_be_listed(offset):
                self._report.cache(
                    "txnindex", path,
                    f"no entry for the transaction of producer {marker.producer_id} that begins at "
                    f"offset {first_offset} and is aborted at {offset}",
                    "consumers that read only committed records get its records", remedy=ANEW,
                    offset=offset,
                )  # fmt: skip

    def _is_right(
        self, path: str, ended: Ended, producer_id: int, first: int, last: int, stable: int
    ) -> bool:
        marker, first_offset, stable_offset = ended
        if marker.is_commit or marker.producer_id != producer_id:
            self._report.cache(
                "txnindex", path,
                f"an aborted transaction of producer {producer_id} that ends at offset {last}, "
                f"where the log {'commits' if marker.is_commit else 'aborts'} one of producer "
                f"{marker.producer_id}",
                "consumers that read only committed records may miss some", remedy=ANEW,
                offset=last,
            )  # fmt: skip
            return False
        if (0 <= first_offset < first) or stable > stable_offset:
            self._report.cache(
                "txnindex", path,
                f"a transaction of producer {producer_id}, offsets {first} to {last}, stable "
                f"{stable}: expected offsets {first_offset} to {last}, stable {stable_offset}",
                "consumers that read only committed records may get aborted ones", remedy=ANEW,
                offset=last,
            )  # fmt: skip
        return True

    def _must_be_listed(self, offset: int) -> bool:
        point = self._expected.recovery_point
        return self._expected.ending == CLEAN or (point is not None and offset < point)
