"""Which batches of a fetch's answer belong to aborted transactions, for those who leave them out.

An answer for readers of committed records (isolation level 1) names the aborted transactions among
its batches, each by its producer id and first offset (KIP-98). Each lasts up to the next control
batch of its producer: a producer has one transaction at a time in a partition.
"""

from collections.abc import Iterable
from operator import itemgetter

from protocol.record_batch import BatchHeader


class AbortedTransactions:
    """The aborted transactions of one partition's answer: `aborted` are (producer id, offset)."""

    __slots__ = ("_begun", "_to_come")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._to_come = sorted(aborted, key=itemgetter(1), reverse=True)  # by first offset
        self._begun: set[int] = set()  # producers

    def has(self, header: BatchHeader) -> bool:
        """Say whether the records of the next batch are to be skipped; ask for each in turn."""
        while self._to_come and self._to_come[-1][1] <= header.last_offset:
            self._begun.add(self._to_come.pop()[0])
        if not self._begun:
            return False
        if header.is_control:
            self._begun.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._begun
