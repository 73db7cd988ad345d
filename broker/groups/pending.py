"""Offsets of open transactions: written to the log, and not committed yet (KIP-98, KIP-447).

    TxnOffsetCommit ── pending ──┬── commit marker: committed, unless the log has a later commit
                                 ├── abort marker: dropped
                                 └── tombstone of the offset: dropped, whatever the marker says

The same steps are taken when a request arrives and when the log is loaded, so a restart changes
nothing. A consumer that asks for stable offsets (`require_stable`) waits while one is pending.

Offsets are kept by producer, since a marker ends all that a producer has in one partition of
`__consumer_offsets`. A group may have a producer for each of its partitions, so what asks for a
place must not look at all producers: `_at` says which have been there. A marker does not look for
the places that it frees, since there may be many: who asks for a place finds out, and tidies up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from broker.groups.committed import Committed, CommittedByTopic
from storage.files.filenames import OFFSET_MAX

LOOKED_AT: Final = 2  # producers of a place for each one that comes: more than one leaves

Place = tuple[str, int]  # topic and partition


class PendingOffsets:
    """Offsets of the open transactions of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._of: dict[int, dict[str, CommittedByTopic]] = {}  # by producer id and group
        self._producers: dict[str, set[int]] = {}  # by group: those with pending offsets
        # By group and place: producers, of which some may have no pending offset there any more.
        self._at: dict[str, dict[Place, dict[int, None]]] = {}
        self._first: dict[int, int] = {}  # by producer id: the offset of the first record

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction may still commit an offset of this partition."""
        at = self._at.get(group_id)
        return at is not None and self._is_pending(at, group_id, (topic, partition))

    def _is_pending(self, at: dict[Place, dict[int, None]], group_id: str, place: Place) -> bool:
        producers = at.get(place)
        if producers is None:
            return False
        for producer_id in list(producers):
            if self._has_of(producer_id, group_id, place):
                return True
            del producers[producer_id]
        del at[place]
        return False

    def _has_of(self, producer_id: int, group_id: str, place: Place) -> bool:
        topic, partition = place
        groups = self._of.get(producer_id)
        topics = None if groups is None else groups.get(group_id)
        return topics is not None and partition in topics.get(topic, ())

    def has_group(self, group_id: str) -> bool:
        """Whether a transaction may still commit an offset of this group."""
        return group_id in self._producers

    def places(self, group_id: str) -> Iterator[Place]:
        """Yield the pending places of a group."""
        at = self._at.get(group_id, {})
        for place in list(at):
            if self._is_pending(at, group_id, place):
                yield place

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
        self._note(producer_id, group_id, (topic, partition))
        self._first.setdefault(producer_id, committed.record_offset)

    def _note(self, producer_id: int, group_id: str, place: Place) -> None:
        """Note that a producer is at a place, and forget some that are there no more.

        Those that are still there come last, so all have their turn to be looked at.
        """
        producers = self._at.setdefault(group_id, {}).setdefault(place, {})
        if producer_id not in producers:
            for one in list(islice(producers, LOOKED_AT)):
                del producers[one]
                if self._has_of(one, group_id, place):
                    producers[one] = None
            producers[producer_id] = None

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Drop the offsets of one partition: it was deleted."""
        place = topic, partition
        for producer_id in self._at.get(group_id, {}).pop(place, ()):
            if self._has_of(producer_id, group_id, place):
                del self._of[producer_id][group_id][topic][partition]
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
                for partition in partitions:
                    self._at[group_id].pop((topic, partition), None)
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
            del self._producers[group_id], self._at[group_id]
