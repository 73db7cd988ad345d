"""The transactions of one log: which are open, whose outcome is settled, what was aborted.

    append, append_own      open a transaction with its first batch     (`storage.log`)
    append_marker           ends it: committed or aborted               (`storage.log`)
    settle                  shows its outcome to readers

A coordinator appends markers to several logs, and makes them durable together with the record of
its decision. Then it settles them. Between the two the last stable offset and the recovery point
stay below the marker (`storage.producers.open_transactions`).
"""

from __future__ import annotations

from protocol.control_records import Marker
from protocol.packed_pairs import PACKED_PAIR
from storage.log_reader import LogReader
from storage.producers.open_transactions import OpenTransaction, ReplayedMarker
from storage.segments.log_file import LogSlice


class LogTransactions(LogReader):
    """One log, with its transactions."""

    __slots__ = ()

    def check_marker(self, marker: Marker, *, version: int) -> None:
        """Check a marker of transaction version `version` that an operator or a broker sends.

        Raises InvalidProducerEpoch, CoordinatorFenced.
        """
        self.producers.check_marker(marker, version)

    def settle(self, marker_offset: int) -> None:
        """Let readers have what the marker at `marker_offset` has ended.

        To be called once the marker and the record of its decision are durable; parked fetches of
        the partition must then be notified. A marker that is settled already changes nothing.
        """
        assert marker_offset < self.durable_offset, f"marker {marker_offset} is not durable"
        self.producers.transactions.settle(marker_offset)

    def settle_appended(self) -> None:
        """Settle what was appended since the opening, for a stop that has flushed all logs."""
        self.producers.transactions.settle_from(self.opened_at)

    def open_transactions(self) -> list[OpenTransaction]:
        """Return the transactions that no marker has ended, by their first offsets."""
        return self.producers.open_transactions()

    def first_open_offset_of(self, producer_id: int) -> int:
        """Return the first offset of a producer's open transaction, or -1."""
        return self.producers.first_open_offset_of(producer_id)

    def take_replayed_markers(self) -> list[ReplayedMarker]:
        """Return, once, the markers above the recovery point that the opening has found.

        Of each producer the last ones, in order (`LastMarkers`). Readers see what they have ended.
        But each may be the only evidence of its outcome, so the recovery point stays below the
        first of them until `settle_replayed`.
        """
        taken, self.replayed_markers = self.replayed_markers, []
        return taken

    @property
    def keeps_replayed(self) -> bool:
        """Whether markers that the opening has found keep the recovery point below them."""
        first = self.unsettled_from
        return first is not None and first < self.opened_at

    def settle_replayed(self) -> None:
        """Let the recovery point pass the markers that the opening has found.

        To be called once what they say is durable in `__transaction_state`, too. Markers that were
        appended since then stay unsettled.
        """
        self.replayed_markers = []
        self.producers.transactions.settle_before(self.opened_at)

    def aborted(self, from_offset: int, upper_offset: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of what was aborted with records in [from, upper).

        By their markers, in order, and perhaps others whose markers lie in that range or behind:
        a reader skips a producer's records from the first offset to the next marker. Raises Cold,
        OSError.
        """
        found = self.segments.aborted(from_offset, upper_offset)
        return [*PACKED_PAIR.iter_unpack(found)]

    def aborted_in(self, piece: LogSlice, start_offset: int, limit: int) -> bytes:
        """As `aborted`, of the records of a slice that was read for `start_offset` below `limit`.

        PACKED_PAIRs, as the answer of a fetch has them. Raises Cold, OSError.
        """
        aborting = self.segments.aborting
        if not aborting or aborting[-1].aborts.last_marker < start_offset:
            return b""
        upper_offset = self.segments.offset_behind(piece, start_offset, limit)
        upper_offset = min(limit, upper_offset)
        return bytes(self.segments.aborted(start_offset, upper_offset, self.home.kept_aborts))
