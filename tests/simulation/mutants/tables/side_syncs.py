"""Slips about fdatasyncs that the kernel runs beside the broker: whom they end for, and how."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "side-sync-hides-its-error",
        "an fdatasync that has failed in the kernel counts as done",
        "broker/partitions/flush_pool.py",
        """\
            if code:
""",
        """\
            if code < 0:
""",
        only_with=frozenset({"disk error", "disk error at an end"}),
    ),
    Mutant(
        "side-sync-ends-another-flush",
        "the end of any fdatasync of a round in the kernel ends the flush that was looked at last",
        "broker/partitions/kernel_round.py",
        """\
                wanted.append((file, partial(self._synced, job)))
""",
        """\
                wanted.append((file, lambda error: self._synced(job, error)))
""",
    ),
    Mutant(
        "first-side-sync-ends-its-round",
        "a round in the kernel is over when its first fdatasync has ended",
        "broker/partitions/kernel_round.py",
        """\
        self.left -= 1
        self._ended.append((partition, flush, error))
        self._ended_count += 1
        self._told(self)
""",
        """\
        self.left -= 1
        self._ended.append((partition, flush, error))
        self._ended_count += 1
        if self.left >= 0:
            self.left = 0
            self._told(self)
""",
    ),
    Mutant(
        "round-of-side-syncs-never-ends",
        "a round in the kernel keeps its place when its last fdatasync has ended",
        "broker/partitions/running_rounds.py",
        """\
        if round_.left:
            self._finish(round_)
        else:
            self._end(round_, None)
""",
        """\
        self._finish(round_)
""",
    ),
    Mutant(
        "refused-side-sync-is-dropped",
        "a flush that the kernel has no room for is given to no thread",
        "broker/partitions/kernel_round.py",
        """\
        return others + small[self.left :]
""",
        """\
        return others
""",
    ),
    Mutant(
        "all-but-one-side-sync-untold",
        "of the fdatasyncs that have ended since the loop looked, it takes one",
        "broker/partitions/flush_pool.py",
        """\
        for number, code in self._syncs.take():
""",
        """\
        for number, code in self._syncs.take()[:1]:
""",
    ),
    Mutant(
        "side-sync-of-the-last-file-only",
        "a flush of several files is run by the kernel as an fdatasync of the last one",
        "storage/flush.py",
        """\
        is_one = len(self._files) == 1 and not (self._paths or self._directories)
        return self._files[0] if is_one else None
""",
        """\
        return self._files[-1] if self._files else None
""",
    ),
    Mutant(
        "side-syncs-leave-files-dirty",
        "an fdatasync in the kernel leaves its file marked as dirty, and open for good",
        "broker/partitions/flush_pool.py",
        """\
                file.note_synced(covered)
""",
        """\
                pass
""",
    ),
    Mutant(
        "side-sync-covers-later-writes",
        "what was written while the kernel synced a file counts as synced",
        "broker/partitions/flush_pool.py",
        """\
                file.note_synced(covered)
""",
        """\
                file.note_synced(file.writes)
""",
    ),
)
