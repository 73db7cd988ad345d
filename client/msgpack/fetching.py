"""Fetching raw batches: the request of both consumers, and how they open the answer.

A Fetch with `raw` returns record batches as they are stored; they are checked and opened here. For
ListOffsets, START and END are the two ends of a partition.

With READ_COMMITTED the broker's answer ends at the last stable offset, and names the aborted
transactions that begin in it or before it; their records are left out here, up to the marker that
ends each (Kafka: CompletedFetch).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from protocol.aborted_transactions import AbortedTransactions
from protocol.legacy_batches import batches_any, read_records_any, verify_any
from protocol.records import BatchHeader, Record

END: Final = -1  # timestamps with a special meaning in ListOffsets
START: Final = -2
READ_UNCOMMITTED: Final = 0  # Kafka's IsolationLevel
READ_COMMITTED: Final = 1
FETCH_BYTES: Final = 4 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
OPENED_BYTES_MAX: Final = 256 * 1024 * 1024


class FetchError(Exception):
    """A partition cannot be read at its position; if `retriable`, it may be possible later."""

    def __init__(self, text: str, *, retriable: bool) -> None:
        super().__init__(text)
        self.retriable = retriable


def fetch_body(
    wanted: Mapping[bytes, Iterable[tuple[int, int]]],
    wait_ms: int,
    isolation: int = READ_UNCOMMITTED,
) -> dict[str, Any]:
    """Return the body of a Fetch for (partition, offset) by topic id, in this order."""
    return {
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": FETCH_BYTES,
        "isolation_level": isolation,
        "topics": [
            {
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition": partition,
                        "fetch_offset": offset,
                        "partition_max_bytes": PARTITION_BYTES,
                    }
                    for partition, offset in partitions
                ],
            }
            for topic_id, partitions in wanted.items()
        ],
        "raw": True,
    }


class RecordFilter(Protocol):
    """Picks records of a batch, before they are made where it can."""

    def records(self, raw: Any, position: int, size_max: int) -> Iterator[Record]:
        """Return the wanted records of the checked batch at `position`."""
        ...


def opened(
    raw: Any,
    position: int,
    aborted: Iterable[Mapping[str, int]] = (),
    wanted: RecordFilter | None = None,
) -> Iterator[tuple[list[Record], BatchHeader]]:
    """Yield each raw batch's records from offset `position` on, with the batch's header.

    `aborted` is the answer's `aborted_transactions`, whose records are left out. Every batch's CRC
    is checked. An incomplete batch at the end is left to the next fetch. `wanted` picks records.
    """
    left_out = AbortedTransactions((one["producer_id"], one["first_offset"]) for one in aborted)
    for start, header in batches_any(raw):
        if header.next_offset <= position:
            continue
        verify_any(raw, start)
        found: list[Record] = []
        if not left_out.has(header) and not header.is_control:
            if wanted is None:
                records = read_records_any(raw, start, size_max=OPENED_BYTES_MAX)
            else:
                records = wanted.records(raw, start, OPENED_BYTES_MAX)
            found = [record for record in records if record.offset >= position]
        position = header.next_offset
        yield found, header
