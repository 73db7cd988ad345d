"""What the answer to a fetch has too much of, and what it has not although it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulation.clients.served import Served, served
from tests.simulation.record import Record, Unserved
from tests.simulation.transaction_events import STABLE
from tests.support.log_ledger import HIGH_WATERMARK

if TYPE_CHECKING:
    from tests.simulation.clients.readings import Asking, Reading

OUT_OF_RANGE: Final = 1
NOTHING: Final = "nothing"
NO_END: Final = 1 << 62  # an offset


def too_large(partition_bytes: int, found: Served) -> str:
    """Say what is wrong with the size of one partition: beyond its first batch, it has a limit."""
    size = sum(found.sizes)
    if found.sizes and size > max(partition_bytes, found.sizes[0]):
        return f"{size} bytes, asked for {partition_bytes}"
    return ""


def diverges(part: Any) -> bool:
    """Whether a partition is answered with where its epochs part."""
    return getattr(part, "diverging_epoch", None) is not None


def look_at_answer(who: str, record: Record, asking: Asking, parts: list[Any], now_ns: int) -> None:
    """Note what is wrong with all partitions of an answer, which has raw records, together.

    The first batch comes however large it is (KIP-74), and the others only if there is room.
    """
    first = next((part.records for part in parts if part.records), None)
    if first is not None:
        total = sum(len(part.records or b"") for part in parts)
        sizes = served(first, 0, NO_END, is_compacted=True).sizes
        if sizes and total > max(asking.max_bytes, sizes[0]):
            record.fail(who, f"{total} bytes in all, asked for {asking.max_bytes}")
    elif not any(part.error_code or diverges(part) for part in parts):
        for reading, position in asking.asked:
            _note(who, record, asking, (reading, position, position + 1), now_ns, NOTHING)


def look_at_refusal(
    who: str,
    record: Record,
    asking: Asking,
    place: tuple[Reading, int, int],
    now_ns: int,
    start_offset: int | None,
) -> None:
    """Note an offset out of range, of a log that has not lost its beginning up to there.

    `place`: what was read, from where, and the error code. `start_offset`: where the log begins by
    now, None if that is not known.
    """
    reading, position, code = place
    if start_offset is None or reading.topic.may_be_gone:
        may_be_deleted = reading.topic.is_trimmed
    else:
        may_be_deleted = position < start_offset
    if code == OUT_OF_RANGE and not may_be_deleted:
        _note(who, record, asking, (reading, position, position), now_ns, "out of range")


def _note(
    who: str,
    record: Record,
    asking: Asking,
    place: tuple[Reading, int, int],
    now_ns: int,
    what: str,
) -> None:
    """Note it if the log was known to reach so far when the fetch was sent."""
    reading, position, least = place
    name = STABLE if what == NOTHING and asking.is_committed else HIGH_WATERMARK
    mark = record.mark_before(reading.key, name, asking.began_ns)
    if mark >= max(least, 0):
        record.unserved.append(Unserved(now_ns, who, reading.key, position, mark, what))
