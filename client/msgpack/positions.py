"""The positions of a group member, and which of them are committed.

No I/O: for each assigned partition, the offset to read next, the one last committed, and whether
reading is paused. A new partition has no position (`unplaced`) until one is found. `readable`
rotates its order, because a fetch serves the first partition first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from client.msgpack.membership import Partition


@dataclass(slots=True)
class _Reading:
    """`leader_epoch` is that of the last batch read, -1 if none was (KIP-320)."""

    offset: int = -1
    leader_epoch: int = -1
    committed: int = -1
    is_paused: bool = False


class Positions:
    """The assigned partitions. Raises KeyError for others."""

    def __init__(self) -> None:
        self._readings: dict[Partition, _Reading] = {}

    def __contains__(self, partition: object) -> bool:
        """Whether a partition is assigned."""
        return partition in self._readings

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over the assigned partitions."""
        return iter(self._readings)

    def hold(self, partitions: Iterable[Partition]) -> None:
        """Add partitions, without positions yet."""
        for one in partitions:
            self._readings.setdefault(one, _Reading())

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions."""
        for one in partitions:
            self._readings.pop(one, None)

    def unplaced(self) -> list[Partition]:
        """Return the partitions without a position."""
        return [one for one, reading in self._readings.items() if reading.offset < 0]

    def place(self, partition: Partition, offset: int, *, committed: bool = False) -> None:
        """Set a partition's position; `committed`: to the committed offset."""
        reading = self._readings[partition]
        reading.offset = offset
        reading.leader_epoch = -1
        if committed:
            reading.committed = offset

    def move(self, partition: Partition, offset: int, leader_epoch: int) -> None:
        """Advance a partition's position past a batch."""
        reading = self._readings[partition]
        reading.offset = offset
        reading.leader_epoch = leader_epoch

    def offset(self, partition: Partition) -> int:
        """Return the offset to read next, -1 without a position."""
        return self._readings[partition].offset

    def offsets(self) -> dict[Partition, int]:
        """Return the offset to read next of each partition that has one."""
        return {one: found.offset for one, found in self._readings.items() if found.offset >= 0}

    def readable(self) -> list[Partition]:
        """Return what can be fetched, with another partition first each time."""
        found = [
            one
            for one, reading in self._readings.items()
            if reading.offset >= 0 and not reading.is_paused
        ]
        if found:
            self._readings[found[0]] = self._readings.pop(found[0])
        return found

    def pause(self, partition: Partition, *, paused: bool) -> None:
        """Pause or resume reading a partition; its position stays."""
        self._readings[partition].is_paused = paused

    def leader_epoch(self, partition: Partition) -> int:
        """Return the leader epoch of the batch before the position, -1 if unknown."""
        reading = self._readings.get(partition)
        return -1 if reading is None else reading.leader_epoch

    def uncommitted(self) -> dict[Partition, int]:
        """Return the positions that are not committed."""
        return {
            one: reading.offset
            for one, reading in self._readings.items()
            if reading.offset >= 0 and reading.offset != reading.committed
        }

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Note committed offsets; partitions dropped since are ignored."""
        for one, offset in offsets.items():
            if one in self._readings:
                self._readings[one].committed = offset
