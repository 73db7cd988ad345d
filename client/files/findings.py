"""What `barnabas verify` finds: one `Finding` each, collected in a `Report`.

Three weights:

    damage   records, or what leads to them, are not what was written
    cache    a file that the broker builds again by itself (design.md, I4) is missing or wrong
    note     worth knowing, and healthy

A report is sound without damage and cache findings. Of one kind in one file only the first few are
kept, the rest are counted: a file of garbage says so in a few lines.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Final

DAMAGE: Final = "damage"
CACHE: Final = "cache"
NOTE: Final = "note"
KEPT_MAX: Final = 5  # findings of one kind in one file

# What to do, by what is damaged. The command line prints it once for each kind.
RESTORE = (
    "Keep a copy of the file. Restore it from a backup if there is one. Without one, leave it: the "
    "broker serves what is before and behind it, and answers KAFKA_STORAGE_ERROR for these offsets"
)
TAIL = (
    "After a crash this is usual above the recovery point: the next start copies these bytes to a "
    "*.quarantine file beside the log, cuts them and goes on"
)
REBUILD = "Delete the file while the broker is stopped: it is built again from the log"
RESET = "Delete the file while the broker is stopped: the next start makes it anew, and scans more"
NOTHING = "Nothing needs to be done"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or worth a note. `position` and `offset` are -1 where unknown."""

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
    """All findings of a run, and how much was looked at."""

    findings: list[Finding] = field(default_factory=list)
    untold: dict[tuple[str, str], int] = field(default_factory=dict)  # (path, kind) -> not kept
    partition_count: int = 0
    file_count: int = 0
    batch_count: int = 0
    record_count: int = 0
    size_bytes: int = 0
    _kept: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Take a finding, or count it if there are enough of its kind in that file."""
        key = (finding.path, finding.kind)
        kept = self._kept.get(key, 0)
        if kept < KEPT_MAX:
            self._kept[key] = kept + 1
            self.findings.append(finding)
        else:
            self.untold[key] = self.untold.get(key, 0) + 1

    def damage(
        self, kind: str, path: str, found: str, meaning: str, remedy: str = RESTORE, **where: int
    ) -> None:
        """Add damage to what cannot be made again."""
        self.add(Finding(DAMAGE, kind, path, found, meaning, remedy, **where))

    def cache(
        self, kind: str, path: str, found: str, meaning: str, remedy: str = REBUILD, **where: int
    ) -> None:
        """Add damage to a file that can be made again."""
        self.add(Finding(CACHE, kind, path, found, meaning, remedy, **where))

    def note(
        self, kind: str, path: str, found: str, meaning: str, remedy: str = NOTHING, **where: int
    ) -> None:
        """Add something that is worth knowing and healthy."""
        self.add(Finding(NOTE, kind, path, found, meaning, remedy, **where))

    @property
    def is_sound(self) -> bool:
        """Whether nothing but notes was found."""
        return all(finding.weight == NOTE for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report for a program."""
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
