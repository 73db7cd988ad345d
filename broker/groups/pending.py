"""Offsets of open transactions: written to the log, and not committed yet (KIP-98, KIP-447).

    TxnOffsetCommit ── pending ──┬── commit marker: committed, unless the log has a later commit
                                 ├── abort marker: dropped
                                 └── tombstone of the offset: dropped, whatever the marker says

The same steps are taken when a request arrives and when the log is loaded, so a restart changes
nothing. A consumer that asks for stable offsets (`require_stable`) waits while one is pending.

Offsets are kept by producer, since a marker ends all that a producer has in one partition of
`__consumer_offsets`. Few producers have a transaction open in one group, so what asks for a place
looks at each of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.groups.committed import Committed, CommittedByTopic
from storage.files.filenames import OFFSET_MAX

Place = tuple[str, int]  # topic and partition


class PendingOffsets:
    """Offsets of the open transactions of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._of: dict[int, dict[str, CommittedByTopic]] = {}  # by producer id and group
        self._producers: dict[str, set[int]] = {}  # by group: those with pending offsets
        self._first: dict[int, int] = {}  # by producer id: the offset of the first record

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction may still commit an offset of this partition."""
        return any(
            partition in self._of[producer_id][group_id].get(topic, ())
            for producer_id in self._producers.get(group_id, ())
        )

    def has_group(self, group_id: str) -> bool:
        """Whether a transaction may still commit an offset of this group."""
        return group_id in self._producers

    def places(self, group_id: str) -> Iterator[Place]:
        """Yield the pending places of a group; one of several producers comes several times."""
        for producer_id in sorted(self._producers.get(group_id, ())):
            for topic, partitions in self._of[producer_id][group_id].items():
                for partition in partitions:
                    yield topic, partition

    def producers(self) -> Mapping[int, Mapping[str, CommittedByTopic]]:
        """Return everything that is pending, by producer id and group; not to be changed."""
        return self._of

    def add(
        self, producer_id: int, group_id: str, topic: str, partition: int, committed: Committed
    ) -> None:
        """Add an offset; a later one of the same transaction replaces an earlier one."""
        topics = self._of.setdefault(producer_id, {}).setdefault(group_id, {})
        topics.setdefault(topic, {})[partition] = committed
        self._producers.setdefault(group_id, set()).add(producer_id)
        self._first.setdefault(producer_id, committed.record_offset)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Drop the offsets of one partition: it was deleted."""
        for producer_id in list(self._producers.get(group_id, ())):
            partitions = self._of[producer_id][group_id].get(topic)
            if partitions is not None and partitions.pop(partition, None) is not None:
                self._tidy(producer_id, group_id, topic)

    def take(
        self, producer_id: int, marker_offset: int = OFFSET_MAX
    ) -> dict[str, CommittedByTopic]:
        """Drop and return the offsets of a producer, by group: a marker has ended its transaction.

        A transaction that began behind the marker goes on.
        """
        if self._first.get(producer_id, OFFSET_MAX) >= marker_offset:
            return {}
        groups = self._of.pop(producer_id, {})
        self._first.pop(producer_id, None)
        for group_id in groups:
            self._forget(producer_id, group_id)
        return groups

    def take_topic(self, topic: str) -> list[tuple[str, list[int]]]:
        """Drop the offsets of a topic; return their partitions by group."""
        taken = []
        for producer_id, groups in list(self._of.items()):
            for group_id in [group_id for group_id, topics in groups.items() if topic in topics]:
                partitions = groups[group_id][topic]
                taken.append((group_id, list(partitions)))
                partitions.clear()
                self._tidy(producer_id, group_id, topic)
        return taken

    def _tidy(self, producer_id: int, group_id: str, topic: str) -> None:
        """Remove what is empty around a topic."""
        groups = self._of[producer_id]
        topics = groups[group_id]
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del groups[group_id]
            self._forget(producer_id, group_id)
        if not groups:
            del self._of[producer_id], self._first[producer_id]

    def _forget(self, producer_id: int, group_id: str) -> None:
        producers = self._producers[group_id]
        producers.discard(producer_id)
        if not producers:
            del self._producers[group_id]
