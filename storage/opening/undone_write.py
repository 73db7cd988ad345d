"""Cuts what a failed write has left at the end of a closed segment.

The write was undone, and the log rolled. Until the next flush, a power cut brings back what was
undone. In the active segment that lies above the recovery point, where recovery checks everything;
in a closed one that ends at the recovery point nothing else would look at it.
"""

from __future__ import annotations

from storage.errors import LogFailed
from storage.files.filesystem import File
from storage.files.room import NO_DESCRIPTOR, errno_of
from storage.opening.quarantine import Quarantine
from storage.opening.recovery_report import RecoveryReport
from storage.opening.recovery_start import find_start
from storage.segments.segment import Segment


def cut_undone_write(
    segment: Segment,
    recovery_point: int,
    holes_below: int,
    quarantine: Quarantine,
    report: RecoveryReport,
) -> File | None:
    """Cut what follows the batches of a closed segment whose end is the recovery point.

    It was never acknowledged. Returns the file if it was cut: the caller must sync it. Damage
    before the end is not sought here, and what cannot be read or kept stays. Raises OSError or
    LogFailed if there is no descriptor.
    """
    size, path = segment.size, segment.log_file.path
    elsewhere = RecoveryReport(report.topic, report.partition, report.directory)
    try:
        start = find_start(segment, recovery_point, holes_below, elsewhere)
        is_end = start.next_offset == recovery_point and start.behind_damage is None
        if not is_end or start.position is None or start.position >= size:
            return None
        file = quarantine.take_tail(segment, start.position)
    except (OSError, LogFailed) as error:
        if errno_of(error) in NO_DESCRIPTOR:
            raise
        report.warnings.append(f"{path} may end in bytes of a failed write: {error}")
        return None
    report.warnings.append(
        f"{path}: cut {size - start.position} bytes of a failed write behind offset "
        f"{recovery_point}, its end"
    )
    return file
