"""Full collections of garbage, at times when they are short.

A full collection walks over every object that is old, and nothing else runs meanwhile: some 0.1 us
each. One request may name 100,000 things, and is a million objects until it is answered. Python
then makes one full collection after the other, of 30 to 300 ms, just while those objects live.

So the process makes none by itself (`broker.lifecycle.process`). This duty makes them, by the same
rule: if there is a quarter more than the last one has left. But with more than `QUICK_BLOCKS` it
waits up to `PUT_OFF_MAX` turns for it to become less, as what a request names does. `GROWN_MAX`
more are not waited for: they may be garbage.

To count objects takes nearly half as long as to collect them. So blocks of memory are counted, of
which some 0.4 are objects that the collector knows: that takes microseconds. Those that existed
before the broker served are exempt, and not walked over. They are freed in time, and others come in
their place, of which the number of blocks tells nothing. So the fewest blocks that there have been
are taken for the exempt ones, and a tenth more of all blocks must have come as well: or what is
walked over would seem to be nothing, and every turn would collect.

Collections of young objects are short, and go on by themselves. A Python that collects old objects
in small parts (3.14.0) is left alone, and so is a process that has turned the collector off.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Final, Protocol

SECONDS: Final = 5.0  # between two turns of the duty
NEVER: Final = 1_000_000_000  # collections of the middle generation, until a full one comes
OLD: Final = 2  # the generation
PROMOTIONS_MIN: Final = 10  # collections of the middle generation: Python's own number
QUICK_BLOCKS: Final = 250_000  # some 10 ms
PUT_OFF_MAX: Final = 12
GROWN_MAX: Final = 5_000_000  # some 300 MB


class Collector(Protocol):
    """What is used of the module gc."""

    def isenabled(self) -> bool:
        """Return whether collections may come by themselves."""
        ...

    def get_threshold(self) -> tuple[int, int, int]:
        """Return after how much each generation is collected."""
        ...

    def get_count(self) -> tuple[int, int, int]:
        """Return how much of that there has been."""
        ...

    def collect(self) -> int:
        """Make a full collection."""
        ...


class FullCollections:
    """Looks whether a full collection is due, and makes it."""

    def __init__(
        self, collector: Collector = gc, blocks: Callable[[], int] = sys.getallocatedblocks
    ) -> None:
        self._collector = collector
        self._blocks = blocks
        self._exempt = blocks()  # at most as many are not walked over
        self._left = self._exempt  # after the last one, or as few as there were since
        self._put_off = 0  # turns in which one was due

    def look(self) -> None:
        """Make a full collection if it is due and short, or has been put off for long enough."""
        collector = self._collector
        if not collector.isenabled() or collector.get_threshold()[OLD] != NEVER:
            return
        count = self._blocks()
        self._exempt = min(self._exempt, count)
        self._left = min(self._left, count)
        if collector.get_count()[OLD] < PROMOTIONS_MIN:
            return
        grown = count - self._left
        if grown < max((self._left - self._exempt) // 4, self._left // 10):
            self._put_off = 0
            return
        may_wait = count - self._exempt > QUICK_BLOCKS and grown <= GROWN_MAX
        if may_wait and self._put_off < PUT_OFF_MAX:
            self._put_off += 1
            return
        self._put_off = 0
        collector.collect()
        self._left = self._blocks()
