"""The leader epochs of a log, compared with each other, the checkpoint and the metadata log.

A batch's leader epoch is not covered by its checksum. It never decreases from one batch to the
next, equals the one in `leader-epoch-checkpoint` for the offset, and is at most the partition's in
the metadata log. If a deletion removed the beginning of the checkpoint, its first epoch is still
the largest that an earlier batch can have.
"""

from __future__ import annotations

import os

from client.files.batches import Entry
from client.files.findings import REBUILD, Report
from client.files.verify_expected import CLEAN, Expected

NO_EPOCH = -1
CHECKPOINT_WRONG = "; or the checkpoint is wrong: delete it, and the broker rewrites it"


class EpochCheck:
    """Checks one log, batch by batch. `checkpoint` holds (epoch, first offset), in order."""

    def __init__(
        self, report: Report, checkpoint: list[tuple[int, int]], expected: Expected
    ) -> None:
        self._report = report
        self._checkpoint = checkpoint
        self._may_lag = expected.ending != CLEAN  # it may not have the newest epoch yet
        self._offset_from = (
            expected.log_start or 0
        )  # the first offset that it must have an epoch for
        self._epoch_max = expected.leader_epoch  # -1 if not known
        self._epoch = -1
        self._begun = ("", -1, -1)  # path, position and offset of the epoch's first batch

    def see(self, path: str, entry: Entry, offset: int) -> None:
        """Check the leader epoch of the next batch, whose first record is at `offset`."""
        epoch = entry.header.leader_epoch if entry.header else NO_EPOCH
        if epoch == NO_EPOCH:
            return  # written before leader epochs existed
        recorded = self._recorded(offset)
        lagging = self._may_lag and self._checkpoint and recorded == self._checkpoint[-1][0]
        meaning = (
            "the field has no checksum; consumers that ask for the end of an epoch get a wrong "
            "answer"
        )
        if epoch < self._epoch:
            self._tell_fall(path, entry, epoch, offset, meaning)
        elif 0 <= self._epoch_max < epoch:
            found = f"leader epoch {epoch} at offset {offset}"
            found += f", the metadata log says {self._epoch_max}"
            self._damage_at(path, entry, found, meaning)
        elif recorded < 0 and self._is_epoch_missing(offset):
            self._report.cache(
                "epoch", path,
                f"leader-epoch-checkpoint begins at offset {self._checkpoint[0][1]}, but the log "
                f"holds offset {offset} of epoch {epoch}", meaning, remedy=REBUILD,
            )  # fmt: skip
            self._go_on_with(path, entry, epoch, offset)
        elif recorded < 0 and self._checkpoint and epoch > self._checkpoint[0][0]:
            first, start = self._checkpoint[0]
            self._damage_at(
                path, entry,
                f"leader epoch {epoch} at offset {offset}, but leader-epoch-checkpoint has {first} "
                f"for the later offset {start}", meaning + CHECKPOINT_WRONG,
            )  # fmt: skip
        elif recorded >= 0 and epoch != recorded and not (lagging and epoch > recorded):
            self._damage_at(
                path, entry,
                f"leader epoch {epoch}, but leader-epoch-checkpoint has {recorded} for offset "
                f"{offset}",
                meaning + CHECKPOINT_WRONG,
            )  # fmt: skip
        else:
            self._go_on_with(path, entry, epoch, offset)

    def _go_on_with(self, path: str, entry: Entry, epoch: int, offset: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._begun = epoch, (path, entry.position, offset)

    def _tell_fall(self, path: str, entry: Entry, epoch: int, offset: int, meaning: str) -> None:
        """Report this batch's epoch or the higher one before it: the checkpoint decides."""
        begun_path, position, start = self._begun
        if epoch == self._recorded(offset):
            self._report.damage(
                "epoch", begun_path,
                f"leader epoch {self._epoch} at offset {start}, but offset {offset} after it has "
                f"{epoch}, as in leader-epoch-checkpoint", meaning,
                position=position, offset=start,
            )  # fmt: skip
            self._go_on_with(path, entry, epoch, offset)
            return
        self._damage_at(
            path, entry,
            f"leader epoch {epoch} follows {self._epoch}, which begins at offset {start} "
            f"({os.path.basename(begun_path)} at {position})",
            meaning + "; either of the two may be wrong",
        )  # fmt: skip

    def _is_epoch_missing(self, offset: int) -> bool:
        return bool(self._checkpoint) and not self._may_lag and offset >= self._offset_from

    def _recorded(self, offset: int) -> int:
        """Return the epoch of an offset in the checkpoint, -1 if it has none."""
        found = -1
        for epoch, start_offset in self._checkpoint:
            if start_offset > offset:
                break
            found = epoch
        return found

    def _damage_at(self, path: str, entry: Entry, found: str, meaning: str) -> None:
        self._report.damage(
            "epoch", path, found, meaning, position=entry.position, offset=entry.base_offset
        )
