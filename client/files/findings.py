"""What `barnabas verify` finds: one `Finding` each, collected in a `Report`.

Three weights:

    damage   records, or files that lead to them, are not as they were written
    cache    a file that the broker can rebuild (design.md, I4) is missing or wrong
    note     worth knowing, but healthy

A report without findings of damage and cache is sound. Of each kind in each file only the first few
are kept and the rest are counted, so that a file of garbage does not fill the screen.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

DAMAGE: Final = "damage"
CACHE: Final = "cache"
NOTE: Final = "note"
KEPT_MAX: Final = 5  # findings of one kind in one file

# What to do, by what is damaged.
RESTORE = (
    "Keep a copy of the file. Restore it from a backup if you have one. Otherwise leave it: the "
    "broker serves the offsets before and after, and answers KAFKA_STORAGE_ERROR for these"
)
TAIL = (
    "This is usual above the recovery point after a crash: the next start copies these bytes to a "
    "*.quarantine file beside the log, truncates the log and continues"
)
REBUILD = "Delete the file while the broker is stopped: it is rebuilt from the log"
RESET = "Delete the file while the broker is stopped: the next start rewrites it, and scans more"
NOTHING = "No action is needed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `position` and `offset` are -1 if unknown."""

    weight: str
    kind: str
    path: str
    found: str
    meaning: str
    remedy: str
    position: int = -1
    offset: int = -1


@dataclass(slots=True)
class Report:
    """All findings of a run, and how much was checked."""

    findings: list[Finding] = field(default_factory=list)
    untold: dict[tuple[str, str], int] = field(default_factory=dict)  # (path, kind) -> not kept
    partition_count: int = 0
    file_count: int = 0
    batch_count: int = 0
    record_count: int = 0
    size_bytes: int = 0
    _kept: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Keep a finding, or count it if enough of its kind in that file are kept."""
        key = (finding.path, finding.kind)
        kept = self._kept.get(key, 0)
        if kept < KEPT_MAX:
            self._kept[key] = kept + 1
            self.findings.append(finding)
        else:
            self.untold[key] = self.untold.get(key, 0) + 1

    def take(self, other: Report) -> None:
        """Add what another report has found and counted."""
        for finding in other.findings:
            self.add(finding)
        for key, count in other.untold.items():
            self.untold[key] = self.untold.get(key, 0) + count
        self.partition_count += other.partition_count
        self.file_count += other.file_count
        self.batch_count += other.batch_count
        self.record_count += other.record_count
        self.size_bytes += other.size_bytes

    def damage(
        self, kind: str, path: str, found: str, meaning: str, remedy: str = RESTORE, **where: int
    ) -> None:
        """Add damage to what cannot be rebuilt."""
        self.add(Finding(DAMAGE, kind, path, found, meaning, remedy, **where))

    def cache(
        self, kind: str, path: str, found: str, meaning: str, remedy: str = REBUILD, **where: int
    ) -> None:
        """Add damage to a file that can be rebuilt."""
        self.add(Finding(CACHE, kind, path, found, meaning, remedy, **where))

    def note(
        self, kind: str, path: str, found: str, meaning: str, remedy: str = NOTHING, **where: int
    ) -> None:
        """Add something that is healthy, but worth knowing."""
        self.add(Finding(NOTE, kind, path, found, meaning, remedy, **where))

    @property
    def is_sound(self) -> bool:
        """Whether there are only notes."""
        return all(finding.weight == NOTE for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        return {
            "sound": self.is_sound,
            "partitions": self.partition_count,
            "files": self.file_count,
            "batches": self.batch_count,
            "records_opened": self.record_count,
            "bytes": self.size_bytes,
            "findings": [asdict(finding) for finding in self.findings],
            "not_listed": [
                {"path": path, "kind": kind, "count": count}
                for (path, kind), count in self.untold.items()
            ],
        }
