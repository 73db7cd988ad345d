"""Which leader epoch began at which offset, for one partition.

A list of (epoch, start offset), both strictly increasing; an epoch ends where the next begins. It
answers OffsetForLeaderEpoch, with which a client detects that the log was truncated (KIP-320), and
gives the epochs in ListOffsets answers. `leader-epoch-checkpoint` keeps it, in the format of
`storage.files.text_files`. Every batch header has its epoch as well, so a lost or damaged file is
rebuilt from the batches.

The semantics are those of Kafka's LeaderEpochFileCache. Nothing here touches a file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """The epochs of one partition. `is_dirty` is set by each change and reset by the writer."""

    __slots__ = ("_epochs", "_starts", "is_dirty", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED_EPOCH  # the newest epoch, or -1
        self.is_dirty = False
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.is_dirty = False

    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; return whether that changed anything.

        The latest epoch again changes nothing. Entries that contradict the new one (an epoch or a
        start offset that is not below it) are removed: the new one is right.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} from offset {start_offset}, expected both >= 0")
        if self._epochs and self._epochs[-1] == epoch:
            return False
        if epoch in self._epochs and self._starts[self._epochs.index(epoch)] == start_offset:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        self.is_dirty = True
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the (epoch, end offset) that answers OffsetForLeaderEpoch for `epoch`.

        The latest epoch ends at the end of the log. An older one ends where the next known epoch
        begins, and the answer names the largest known epoch up to it. An epoch below all known
        ones ends where the first of them begins. One above all known is undefined: (-1, -1).
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        after = bisect_right(self._epochs, epoch)
        if after == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if after == 0:
            return epoch, self._starts[0]
        return self._epochs[after - 1], self._starts[after]

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the batch at `offset`, written or to come; -1 before the first."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else UNDEFINED_EPOCH

    def drop_before(self, start_offset: int) -> None:
        """Forget the epochs that ended at or before `start_offset`, the new start of the log.

        The epoch of that offset stays, and begins there.
        """
        index = bisect_right(self._starts, start_offset) - 1
        if index < 0 or (index == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:index]
        del self._starts[:index]
        self._starts[0] = start_offset
        self.is_dirty = True

    def drop_from(self, end_offset: int) -> None:
        """Forget the epochs that began at or after `end_offset`, the new end of the log."""
        index = bisect_left(self._starts, end_offset)
        if index == len(self._starts):
            return
        del self._epochs[index:]
        del self._starts[index:]
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.is_dirty = True
