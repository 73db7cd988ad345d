"""What a transactional producer's requests carry: its epoch, a group's member, a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from client.places import Place
from protocol.records import Record


class Epoch(NamedTuple):
    """A transactional id with the producer id and epoch that it has now."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class GroupMetadata(NamedTuple):
    """The member that commits offsets, as its consumer knows it.

    Without a member id and a generation the broker checks no membership.
    """

    group_id: str
    member_id: str = ""
    generation_id: int = -1
    instance_id: str | None = None


@dataclass(slots=True)
class PartitionBatch:
    """Records for a partition; `packed` and `base_sequence` are set before the first attempt."""

    place: Place
    records: list[Record]
    base_sequence: int = -1
    packed: bytes = b""
