"""The server-side assignors of KIP-848, `uniform` and `range`: which member owns which partition.

An assignor is a pure function of the members' subscriptions, their present targets, and the number
of partitions of each topic. It returns a target for every member.
`broker.groups.consumer.reconciliation` moves the members there.

- `uniform` balances the number of partitions as evenly as subscriptions allow, and moves as few as
  it can. As in Kafka, it does not consider which topics they belong to.
- `range` works topic by topic: each subscriber gets the next run of partitions, in order, and the
  first ones get one more if the division leaves a rest. So the same partition numbers of topics
  with equal subscribers and partition counts meet at one member, which joins need. Previous
  ownership does not matter.

Static members come first, by instance id, so one keeps its place when it returns with another
member id; then the others, by member id. Racks are ignored: there is one broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

PartitionsByTopic = Mapping[bytes, frozenset[int]]  # topic id -> partition numbers


def partitions_by_topic(named: Iterable[tuple[bytes, Iterable[int]]]) -> PartitionsByTopic:
    """Return partitions by topic id. A client may name a topic more than once."""
    found: dict[bytes, frozenset[int]] = {}
    for topic_id, numbers in named:
        found[topic_id] = found.get(topic_id, frozenset()).union(numbers)
    return found


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as an assignor sees it; `owned` is its present target."""

    instance_id: str | None
    topic_ids: frozenset[bytes]
    owned: PartitionsByTopic


Assignor = Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], dict[str, PartitionsByTopic]]


def assign_range(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
) -> dict[str, PartitionsByTopic]:
    """Assign each subscriber of a topic the next run of its partitions."""
    target: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in subscribers}
    for topic_id, member_ids in _by_topic(subscribers, partition_counts).items():
        each, left = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            end = start + each + (place < left)
            if end > start:
                target[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(target)


def assign_uniform(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
) -> dict[str, PartitionsByTopic]:
    """Spread partitions evenly over the members, with as few moves as possible.

    Members keep their partitions, and unowned partitions go to the subscriber with the fewest. Then
    partitions move from members with many to subscribers with at least two fewer. If members
    subscribe to different topics, a more even spread may exist: the search does not try chains of
    moves of which no single one helps.
    """
    eligible = _by_topic(subscribers, partition_counts)
    spread = _Spread(subscribers, eligible)
    for member_id in _in_order(subscribers):
        owned = subscribers[member_id].owned
        for topic_id in _common(owned.keys() & subscribers[member_id].topic_ids, partition_counts):
            for partition in sorted(owned[topic_id]):
                if partition < partition_counts[topic_id]:
                    spread.keep(member_id, (topic_id, partition))
    # Topics with few subscribers first: the others can balance what these leave uneven.
    for topic_id in sorted(eligible, key=lambda topic_id: (len(eligible[topic_id]), topic_id)):
        spread.place(topic_id, partition_counts[topic_id])
    spread.even_out()
    return spread.targets()


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _in_order(subscribers: Mapping[str, Subscriber]) -> list[str]:
    return sorted(
        subscribers,
        key=lambda member_id: _place_of(subscribers[member_id].instance_id, member_id),
    )


def _place_of(instance_id: str | None, member_id: str) -> tuple[bool, str]:
    return (True, member_id) if instance_id is None else (False, instance_id)


def _common(topic_ids: AbstractSet[bytes], partition_counts: Mapping[bytes, int]) -> list[bytes]:
    """Return those of the topics that exist, in one order in every process."""
    return sorted(topic_ids & partition_counts.keys())


def _by_topic(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
) -> dict[bytes, list[str]]:
    """Return the subscribers of each existing topic, in order."""
    by_topic: dict[bytes, list[str]] = {}
    for member_id in _in_order(subscribers):
        for topic_id in _common(subscribers[member_id].topic_ids, partition_counts):
            by_topic.setdefault(topic_id, []).append(member_id)
    return by_topic


class _Poorest:
    """For each topic, the subscriber with the fewest partitions; the first in order of equals.

    Topics with the same subscribers share a heap; nearly always there is only one. A change pushes
    a new entry, and outdated entries are dropped when they reach the top.
    """

    def __init__(
        self,
        eligible: Mapping[bytes, list[str]],
        owned: Mapping[str, Mapping[tuple[bytes, int], None]],
    ) -> None:
        self._owned = owned
        heaps: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
        self._heap_of: dict[bytes, list[tuple[int, int, str]]] = {}
        self._places: dict[str, list[tuple[list[tuple[int, int, str]], int]]] = {}
        for topic_id, member_ids in eligible.items():
            key = tuple(member_ids)
            heap = heaps.get(key)
            if heap is None:
                heap = [(len(owned[one]), place, one) for place, one in enumerate(member_ids)]
                heapify(heap)
                heaps[key] = heap
                for place, member_id in enumerate(member_ids):
                    self._places.setdefault(member_id, []).append((heap, place))
            self._heap_of[topic_id] = heap

    def of(self, topic_id: bytes) -> str:
        """Return the subscriber of a topic with the fewest partitions."""
        heap = self._heap_of[topic_id]
        while True:
            count, _, member_id = heap[0]
            if len(self._owned[member_id]) == count:
                return member_id
            heappop(heap)

    def changed(self, member_id: str) -> None:
        """Note that a member's number of partitions has changed."""
        count = len(self._owned[member_id])
        for heap, place in self._places[member_id]:
            heappush(heap, (count, place, member_id))


class _Spread:
    """An assignment in progress: the owned partitions, and the subscribers that may own them."""

    def __init__(
        self, subscribers: Mapping[str, Subscriber], eligible: Mapping[bytes, list[str]]
    ) -> None:
        self._eligible = eligible
        self._owned: dict[str, dict[tuple[bytes, int], None]] = {
            member_id: {} for member_id in subscribers
        }
        self._taken: set[tuple[bytes, int]] = set()

    def keep(self, member_id: str, partition: tuple[bytes, int]) -> None:
        """Assign `partition` to a member, unless another member has it."""
        if partition not in self._taken:
            self._taken.add(partition)
            self._owned[member_id][partition] = None

    def place(self, topic_id: bytes, partition_count: int) -> None:
        """Assign each unowned partition of a topic to the subscriber with the fewest."""
        poorest = [
            (self._count(member_id), place, member_id)
            for place, member_id in enumerate(self._eligible[topic_id])
        ]
        heapify(poorest)
        for partition in range(partition_count):
            if (topic_id, partition) not in self._taken:
                count, place, member_id = poorest[0]
                self.keep(member_id, (topic_id, partition))
                heapreplace(poorest, (count + 1, place, member_id))

    def even_out(self) -> None:
        """Move partitions from the largest member first, until no move makes two more equal.

        Every move lowers the sum of the squares of the members' counts, so it terminates.
        """
        poorest = _Poorest(self._eligible, self._owned)
        moved = True
        while moved:
            moved = False
            richest = [(-self._count(member_id), member_id) for member_id in self._owned]
            heapify(richest)
            while richest:
                _, giver = richest[0]
                if self._give_one(giver, poorest):
                    heapreplace(richest, (-self._count(giver), giver))
                    moved = True
                else:
                    heappop(richest)

    def targets(self) -> dict[str, PartitionsByTopic]:
        """Return each member's partitions by topic."""
        targets: dict[str, PartitionsByTopic] = {}
        for member_id, owned in self._owned.items():
            by_topic: dict[bytes, set[int]] = {}
            for topic_id, partition in owned:
                by_topic.setdefault(topic_id, set()).add(partition)
            targets[member_id] = {
                topic_id: frozenset(numbers) for topic_id, numbers in by_topic.items()
            }
        return targets

    def _give_one(self, giver: str, poorest: _Poorest) -> bool:
        """Move one partition to a subscriber with at least two fewer; return whether one moved."""
        owned = self._owned[giver]
        seen: set[bytes] = set()
        for partition in reversed(owned):  # the last one assigned moves first
            topic_id, _ = partition
            if topic_id in seen:
                continue
            seen.add(topic_id)
            taker = poorest.of(topic_id)
            if len(owned) - self._count(taker) >= 2:
                del owned[partition]
                self._owned[taker][partition] = None
                poorest.changed(giver)
                poorest.changed(taker)
                return True
        return False

    def _count(self, member_id: str) -> int:
        return len(self._owned[member_id])
