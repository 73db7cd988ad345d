"""Removes the offsets of deleted topics: from memory at once, from the log in steps.

Many groups may have committed offsets for a topic. Its deletion must not hold the loop (I13), so
each turn writes some of the tombstones. If an offset is committed in the meantime for a new topic
of that name, its tombstone is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from broker.groups.group import GroupRecord
from broker.groups.offsets import tombstone
from broker.groups.registry import Registry
from broker.groups.shard import Shard, ShardState
from broker.runtime import owners
from broker.runtime.owners import Owner

# Work per turn of the loop. A unit is one tombstone, about 10 us.
TURN_UNITS: Final = 500
UNITS_PER_BATCH: Final = 10

Remove = Callable[[Registry, str, Sequence[GroupRecord]], object]


class DeletedTopics:
    """Deleted topics whose offsets are not all removed from the log yet."""

    def __init__(self, remove: Remove) -> None:
        """`remove(registry, group_id, tombstones)` writes the tombstones."""
        self._remove = remove
        self._left: deque[Iterator[None]] = deque()

    def forget(self, shard: Shard, name: str) -> None:
        """Remove the offsets of a topic from a shard, once the shard is loaded."""
        if shard.is_served:
            self._left.append(self._steps(shard, name))
            if len(self._left) == 1:
                self._go_on()
        elif shard.state is not ShardState.REFUSED:
            shard.deleted_topics.add(name)

    def loaded(self, shard: Shard) -> None:
        """Remove the offsets of topics that were deleted while the shard was loading."""
        for name in sorted(shard.deleted_topics):
            self.forget(shard, name)
        shard.deleted_topics.clear()

    def finish(self) -> None:
        """Write all remaining tombstones: the broker stops."""
        while self._left:
            for _ in self._left.popleft():
                pass

    def _go_on(self) -> None:
        if not self._left:
            return  # finished meanwhile
        is_done = True
        try:
            is_done = next(self._left[0], self) is self
        finally:
            if is_done:
                self._left.popleft()
            if self._left:
                owners.soon(Owner.TOPIC_CHANGE, self._go_on)

    def _steps(self, shard: Shard, name: str) -> Iterator[None]:
        registry = shard.registry
        taken = registry.offsets.take_topic(name)
        return self._write(shard, registry, name, [(group, list(of)) for group, of in taken])

    def _write(
        self, shard: Shard, registry: Registry, name: str, taken: Sequence[tuple[str, list[int]]]
    ) -> Iterator[None]:
        units = 0
        for group_id, numbers in taken:
            for start in range(0, len(numbers), TURN_UNITS):
                if shard.registry is not registry:
                    return  # not served any more
                piece = [
                    tombstone(group_id, name, number)
                    for number in numbers[start : start + TURN_UNITS]
                    if registry.offsets.get(group_id, name, number) is None
                ]
                self._remove(registry, group_id, piece)
                units += UNITS_PER_BATCH + len(piece)
                if units >= TURN_UNITS:
                    units = 0
                    yield
