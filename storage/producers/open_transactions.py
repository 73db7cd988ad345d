"""The transactions of one partition that hold its last stable offset back.

    begin            the producer's first transactional batch: its records are unstable
    end              a marker is in the log: nothing is open any more, the records stay unstable
    settle           the marker's outcome is safe: its records are stable

Between `end` and `settle` a marker is in the log while the record of its decision may not be on the
disk yet (design.md, I16). A power cut then leaves the marker as the only evidence of the outcome.
So `unsettled_from` is as far as the recovery point may go: recovery reads every marker above it.

A producer may begin its next transaction while markers of earlier ones are unsettled. First offsets
rise from one transaction to the next, so dictionaries in the order of insertion are sorted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from protocol.control_records import Marker
from storage.files.filenames import OFFSET_MAX

NO_OFFSET: Final = -1


class OpenTransaction(NamedTuple):
    """Data of a producer that no marker has ended; the epoch is that of its last batch."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class EndedTransaction(NamedTuple):
    """What a marker has ended; for a marker of an idle producer (None, -1, …)."""

    closed_epoch: int | None  # of the data
    first_offset: int
    first_open_offset: int  # of the oldest transaction that is still open, or -1

    def aborted_by(self, marker: Marker, offset: int) -> tuple[int, int, int, int] | None:
        """Return what the list of aborted transactions gets for the marker at `offset`, if any.

        That is: producer id, first offset, the marker's, and the last stable offset right after it.
        """
        if marker.is_commit or self.first_offset < 0:
            return None
        stable = offset + 1 if self.first_open_offset < 0 else self.first_open_offset
        return marker.producer_id, self.first_offset, offset, stable


class ReplayedMarker(NamedTuple):
    """A marker above the recovery point that the log was opened from, and what it has ended."""

    offset: int
    marker: Marker
    closed_epoch: int | None  # of the data; None if nothing was open
    first_offset: int  # of the transaction, or -1


class LastMarkers:
    """The replayed markers that may be the only evidence of an outcome.

    Of each producer the last, and the last that has ended data: a producer's earlier decisions are
    durable, or it would have begun no other transaction. So a replay of the whole log keeps few.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bool], ReplayedMarker] = {}

    def add(self, replayed: ReplayedMarker) -> None:
        """Add the next marker of the log."""
        producer_id = replayed.marker.producer_id
        self._kept[producer_id, replayed.closed_epoch is None] = replayed

    def in_order(self) -> list[ReplayedMarker]:
        """Return them by their offsets."""
        return sorted(self._kept.values(), key=lambda replayed: replayed.offset)


class OpenTransactions:
    """The open and the unsettled transactions of one partition.

    `first_unstable` is the first offset of the oldest of them, OFFSET_MAX if there are none.
    """

    __slots__ = ("_open", "_unsettled", "_unstable", "first_unstable")

    def __init__(self) -> None:
        # OrderedDict, since the first key of a dict that has lost many is not found at once.
        self._open: OrderedDict[int, int] = OrderedDict()  # first offset -> producer id
        self._unstable: OrderedDict[int, None] = OrderedDict()  # first offsets: open or unsettled
        self._unsettled: OrderedDict[int, int] = OrderedDict()  # marker's offset -> first offset
        self.first_unstable = OFFSET_MAX

    def __len__(self) -> int:
        """Return how many transactions are open."""
        return len(self._open)

    def begin(self, first_offset: int, producer_id: int) -> None:
        """Open a transaction; first offsets rise."""
        self._open[first_offset] = producer_id
        self._unstable[first_offset] = None
        self.first_unstable = min(self.first_unstable, first_offset)

    def end(self, first_offset: int, marker_offset: int) -> None:
        """Close the transaction that began at `first_offset` (-1: none was open), unsettled."""
        self._open.pop(first_offset, None)
        self._unsettled[marker_offset] = first_offset

    def settle(self, marker_offset: int) -> None:
        """Let readers have what a marker has ended. One that is settled already changes nothing."""
        first_offset = self._unsettled.pop(marker_offset, NO_OFFSET)
        if first_offset != NO_OFFSET and self._unstable.pop(first_offset, self) is None:
            self.first_unstable = next(iter(self._unstable), OFFSET_MAX)

    def hold(self, marker_offset: int) -> None:
        """Have a settled marker bound the recovery point again, until it is settled once more."""
        self._unsettled[marker_offset] = NO_OFFSET

    def settle_before(self, offset: int) -> None:
        """Settle the markers below `offset`."""
        for marker_offset in [one for one in self._unsettled if one < offset]:
            self.settle(marker_offset)

    def settle_from(self, offset: int) -> None:
        """Settle the markers at or above `offset`."""
        for marker_offset in [one for one in self._unsettled if one >= offset]:
            self.settle(marker_offset)

    @property
    def first_open(self) -> int:
        """The first offset of the oldest transaction that no marker has ended, or -1."""
        return next(iter(self._open), NO_OFFSET)

    @property
    def unsettled_from(self) -> int | None:
        """The offset of the first unsettled marker; None if there are none."""
        return next(iter(self._unsettled), None)

    def open_ones(self) -> Iterable[tuple[int, int]]:
        """Return (first offset, producer id) of the open transactions, the oldest first."""
        return self._open.items()
