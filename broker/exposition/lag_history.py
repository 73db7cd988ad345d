"""How far each group was behind, over the last quarter of an hour: a number each ten seconds.

Part of the broker's own history (`broker.exposition.history`), so a page that is opened shows it at
once. Of at most `GROUPS_MAX` groups `KEPT` numbers are kept, some 180 KB. A sample walks over all
committed offsets, `WALKED` at a time; without a request since the one before nothing has changed,
and it does not.

Of each partition that a group commits to, at most `PARTITIONS_MAX`, it also keeps `MARKS` pairs of
a time and the high watermark then, dense for the last minutes and sparse before. They tell about
when a record arrived, and so how long a group is behind, without reading any log.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from typing import Final

from broker.services import Services

STEP_S: Final = 10
KEPT: Final = 90
GROUPS_MAX: Final = 500
PARTITIONS_MAX: Final = 5_000
MARKS: Final = 16
WALKED: Final = 250  # offsets at a time, less than half a millisecond


class LagHistory:
    """The lags of groups, the oldest first."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lags: dict[str, array[float]] = {}
        self._marks: dict[tuple[str, int], Marks] = {}
        self._walked_at = -1  # the number of requests at the last walk
        self.last_ms = 0  # when the newest numbers were taken

    def of(self, group_id: str) -> list[float]:
        """Return the lags of a group, the oldest first; none if it has no history."""
        return list(self._lags.get(group_id, ()))

    def behind_ms(self, topic: str, number: int, offset: int, now_ms: int) -> int | None:
        """Return about how long ago the record at an offset arrived; None if that is not known."""
        marks = self._marks.get((topic, number))
        if marks is None:
            return None
        partition = self._services.partitions.get(topic, number)
        return marks.age_ms(offset, partition.log.high_watermark, now_ms)

    async def sample(self) -> None:
        """Take one number of each group."""
        if not self._services.has_groups:
            return
        requests = self._services.metrics.requests_received
        if requests != self._walked_at:
            self._walked_at = requests
            await self._walk()
        else:
            for lags in self._lags.values():
                _add(lags, lags[-1])
        self.last_ms = self._services.clock.now_ms()

    async def _walk(self) -> None:
        found: dict[str, array[float]] = {}
        marked: dict[tuple[str, int], Marks] = {}
        before, now_ms = self._lags, self._services.clock.now_ms()
        count = 0
        for registry in tuple(self._services.groups.registries()):
            for group_id in tuple(registry.offsets.group_ids()):
                if len(found) >= GROUPS_MAX:
                    break
                lag = 0
                for topic, offsets in tuple(registry.offsets.topics(group_id).items()):
                    for number, committed in dict(offsets).items():
                        count += 1
                        if not count % WALKED:
                            await asyncio.sleep(0)
                        end = self._end(topic, number)
                        if end is None:
                            continue
                        lag += max(0, end - committed.offset)
                        place = (topic, number)
                        if place not in marked and len(marked) < PARTITIONS_MAX:
                            marked[place] = self._marks.get(place) or Marks()
                            marked[place].add(end, now_ms)
                lags = found[group_id] = before.get(group_id, array("d"))
                _add(lags, lag)
        self._lags, self._marks = found, marked

    def _end(self, topic: str, number: int) -> int | None:
        partitions = self._services.partitions
        if not partitions.has(topic, number):
            return None
        return partitions.get(topic, number).log.high_watermark


class Marks:
    """Where the high watermark of one partition was, and when."""

    __slots__ = ("_ends", "_times")

    def __init__(self) -> None:
        self._ends = array("q")
        self._times = array("q")

    def add(self, end: int, now_ms: int) -> None:
        """Note where it is now."""
        ends, times = self._ends, self._times
        if len(ends) > 1 and ends[-1] == ends[-2] == end:
            times[-1] = now_ms  # nothing has come: when that began, and until when it was so
            return
        if ends and end < ends[-1]:  # the topic was made anew
            del ends[:], times[:]
        ends.append(end)
        times.append(now_ms)
        if len(ends) > MARKS:
            del ends[1 : MARKS // 2 : 2], times[1 : MARKS // 2 : 2]

    def age_ms(self, offset: int, end: int, now_ms: int) -> int:
        """Return about how long ago a record arrived: between the marks around it, in proportion.

        One that is older than the first mark is at least as old as that.
        """
        if offset >= end:
            return 0
        after = bisect_right(self._ends, offset)  # the first mark that is behind the record
        if not after:
            return max(0, now_ms - self._times[0])
        low, begun = self._ends[after - 1], self._times[after - 1]
        is_marked = after < len(self._ends)
        high, ended = (self._ends[after], self._times[after]) if is_marked else (end, now_ms)
        arrived = begun + (ended - begun) * (offset - low) // max(1, high - low)
        return max(0, now_ms - arrived)


def _add(lags: array[float], lag: float) -> None:
    lags.append(lag)
    if len(lags) > KEPT:
        del lags[0]
