"""Where a group shall go on: the new offset of each partition, and what it was.

No I/O: what the broker says about the partitions comes in. As in Kafka's tool, a new offset lies
between the first record there is and the end, and a time later than every record means the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from client.kafka.connection import BrokerError
from client.places import Place


class Bounds(NamedTuple):
    """The first offset that can be read of a partition, and the one behind its last record."""

    start: int
    end: int


class Reset(NamedTuple):
    """A change of a partition's committed offset; `before` is None where there was none."""

    place: Place
    before: int | None
    after: int
    bounds: Bounds


Rule = Callable[[Place, int | None, Bounds], int]


def to_earliest(_place: Place, _before: int | None, bounds: Bounds) -> int:
    """Read all there is again."""
    return bounds.start


def to_latest(_place: Place, _before: int | None, bounds: Bounds) -> int:
    """Read only what comes from now on."""
    return bounds.end


def to_offset(offset: int) -> Rule:
    """Go on at an offset."""
    return lambda _place, _before, _bounds: offset


def to_found(found: Mapping[Place, int]) -> Rule:
    """Go on where a time was found; -1 means that no record is as late as that."""
    return lambda place, _before, bounds: bounds.end if found[place] < 0 else found[place]


def shift_by(count: int) -> Rule:
    """Go on so many records later, or earlier."""

    def rule(place: Place, before: int | None, _bounds: Bounds) -> int:
        if before is None:
            raise BrokerError(
                f"{place.topic}-{place.partition} has no committed offset to shift. Set one with "
                "--to-earliest, --to-latest or --to-offset"
            )
        return before + count

    return rule


def plan(rule: Rule, before: Mapping[Place, int], bounds: Mapping[Place, Bounds]) -> list[Reset]:
    """Return the changes, ordered by partition; those that change nothing as well."""
    resets = []
    for place, found in sorted(bounds.items()):
        wanted = rule(place, before.get(place), found)
        after = min(max(wanted, found.start), found.end)
        resets.append(Reset(place, before.get(place), after, found))
    return resets


def parse_topics(texts: tuple[str, ...]) -> dict[str, list[int] | None]:
    """Read TOPIC or TOPIC:0,2, which add up; None stands for all partitions. Raises ValueError."""
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
