"""Removes the offsets of deleted topics: from memory at once, from the log in steps.

Many groups may have committed offsets for a topic. Its deletion must not hold the loop (I13), so
each turn writes some of the tombstones. If an offset is committed in the meantime for a new topic
of that name, its tombstone is left out. One that a transaction commits in the meantime would fall
to a tombstone that comes after it, so the tombstone is written first.

A crash may come before the tombstones are on the disk. So the load of a shard removes the offsets
of topics that do not exist, and those committed for another topic than the one that has the name
now: a topic that is created anew has none of them. (Kafka keeps them.) Offsets of transactions
have no topic id, as in Kafka, so the name alone tells for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from broker.groups.group import GroupRecord
from broker.groups.offsets import tombstone
from broker.groups.registry import Registry
from broker.groups.shard import Shard, ShardState
from broker.runtime import owners
from broker.runtime.owners import Owner
from protocol.wire import ZERO_UUID

# Work per turn of the loop. A unit is one tombstone, about 10 us.
TURN_UNITS: Final = 500
UNITS_PER_BATCH: Final = 10

Remove = Callable[[Registry, str, Sequence[GroupRecord]], object]


class Deleted(NamedTuple):
    """A deleted topic in one shard: the partitions without a tombstone, by group."""

    name: str
    registry: Registry
    left: dict[str, dict[int, None]]
    steps: Iterator[None]


class DeletedTopics:
    """Deleted topics whose offsets are not all removed from the log yet."""

    def __init__(self, remove: Remove, id_of_name: Callable[[str], bytes | None]) -> None:
        """`remove(registry, group_id, tombstones)` writes the tombstones.

        `id_of_name(name)`: the id of the topic that has the name, also if it is being deleted.
        """
        self._remove = remove
        self._id_of_name = id_of_name
        self._left: deque[Deleted] = deque()

    def forget(self, shard: Shard, name: str) -> None:
        """Remove the offsets of a topic from a shard, once the shard is loaded."""
        if shard.is_served:
            self._begin(shard, name, shard.registry.offsets.take_topic(name))
        elif shard.state is not ShardState.REFUSED:
            shard.deleted_topics.add(name)

    def loaded(self, shard: Shard) -> None:
        """Remove what was committed for topics that do not exist, or were deleted meanwhile."""
        read, shard.topic_ids = shard.topic_ids, {}
        gone, shard.deleted_topics = shard.deleted_topics, set()
        for name, ids in read.items():
            topic_id = self._id_of_name(name)
            if topic_id is None:
                gone.add(name)
            elif name not in gone and not ids <= {topic_id, ZERO_UUID}:
                self._begin(shard, name, shard.registry.offsets.take_others(name, topic_id))
        for name in sorted(gone):
            self.forget(shard, name)

    def finish_places(
        self, registry: Registry, group_id: str, places: Sequence[tuple[str, int]]
    ) -> None:
        """Write the remaining tombstones of these topics and partitions of a group."""
        for deleted in self._left:
            numbers = deleted.left.get(group_id)
            if numbers is None or deleted.registry is not registry:
                continue
            here = [one for name, one in places if name == deleted.name and one in numbers]
            for number in here:
                numbers.pop(number, None)
            if not numbers:
                del deleted.left[group_id]
            self._remove_places(deleted.registry, group_id, deleted.name, here)

    def finish(self) -> None:
        """Write all remaining tombstones: the broker stops."""
        while self._left:
            for _ in self._left.popleft().steps:
                pass

    def _go_on(self) -> None:
        if not self._left:
            return  # finished meanwhile
        is_done = True
        try:
            is_done = next(self._left[0].steps, self) is self
        finally:
            if is_done:
                self._left.popleft()
            if self._left:
                owners.soon(Owner.TOPIC_CHANGE, self._go_on)

    def _begin(self, shard: Shard, name: str, left: dict[str, dict[int, None]]) -> None:
        """Write tombstones for what has been taken from the memory of a shard."""
        registry = shard.registry
        steps = self._write(shard, registry, name, left)
        self._left.append(Deleted(name, registry, left, steps))
        if len(self._left) == 1:  # not now: a topic is forgotten in many shards in one turn
            owners.soon(Owner.TOPIC_CHANGE, self._go_on)

    def _write(
        self, shard: Shard, registry: Registry, name: str, left: dict[str, dict[int, None]]
    ) -> Iterator[None]:
        units = 0
        while left:
            if shard.registry is not registry:
                return  # not served any more
            group_id, numbers = next(iter(left.items()))
            piece = list(islice(numbers, TURN_UNITS))
            for number in piece:
                del numbers[number]
            if not numbers:
                del left[group_id]
            count = self._remove_places(registry, group_id, name, piece)
            units += UNITS_PER_BATCH + count
            if units >= TURN_UNITS:
                units = 0
                yield

    def _remove_places(
        self, registry: Registry, group_id: str, name: str, numbers: Sequence[int]
    ) -> int:
        """Write tombstones where no offset has been committed since; return how many."""
        piece = [
            tombstone(group_id, name, number)
            for number in numbers
            if registry.offsets.get(group_id, name, number) is None
        ]
        self._remove(registry, group_id, piece)
        return len(piece)
