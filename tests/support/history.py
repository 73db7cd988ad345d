"""What happened to the records of one partition, and what must be true of it.

A history is what the producer was told (value -> offset, in the order of sending) and what a
consumer read in the end ((offset, value), in order). Values are unique in a partition and are sent
in the order of their numbers. `anomalies` returns every breach as one line of text.

The names are those of a Kafka history checker: lost (acknowledged and not read), duplicate (one
value at two offsets), inconsistent offset (not where the acknowledgement said), reordered, and a
hole in the offsets (H2: a partition without compaction and transactions is dense).
"""

import itertools
from collections.abc import Mapping, Sequence


def anomalies(acknowledged: Mapping[int, int], read: Sequence[tuple[int, int]]) -> list[str]:
    """Every breach of the promises in one partition's history.

    `acknowledged` maps number -> offset as the producer was told; `read` is (offset, number) as
    consumed from the first offset to the end.
    """
    found = []
    places: dict[int, list[int]] = {}
    for offset, number in read:
        places.setdefault(number, []).append(offset)
    for number, offsets in places.items():
        if len(offsets) > 1:
            found.append(f"duplicate: {number} at {offsets}")
    for number, offset in acknowledged.items():
        if number not in places:
            found.append(f"lost: {number} was acknowledged at {offset}")
        elif offset not in places[number]:
            found.append(f"inconsistent offset: {number} told {offset}, read {places[number]}")
    for (offset, number), (next_offset, next_number) in itertools.pairwise(read):
        if next_number < number:
            found.append(f"reordered: {next_number} at {next_offset} after {number} at {offset}")
        if next_offset != offset + 1:
            found.append(f"hole: {offset} is followed by {next_offset}")
    return found
