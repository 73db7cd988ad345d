"""Where a group's member reads on, and what of it the group knows.

No I/O: for each partition that is held, the offset that is read next, the one that the group has
last been told, and whether reading is paused. A partition comes without a position (`unplaced`)
until somebody has found one. The front of `readable` goes round, so that everyone has a turn: what
a fetch names first is served first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from client.msgpack.membership import Partition


@dataclass(slots=True)
class _Reading:
    """`leader_epoch` is that of the last batch read, -1 where none was (KIP-320)."""

    offset: int = -1
    leader_epoch: int = -1
    committed: int = -1
    is_paused: bool = False


class Positions:
    """The partitions that are held. Partitions that are not are a KeyError."""

    def __init__(self) -> None:
        self._readings: dict[Partition, _Reading] = {}

    def __contains__(self, partition: object) -> bool:
        """Whether a partition is held."""
        return partition in self._readings

    def __iter__(self) -> Iterator[Partition]:
        """Name the partitions that are held."""
        return iter(self._readings)

    def hold(self, partitions: Iterable[Partition]) -> None:
        """Take partitions, without a position yet."""
        for one in partitions:
            self._readings.setdefault(one, _Reading())

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions."""
        for one in partitions:
            self._readings.pop(one, None)

    def unplaced(self) -> list[Partition]:
        """Return the partitions that nobody has found a position for."""
        return [one for one, reading in self._readings.items() if reading.offset < 0]

    def place(self, partition: Partition, offset: int, *, committed: bool = False) -> None:
        """Read a partition from `offset` on; `committed`: because the group says so."""
        reading = self._readings[partition]
        reading.offset = offset
        reading.leader_epoch = -1
        if committed:
            reading.committed = offset

    def move(self, partition: Partition, offset: int, leader_epoch: int) -> None:
        """Go on behind a batch."""
        reading = self._readings[partition]
        reading.offset = offset
        reading.leader_epoch = leader_epoch

    def offset(self, partition: Partition) -> int:
        """Return the offset that is read next, -1 without a position."""
        return self._readings[partition].offset

    def offsets(self) -> dict[Partition, int]:
        """Return the offset that is read next of every partition that has one."""
        return {one: found.offset for one, found in self._readings.items() if found.offset >= 0}

    def readable(self) -> list[Partition]:
        """Return what may be fetched, another one at the front each time."""
        found = [
            one
            for one, reading in self._readings.items()
            if reading.offset >= 0 and not reading.is_paused
        ]
        if found:
            self._readings[found[0]] = self._readings.pop(found[0])
        return found

    def pause(self, partition: Partition, *, paused: bool) -> None:
        """Read a partition no more, or again; its position stays."""
        self._readings[partition].is_paused = paused

    def leader_epoch(self, partition: Partition) -> int:
        """Return the leader epoch of what stands before the position, -1 where it is not known."""
        reading = self._readings.get(partition)
        return -1 if reading is None else reading.leader_epoch

    def uncommitted(self) -> dict[Partition, int]:
        """Return the positions that the group has not been told."""
        return {
            one: reading.offset
            for one, reading in self._readings.items()
            if reading.offset >= 0 and reading.offset != reading.committed
        }

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Note what the group has been told; partitions that have gone since do not matter."""
        for one, offset in offsets.items():
            if one in self._readings:
                self._readings[one].committed = offset
