"""The records of a transaction that are not sent yet, and the sequence of the next in a partition.

No I/O. A partition's records become one batch when they are sealed; its bytes do not change after
that, so that the broker knows a batch that is sent again by its sequence. Sequences count from 0 in
each epoch.
"""

from __future__ import annotations

from typing import Final

from client.places import Place
from client.record_size import record_bytes
from client.transactions.epoch import Epoch, PartitionBatch
from protocol.records import HEADER_SIZE, Record, build

_SEQUENCE_END: Final = 1 << 31


class Unsent:
    """The batches of one transaction, by partition."""

    def __init__(self, codec: int) -> None:
        self.codec = codec  # of the batches that are sealed next
        self._size_bytes = 0
        self._batches: dict[Place, PartitionBatch] = {}
        self._epoch: Epoch | None = None  # of the sequences
        self._sequences: dict[Place, int] = {}

    def has_room(self, record: Record, bytes_max: int) -> bool:
        """Whether a record fits beside the others. One alone always may: the broker decides."""
        size = self._size_bytes + HEADER_SIZE + record_bytes(record)
        return not self._size_bytes or size <= bytes_max

    def add(self, place: Place, record: Record) -> int:
        """Add a record to its partition; return the size of all, in bytes."""
        size = record_bytes(record)
        batch = self._batches.get(place)
        if batch is None:
            batch = self._batches[place] = PartitionBatch(place, [])
            size += HEADER_SIZE
        batch.records.append(record)
        self._size_bytes += size
        return self._size_bytes

    def seal(self, epoch: Epoch) -> dict[Place, PartitionBatch]:
        """Return all batches, with their bytes, and hold them no longer."""
        if epoch != self._epoch:
            self._epoch = epoch
            self._sequences.clear()
        sealed, self._batches, self._size_bytes = self._batches, {}, 0
        for place, batch in sealed.items():
            batch.base_sequence = self._sequences.get(place, 0)
            count = len(batch.records)
            self._sequences[place] = (batch.base_sequence + count) % _SEQUENCE_END
            batch.packed = bytes(
                build(
                    batch.records,
                    codec=self.codec,
                    leader_epoch=-1,
                    producer_id=epoch.producer_id,
                    producer_epoch=epoch.producer_epoch,
                    base_sequence=batch.base_sequence,
                    transactional=True,
                )
            )
        return sealed

    def clear(self) -> None:
        """Drop all records."""
        self._batches.clear()
        self._size_bytes = 0
