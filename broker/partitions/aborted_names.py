"""The aborted transactions that the answer of a fetch names, for read_committed.

An answer may name any number of them: a reader that is far behind gets all those that lie across
its records. 100,000 would hold up the loop for some 15 ms. So many are named in steps
(`broker.runtime.steps`), and the answer is then encoded in steps too.
"""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from broker.runtime.steps import Steps
from protocol.messages.fetch import AbortedTransaction, FetchResponse, PartitionData
from protocol.packed_pairs import PAIR_BYTES, PackedPairs
from storage.log import Log
from storage.segments.log_file import LogSlice

NAMED_PER_STEP: Final = 1_000


class _Many(NamedTuple):
    """What the answer for one partition is still to name."""

    data: PartitionData
    found: bytes  # PACKED_PAIRs of producer ids and first offsets


class AbortedNames:
    """Names what was aborted in the slices of one answer.

    `takes_steps`: the answer may be made in steps. One whose records are opened in a thread is not.
    """

    __slots__ = ("_many", "_takes_steps")

    def __init__(self, *, takes_steps: bool) -> None:
        self._takes_steps = takes_steps
        self._many: list[_Many] = []

    def begin(self) -> None:
        """Forget the answer before: its partitions are read again."""
        self._many.clear()

    def name(self, data: PartitionData, log: Log, piece: LogSlice, offset: int) -> None:
        """Name what was aborted in a slice that was read for `offset`, or leave it to `whole`.

        Raises Cold, OSError.
        """
        found = log.aborted_in(piece, offset, data.last_stable_offset)
        if len(found) > NAMED_PER_STEP * PAIR_BYTES and self._takes_steps:
            self._many.append(_Many(data, found))
        elif found:
            data.aborted_transactions = cast("list[AbortedTransaction]", _named(found))

    def whole(self, response: FetchResponse) -> FetchResponse | Steps:
        """Return an answer that has been read, or the steps that are left of it."""
        return self._name_many(response) if self._many else response

    def _name_many(self, response: FetchResponse) -> Steps:
        for data, found in self._many:
            named = _named(b"")
            data.aborted_transactions = cast("list[AbortedTransaction]", named)
            view, step = memoryview(found), NAMED_PER_STEP * PAIR_BYTES
            for start in range(0, len(found), step):
                some = view[start : start + step]
                named.extend(some)
                yield len(some)
        return response


def _named(found: bytes) -> PackedPairs[AbortedTransaction]:
    """Return what passes for a list, and is encoded faster."""
    return PackedPairs(_aborted, found)


def _aborted(producer_id: int, first_offset: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
