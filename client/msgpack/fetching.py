"""Fetching raw batches: the request of both consumers, and how they open the answer.

A Fetch with `raw` returns record batches as they are stored; they are checked here and opened by
`batch_openers`. For ListOffsets, START and END are the two ends of a partition.

With READ_COMMITTED the broker's answer ends at the last stable offset, and names the aborted
transactions that begin in it or before it; their records are left out here, up to the marker that
ends each (Kafka: CompletedFetch).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from client.msgpack.batch_openers import OFFSET_END, BatchOpener, RecordOpener
from protocol.aborted_transactions import AbortedTransactions
from protocol.legacy_batches import batches_any, verify_any
from protocol.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    read_header,
    verified_run,
)

END: Final = -1  # timestamps with a special meaning in ListOffsets
START: Final = -2
READ_UNCOMMITTED: Final = 0  # Kafka's IsolationLevel
READ_COMMITTED: Final = 1
FETCH_BYTES: Final = 4 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024


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


RECORDS: Final = RecordOpener()
_ENDS: Final = struct.Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta


def opened(
    raw: Any,
    position: int,
    aborted: Iterable[Mapping[str, int]] = (),
    opener: BatchOpener = RECORDS,
    end: int = OFFSET_END,
) -> Iterator[tuple[list[Any], BatchHeader]]:
    """Yield what `opener` makes of each raw batch, with the batch's header.

    By default these are its records. Those before offset `position` and from `end` on are left out,
    and so are those of `aborted`, the answer's `aborted_transactions`. Each batch's CRC is checked.
    An incomplete batch at the end is left to the next fetch.
    """
    left_out = AbortedTransactions((one["producer_id"], one["first_offset"]) for one in aborted)
    has_nothing = opener.has_nothing(raw)
    begin = 0
    if has_nothing and not aborted:
        for header in _plain_run(raw):
            begin += header.size
            if header.next_offset > position:
                position = header.next_offset
                yield [], header
    for start, header in batches_any(raw, begin):
        if header.next_offset <= position:
            continue
        verify_any(raw, start)
        found: list[Any] = []
        is_passed = has_nothing and not header.codec
        if not left_out.has(header) and not header.is_control and not is_passed:
            found = opener.opened(raw, start, position, end)
        position = header.next_offset
        yield found, header


def _plain_run(raw: bytes) -> Iterator[BatchHeader]:
    """Yield the headers of the batches at the start that are sound, dense and not compressed.

    Of a whole answer without what is looked for, the rest is the way of the others.
    """
    if len(raw) < HEADER_SIZE:
        return
    for header in verified_run(memoryview(raw), 0, read_header(raw).base_offset):
        if header.codec:
            return
        yield header


def end_of(raw: bytes) -> int | None:
    """Return the offset behind the last whole batch of an answer; None if there is none.

    Raises RecordError where the lengths are none of batches. Nothing else is checked.
    """
    found, position, size = None, 0, len(raw)
    while position + HEADER_SIZE <= size:
        base_offset, length, magic, delta = _ENDS.unpack_from(raw, position)
        after = position + LOG_OVERHEAD + length
        if magic != MAGIC or length < BATCH_LENGTH_MIN or after > size:
            break
        found, position = base_offset + delta + 1, after
    for _, header in batches_any(raw, position):  # old messages, or what is none
        found = header.next_offset
    return found
