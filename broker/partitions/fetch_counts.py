"""What is counted of a fetch in the rare cases: failed partitions, and readings that are repeated.

A reading counts the bytes of records where it finds them, one addition a partition. If it must read
again, since something was not in memory or does not fit its log, it takes its bytes back first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.partitions.fetch_asked import ResolvedTopics
from broker.partitions.partition import Partition
from broker.runtime.traffic import Traffic
from protocol.api_keys import ApiKey
from protocol.messages.fetch import FetchResponse
from storage.log import Log
from storage.segments.log_file import LogSlice


class Unloaded(Protocol):
    """Records that were found and not loaded yet."""

    @property
    def log(self) -> Log:
        """Return the log that has them."""
        ...

    @property
    def piece(self) -> LogSlice:
        """Return where they are."""
        ...


def count_failures(topics: ResolvedTopics, response: FetchResponse, traffic: Traffic) -> None:
    """Count the partitions of a final answer that have an error."""
    for (_, partitions), answered in zip(topics, response.responses, strict=True):
        for (_, found), data in zip(partitions, answered.partitions, strict=True):
            if not data.error_code:
                continue
            traffic.errors[int(ApiKey.FETCH), int(data.error_code)] += 1
            traffic.failed_fetches += 1
            if isinstance(found, Partition):
                traffic.topic(found.log.topic).failed_fetches += 1


def take_back(
    topics: ResolvedTopics, response: FetchResponse, unloaded: Sequence[Unloaded] = ()
) -> None:
    """Do not count what a reading has read, since it reads again."""
    for (_, partitions), answered in zip(topics, response.responses, strict=True):
        for (_, found), data in zip(partitions, answered.partitions, strict=True):
            if isinstance(found, Partition) and data.records:
                found.log.read_bytes -= len(data.records)
    for cold in unloaded:
        cold.log.read_bytes -= cold.piece.size
