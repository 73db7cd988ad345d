"""Committed offsets by group, topic and partition.

A commit writes one record per offset. The coordinator answers an OffsetFetch only when the log is
durable, so no client sees an offset that a power cut could undo.

Offsets expire `offsets.retention.minutes` after their commit, or after their group became empty
(KIP-211). Offsets of a topic that a member reads do not expire. Old commit requests carry a
retention of their own; such an offset expires at the time computed when it was committed.

An offset that was committed for a topic id is not returned for another topic of the same name
(KIP-848).

Offsets of open transactions are beside them (broker/groups/pending.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from broker.groups.committed import Committed, CommittedByTopic
from broker.groups.group import Expiry, GroupRecord
from broker.groups.pending import PendingOffsets, Place
from protocol.group_records import OffsetCommitKey, OffsetCommitValue
from storage.files.filenames import OFFSET_MAX


class Offsets:
    """Offsets by group, topic and partition; `apply` and its siblings are the only way in."""

    def __init__(self) -> None:
        self._groups: dict[str, CommittedByTopic] = {}
        self.pending = PendingOffsets()

    def topics(self, group_id: str) -> CommittedByTopic:
        """Return the committed offsets of a group by topic; empty if it has none."""
        return self._groups.get(group_id, {})

    def group_ids(self) -> Collection[str]:
        """Return the groups that have committed offsets."""
        return self._groups.keys()

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """Return one committed offset."""
        return self.topics(group_id).get(topic, {}).get(partition)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is an offset, committed or pending."""
        is_committed = self.get(group_id, topic, partition) is not None
        return is_committed or self.pending.has(group_id, topic, partition)

    def has_group(self, group_id: str) -> bool:
        """Whether a group has an offset, committed or pending."""
        return group_id in self._groups or self.pending.has_group(group_id)

    def apply(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int
    ) -> None:
        """Apply the record at `record_offset`; a tombstone removes the offset, and pending ones."""
        if value is None:
            self._remove(key)
            self.pending.remove(key.group, key.topic, key.partition)
            return
        committed = Committed.from_record(value, record_offset)
        topics = self._groups.setdefault(key.group, {})
        topics.setdefault(key.topic, {})[key.partition] = committed

    def apply_pending(
        self,
        key: OffsetCommitKey,
        value: OffsetCommitValue | None,
        record_offset: int,
        producer_id: int,
    ) -> None:
        """Apply a record of a transaction; as in Kafka, a tombstone does not wait for its end."""
        if value is None:
            self.apply(key, None, record_offset)
            return
        committed = Committed.from_record(value, record_offset)
        self.pending.add(producer_id, key.group, key.topic, key.partition, committed)

    def end_transaction(
        self, producer_id: int, *, is_commit: bool, marker_offset: int = OFFSET_MAX
    ) -> Collection[str]:
        """Commit or drop the offsets of a producer that are pending before a marker of it.

        Returns their groups. A committed offset that comes later in the log stays.
        """
        taken = self.pending.take(producer_id, marker_offset)
        if is_commit:
            for group_id, topics in taken.items():
                _merge(self._groups.setdefault(group_id, topics), topics)
        return taken.keys()

    def _remove(self, key: OffsetCommitKey) -> None:
        topics = self._groups.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._groups.pop(key.group, None)

    def places(self, group_id: str) -> Iterator[Place]:
        """Return where a group has committed offsets now; they may change while it is read."""
        found = [(topic, list(numbers)) for topic, numbers in self.topics(group_id).items()]
        return ((topic, number) for topic, numbers in found for number in numbers)

    def tombstones(self, group_id: str) -> Iterator[GroupRecord]:
        """Yield the records that remove all offsets of a group, also pending ones.

        To be read on only while the offsets are unchanged.
        """
        for topic, partitions in self.topics(group_id).items():
            for partition in partitions:
                yield tombstone(group_id, topic, partition)
        for topic, partition in self.pending.places(group_id):
            if self.get(group_id, topic, partition) is None:
                yield tombstone(group_id, topic, partition)

    def expired(
        self,
        group_id: str,
        places: Sequence[Place],
        expiry: Expiry,
        is_subscribed_to: Callable[[str], bool],
        now_ms: int,
        retention_ms: int,
    ) -> list[GroupRecord]:
        """Return the records that remove those of a group's offsets that have expired.

        One stays while another is pending for its partition: its tombstone would drop that, too.
        """
        read = {topic: is_subscribed_to(topic) for topic in dict(places)}
        return [
            tombstone(group_id, topic, partition)
            for topic, partition in places
            if not read[topic]
            and (committed := self.get(group_id, topic, partition)) is not None
            and committed.has_expired(expiry, now_ms, retention_ms)
            and not self.pending.has(group_id, topic, partition)
        ]

    def take_topic(self, topic: str) -> dict[str, dict[int, None]]:
        """Drop the offsets of a topic, also pending ones; return their partitions by group."""
        taken = {
            group_id: dict.fromkeys(topics.pop(topic))
            for group_id, topics in self._groups.items()
            if topic in topics
        }
        for group_id in taken:
            if not self._groups[group_id]:
                del self._groups[group_id]
        for group_id, partitions in self.pending.take_topic(topic):
            taken.setdefault(group_id, {}).update(dict.fromkeys(partitions))
        return taken

    def take_others(self, topic: str, topic_id: bytes) -> dict[str, dict[int, None]]:
        """Drop the offsets that name another id for `topic`; return as `take_topic`."""
        taken: dict[str, dict[int, None]] = {}
        for group_id in list(self._groups):
            partitions = self._groups[group_id].get(topic, {})
            others = [number for number, one in partitions.items() if not one.is_of(topic_id)]
            for number in others:
                self._remove(OffsetCommitKey(group=group_id, topic=topic, partition=number))
            if others:
                taken[group_id] = dict.fromkeys(others)
        return taken


def _merge(known: CommittedByTopic, ended: CommittedByTopic) -> None:
    """Add the offsets of a committed transaction, where no later record has one."""
    if known is ended:  # the group had none
        return
    for topic, partitions in ended.items():
        here = known.setdefault(topic, partitions)
        if here is not partitions:
            for partition, committed in partitions.items():
                before = here.get(partition)
                if before is None or before.record_offset < committed.record_offset:
                    here[partition] = committed


def tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    """Return the record that removes one committed offset."""
    return OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
