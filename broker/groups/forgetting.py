"""The offsets of deleted topics: out of memory at once, out of the log in steps.

However many groups had committed for a topic, its deletion keeps the loop from nobody (I13): the
tombstones follow, some a turn. An offset that is committed meanwhile, for another topic of that
name, has a record of its own, and gets no tombstone behind it.
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

# What a turn of the loop takes on of offsets that go: a unit is one tombstone, 10 us or so.
TURN_UNITS: Final = 500
UNITS_PER_BATCH: Final = 10

Remove = Callable[[Registry, str, Sequence[GroupRecord]], object]


class DeletedTopics:
    """Deleted topics some of whose offsets are still in the log."""

    def __init__(self, remove: Remove) -> None:
        """`remove(registry, group_id, tombstones)` writes."""
        self._remove = remove
        self._left: deque[Iterator[None]] = deque()

    def forget(self, shard: Shard, name: str) -> None:
        """Remove the offsets of a topic; from a shard that is not loaded yet, once it is."""
        if shard.is_served:
            self._left.append(self._steps(shard, name))
            if len(self._left) == 1:
                self._go_on()
        elif shard.state is not ShardState.REFUSED:
            shard.deleted_topics.add(name)

    def loaded(self, shard: Shard) -> None:
        """Remove the offsets of topics that were deleted before a shard was served."""
        for name in sorted(shard.deleted_topics):
            self.forget(shard, name)
        shard.deleted_topics.clear()

    def finish(self) -> None:
        """Write all that is left: the broker stops."""
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
