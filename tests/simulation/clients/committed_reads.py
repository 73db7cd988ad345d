"""Reading committed records, as a client does: batches of aborted transactions are passed over.

The answer to a fetch names the aborted transactions whose records it may hold, each with its
producer and first offset. From there to its marker of an abort, the producer's transactional
batches do not count.

Source: CompletedFetch.nextFetchedRecord in Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.control_records import read_marker
from protocol.record_batch import read_header
from tests.simulation.clients.served import seen_batch


def committed_in(data: Any, aborted: Iterable[Any], position: int) -> list[tuple[int, bytes]]:
    """Return offset and value of the committed records from `position` on, of whole batches."""
    view, at = memoryview(bytes(data or b"")), 0
    waiting = sorted(((one.first_offset, one.producer_id) for one in aborted), reverse=True)
    passed_over: set[int] = set()
    found: list[tuple[int, bytes]] = []
    while at < len(view):
        header = read_header(view, at)
        batch = view[at : at + header.size]
        at += header.size
        while waiting and waiting[-1][0] <= header.last_offset:
            passed_over.add(waiting.pop()[1])
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.is_commit:
                passed_over.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in passed_over):
            found += [one for one in seen_batch(batch).records if one[0] >= position]
    return found
