"""The result of an append, and the check of a batch's timestamps."""

from __future__ import annotations

from typing import NamedTuple

from protocol.record_batch import BatchHeader
from storage.errors import InvalidTimestamp

NO_TIMESTAMP = -1


class Appended(NamedTuple):
    """Where a batch is in the log; for a duplicate, where the original is."""

    base_offset: int
    last_offset: int
    append_time_ms: int  # -1 with CreateTime, except for a duplicate, as in Kafka
    start_offset: int
    is_duplicate: bool


def check_timestamps(
    header: BatchHeader, now_ms: int, before_max_ms: int, after_max_ms: int
) -> None:
    """Check the batch's first and largest timestamp against the topic's bounds (KIP-937).

    Kafka's LogValidator checks each record; here the records stay closed. A batch without
    timestamps (-1) is accepted. All values in ms. Raises InvalidTimestamp.
    """
    earliest, latest = now_ms - before_max_ms, now_ms + after_max_ms
    for timestamp in (header.max_timestamp, header.base_timestamp):
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            raise InvalidTimestamp(timestamp, earliest, latest)
