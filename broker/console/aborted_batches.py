"""Which batches of a fetch belong to aborted transactions: readers of what is committed skip them.

A fetch of isolation level read_committed has their records all the same. It names each aborted
transaction by its producer and its first offset; a marker of that producer ends it. So batches are
shown in their order, as a Kafka client goes through them.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.messages.fetch import AbortedTransaction
from protocol.record_batch import BatchHeader


class AbortedBatches:
    """The aborted transactions of one fetch."""

    def __init__(self, transactions: Sequence[AbortedTransaction] | None) -> None:
        """`transactions` is None where nothing is to be skipped."""
        found = [(one.first_offset, one.producer_id) for one in transactions or ()]
        self._later = sorted(found, reverse=True)  # the next one last
        self._producers: set[int] = set()  # whose transactions have begun

    def has(self, header: BatchHeader) -> bool:
        """Whether the next batch belongs to one of them."""
        while self._later and self._later[-1][0] < header.next_offset:
            self._producers.add(self._later.pop()[1])
        if header.is_control:
            self._producers.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._producers
