"""Committed offsets by group, topic and partition.

A commit writes one record per offset. The coordinator answers an OffsetFetch only when the log is
durable, so no client sees an offset that a power cut could undo.

Offsets expire `offsets.retention.minutes` after their commit, or after their group became empty
(KIP-211). Offsets of a topic that a member reads do not expire. Old commit requests carry a
retention of their own; such an offset expires at the time computed when it was committed.

An offset that was committed for a topic id is not returned for another topic of the same name
(KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from broker.groups.group import Expiry, GroupRecord
from protocol.group_records import NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue
from protocol.wire import ZERO_UUID


class Committed(NamedTuple):
    """One committed offset; `expires_ms` is -1 if the broker's retention applies."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID

    def is_of(self, topic_id: bytes) -> bool:
        """Whether it belongs to the topic of that id; ZERO_UUID matches by name alone."""
        return ZERO_UUID in (topic_id, self.topic_id) or topic_id == self.topic_id

    def has_expired(self, expiry: Expiry, now_ms: int, retention_ms: int) -> bool:
        """Whether its retention is over."""
        if self.expires_ms != NO_TIMESTAMP:
            return now_ms >= self.expires_ms
        since_ms = self.committed_ms if expiry.since_ms is None else expiry.since_ms
        return now_ms - since_ms >= retention_ms


CommittedByPartition = dict[int, Committed]


class Offsets:
    """Offsets by group, topic and partition; `apply` is the only way in."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, CommittedByPartition]] = {}

    def topics(self, group_id: str) -> dict[str, CommittedByPartition]:
        """Return the committed offsets of a group by topic; empty if it has none."""
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """Return one committed offset."""
        return self.topics(group_id).get(topic, {}).get(partition)

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Apply a record; a tombstone removes the offset."""
        if value is None:
            self._remove(key)
            return
        self._groups.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = Committed(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )

    def _remove(self, key: OffsetCommitKey) -> None:
        topics = self._groups.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._groups.pop(key.group, None)

    def forget(self, group_id: str) -> None:
        """Drop the committed offsets of a group: its log is gone."""
        self._groups.pop(group_id, None)

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        """Return the records that remove all offsets of a group."""
        return [
            tombstone(group_id, topic, partition)
            for topic, partitions in self.topics(group_id).items()
            for partition in partitions
        ]

    def expired(
        self,
        group_id: str,
        expiry: Expiry,
        is_subscribed_to: Callable[[str], bool],
        now_ms: int,
        retention_ms: int,
    ) -> list[GroupRecord]:
        """Return the records that remove the expired offsets of a group."""
        return [
            tombstone(group_id, topic, partition)
            for topic, partitions in self.topics(group_id).items()
            if not is_subscribed_to(topic)
            for partition, committed in partitions.items()
            if committed.has_expired(expiry, now_ms, retention_ms)
        ]

    def take_topic(self, topic: str) -> list[tuple[str, CommittedByPartition]]:
        """Drop the offsets of a topic; return them by group."""
        taken = [
            (group_id, topics.pop(topic))
            for group_id, topics in self._groups.items()
            if topic in topics
        ]
        for group_id, _ in taken:
            if not self._groups[group_id]:
                del self._groups[group_id]
        return taken


def tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    """Return the record that removes one committed offset."""
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
