"""What the logs say of transactions when a broker starts, before clients are served.

Two facts of a log outlive a crash, whatever became of `__transaction_state`: data of a producer
that no marker has ended, and markers above the recovery point, which the opening of the log has
replayed. `gather` collects both by producer id; `broker.transactions.reconcile` judges by them.

A log that cannot be read is no evidence that nothing is open in it. So `seen` names the partitions
whose logs were looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from storage.log import Log

Place = tuple[str, int]  # a topic and a partition of it


class OpenPart(NamedTuple):
    """Data of a producer in one partition that no marker has ended."""

    place: Place
    epoch: int  # the producer's, in its last batch
    first_offset: int


class EndedPart(NamedTuple):
    """A marker that has ended a producer's data in one partition."""

    place: Place
    epoch: int  # the marker's
    closed_epoch: int  # that of the data
    is_commit: bool


@dataclass(slots=True)
class ProducerEvidence:
    """What the logs say of one producer id."""

    open: list[OpenPart] = field(default_factory=list)
    ended: list[EndedPart] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the logs say, by producer id; `seen` are the partitions whose logs were looked at."""

    producers: Mapping[int, ProducerEvidence]
    seen: frozenset[Place]

    def of(self, producer_id: int) -> ProducerEvidence:
        """Return what the logs say of a producer id: nothing, if they do not know it."""
        return self.producers.get(producer_id) or ProducerEvidence()

    def open_count(self, producer_id: int) -> int:
        """Return in how many partitions a producer has something open."""
        found = self.producers.get(producer_id)
        return 0 if found is None else len(found.open)

    def has_any(self, producer_ids: Iterable[int]) -> bool:
        """Whether the logs know one of these producer ids."""
        return any(producer_id in self.producers for producer_id in producer_ids)


def gather(logs: Iterable[Log]) -> Evidence:
    """Return what open logs say, before clients write to them.

    Takes the markers that were replayed. A log that has failed is not looked at: it may lack some.
    """
    producers: dict[int, ProducerEvidence] = defaultdict(ProducerEvidence)
    seen: set[Place] = set()
    for log in logs:
        if log.failed is not None:
            continue
        place = (log.topic, log.partition)
        seen.add(place)
        for one in log.open_transactions():
            part = OpenPart(place, one.producer_epoch, one.first_offset)
            producers[one.producer_id].open.append(part)
        for replayed in log.take_replayed_markers():
            if replayed.closed_epoch is not None:
                marker = replayed.marker
                producers[marker.producer_id].ended.append(
                    EndedPart(place, marker.producer_epoch, replayed.closed_epoch, marker.is_commit)
                )
    return Evidence(dict(producers), frozenset(seen))
