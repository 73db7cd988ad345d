"""One committed offset, as a record of `__consumer_offsets` tells it."""

from __future__ import annotations

from typing import NamedTuple

from broker.groups.group import Expiry
from protocol.group_records import NO_TIMESTAMP, OffsetCommitValue
from protocol.wire import ZERO_UUID

NO_RECORD = -1


class Committed(NamedTuple):
    """One committed offset; `expires_ms` is -1 if the broker's retention applies.

    `record_offset` is where its record is in the log of the group. The record that comes last wins.
    """

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID
    record_offset: int = NO_RECORD

    @classmethod
    def from_record(cls, value: OffsetCommitValue, record_offset: int) -> Committed:
        """Return the offset that the record at `record_offset` commits."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

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
CommittedByTopic = dict[str, CommittedByPartition]
