"""The report of opening one log: what was found and what was done, as lines for the broker's log.

A log that was stopped cleanly and in which nothing is wrong has no lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

NO_CLEAN_SHUTDOWN: Final = "no clean shutdown"  # not worth a line of its own


@dataclass(slots=True)
class RecoveryReport:
    """What was found and done when a log was opened. Sizes in bytes."""

    topic: str
    partition: int
    directory: str
    reason: str = ""  # why recovery ran; "" if it did not
    recovery_point: int = -1
    end_offset: int = -1
    batches_checked: int = 0
    bytes_rewritten: int = 0
    bytes_quarantined: int = 0
    zero_bytes_cut: int = 0
    damage: str = ""  # what was wrong with the first batch that was cut
    is_read_only: bool = False  # nothing was rewritten, cut or kept elsewhere
    quarantine_files: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the lines for the broker's log; none if nothing happened."""
        lines = list(self.warnings)
        if self.is_read_only:
            return [*lines, *self._lines_read_only()]
        lines += self._lines_of_the_cut()
        if self.reason and (self.batches_checked or self.reason != NO_CLEAN_SHUTDOWN or lines):
            lines.append(
                f"Recovered {self.topic}-{self.partition} ({self.reason}): from recovery point "
                f"{self.recovery_point} to end offset {self.end_offset}, "
                f"{self.batches_checked} batches checked, {self.bytes_rewritten} bytes rewritten"
            )
        return lines

    def lines_of_a_failure(self) -> list[str]:
        """Return the lines for a log that could not be opened: what was found and done until then.

        The next attempt does not find again what this one has cut.
        """
        has_cut = self.bytes_quarantined or self.zero_bytes_cut
        return [*self.warnings, *(self._lines_of_the_cut() if has_cut else ())]

    def _lines_of_the_cut(self) -> list[str]:
        if not self.damage:
            return []
        line = (
            f"Found invalid messages in log segment of {self.topic}-{self.partition}: "
            f"{self.damage}; truncating to offset {self.end_offset}: "
            f"{self.zero_bytes_cut} zero bytes cut, {self.bytes_quarantined} bytes kept in "
            f"{', '.join(self.quarantine_files) or 'place'}"
        )
        return [line]

    def _lines_read_only(self) -> list[str]:
        name, lines = f"{self.topic}-{self.partition}", []
        if self.damage:
            lines.append(
                f"Found invalid messages in log segment of {name}: {self.damage}; {name} is "
                f"served up to offset {self.end_offset} and not beyond"
            )
        if self.reason and self.reason != NO_CLEAN_SHUTDOWN:
            lines.append(f"{name}: {self.reason}; it is served up to offset {self.end_offset}")
        return lines
