"""What a check of files finds: one `Finding` each, collected in `Findings`.

Three weights, the same as those of `barnabas verify`:

    damage   records, or what leads to them, are not what was written
    cache    a file that the broker builds again by itself is missing or wrong
    note     worth knowing, and healthy

Of one kind in one file only the first few are kept, the rest are counted. All of it is pickled: it
travels from the tasks to the driver.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyspark_barnabas.jobs.session import plural

DAMAGE: Final = "damage"
CACHE: Final = "cache"
NOTE: Final = "note"
KEPT_MAX: Final = 5  # findings of one kind in one file

RESTORE: Final = (
    "Keep a copy of the file and restore it from a backup. Without one leave it as it is: the "
    "broker serves what is before and behind, and answers KAFKA_STORAGE_ERROR for these offsets"
)
TAIL: Final = (
    "Usual after a crash: the next start of the broker keeps a copy of these bytes as "
    "*.quarantine, cuts them off and goes on"
)
REBUILD: Final = (
    "While the broker is stopped delete the file, if it is there: it is built again from the log"
)
NOTHING: Final = "Nothing needs to be done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth a note. `position` and `offset` are -1 where unknown."""

    weight: str
    kind: str
    path: str
    found: str
    means: str
    remedy: str
    position: int = -1
    offset: int = -1

    def lines(self) -> list[str]:
        """Return it for a person."""
        place = self.path
        if self.position >= 0:
            place += f" at position {self.position}"
        if self.offset >= 0:
            place += f", offset {self.offset}"
        return [
            f"{self.weight.upper()} {self.kind}: {place}",
            f"  found:   {self.found}",
            f"  means:   {self.means}",
            f"  do:      {self.remedy}",
        ]


@dataclass(slots=True)
class Findings:
    """Findings in the order in which they were made, not too many of a kind."""

    kept: list[Finding] = field(default_factory=list)
    untold: dict[tuple[str, str], int] = field(default_factory=dict)  # (path, kind) -> not kept

    def add(
        self, weight: str, kind: str, path: str, found: str, means: str, remedy: str, **where: int
    ) -> None:
        """Take a finding, or count it when there are enough of its kind in that file."""
        if sum(one.path == path and one.kind == kind for one in self.kept) < KEPT_MAX:
            self.kept.append(
                Finding(
                    weight=weight, kind=kind, path=path, found=found, means=means,
                    remedy=remedy, **where,
                )
            )  # fmt: skip
        else:
            self.untold[path, kind] = self.untold.get((path, kind), 0) + 1

    def damage(
        self, kind: str, path: str, found: str, means: str, remedy: str = RESTORE, **where: int
    ) -> None:
        """Add damage to what cannot be made again."""
        self.add(DAMAGE, kind, path, found, means, remedy, **where)

    def cache(self, kind: str, path: str, found: str, means: str, **where: int) -> None:
        """Add damage to a file that can be made again."""
        self.add(CACHE, kind, path, found, means, REBUILD, **where)

    def note(
        self, kind: str, path: str, found: str, means: str, remedy: str = NOTHING, **where: int
    ) -> None:
        """Add something that is worth knowing and healthy."""
        self.add(NOTE, kind, path, found, means, remedy, **where)

    def extend(self, others: Iterable[Findings]) -> None:
        """Take what others have found."""
        for other in others:
            self.kept += other.kept
            for key, count in other.untold.items():
                self.untold[key] = self.untold.get(key, 0) + count

    def count(self, weight: str) -> int:
        """Return how many of a weight are kept."""
        return sum(one.weight == weight for one in self.kept)

    @property
    def is_sound(self) -> bool:
        """Whether nothing but notes was found."""
        return all(one.weight == NOTE for one in self.kept)

    def lines(self) -> list[str]:
        """Return all of it for a person."""
        told = [line for one in self.kept for line in one.lines()]
        told += [
            f"{path}: {plural(count, 'more finding')} of kind {kind}"
            for (path, kind), count in self.untold.items()
        ]
        return told

    def facts(self) -> dict[str, Any]:
        """Return all of it for a program."""
        return {
            "sound": self.is_sound,
            "findings": [asdict(one) for one in self.kept],
            "not_listed": [
                {"path": path, "kind": kind, "count": count}
                for (path, kind), count in self.untold.items()
            ],
        }
