"""Resetting a group's offsets: the new offset of each partition, and the one before.

No I/O: callers pass in what the broker says about the partitions. As in Kafka's tool, a new offset
is between the first record and the end, and a time after every record means the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from client.kafka.connection import BrokerError
from client.places import Place


class Bounds(NamedTuple):
    """The first offset of a partition, and the one after its last record."""

    start: int
    end: int


class Reset(NamedTuple):
    """A change of a partition's committed offset; `before` is None if there was none."""

    place: Place
    before: int | None
    after: int
    bounds: Bounds


Rule = Callable[[Place, int | None, Bounds], int]


def to_earliest(_place: Place, _before: int | None, bounds: Bounds) -> int:
    """Read everything again."""
    return bounds.start


def to_latest(_place: Place, _before: int | None, bounds: Bounds) -> int:
    """Read only records from now on."""
    return bounds.end


def to_offset(offset: int) -> Rule:
    """Continue at an offset."""
    return lambda _place, _before, _bounds: offset


def to_found(found: Mapping[Place, int]) -> Rule:
    """Continue at the offset found for a time; -1 means that no record is that late."""
    return lambda place, _before, bounds: bounds.end if found[place] < 0 else found[place]


def shift_by(count: int) -> Rule:
    """Continue so many offsets later, or earlier if negative."""

    def rule(place: Place, before: int | None, _bounds: Bounds) -> int:
        if before is None:
            raise BrokerError(
                f"{place} has no committed offset to shift. Set one with "
                "--to-earliest, --to-latest or --to-offset"
            )
        return before + count

    return rule


def plan(rule: Rule, before: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> list[Reset]:
    """Return the resets, ordered by partition, including those that change nothing."""
    resets = []
    for place, found in sorted(bounds.items()):
        wanted = rule(place, before.get(place), found)
        after = min(max(wanted, found.start), found.end)
        resets.append(Reset(place, before.get(place), after, found))
    return resets


def parse_topics(texts: tuple[str, ...]) -> dict[str, list[int] | None]:
    """Parse TOPIC and TOPIC:0,2, which add up; None means all partitions. Raises ValueError."""
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        listed = numbers.split(",")
        if not topic or (colon and not all(number.isdecimal() for number in listed)):
            raise ValueError(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION")
        before = found.get(topic, [])
        if not colon or before is None:
            found[topic] = None
        else:
            found[topic] = sorted({*before, *map(int, listed)})
    return found
