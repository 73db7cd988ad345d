"""Where `consume` begins: `--from`, `--from-time`, `--at` and `--tail`."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final

import click

from client.commands.output import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from client.msgpack.consumer import Consumed, Consumer

START: Final = -2  # the timestamp by which ListOffsets means the first offset
TAIL_MAX: Final = 1_000_000  # records held in memory
_AT: Final = re.compile(r"(\d{1,10}):(\d{1,19})")


def parse_at(texts: Iterable[str]) -> dict[int, int]:
    """Return the offset by partition of PARTITION:OFFSET texts. Raises click.UsageError."""
    found: dict[int, int] = {}
    for text in texts:
        match = _AT.fullmatch(text)
        if match is None or int(match[1]) > INT32_MAX or int(match[2]) > INT64_MAX:
            raise click.UsageError(f"--at {text!r} is not PARTITION:OFFSET, such as --at 0:42.")
        if int(match[1]) in found:
            raise click.UsageError(f"--at names partition {int(match[1])} twice.")
        found[int(match[1])] = int(match[2])
    return found


async def read_tail(consumer: Consumer, count: int, ends: dict[int, int]) -> list[Consumed]:
    """Return the last `count` records of all partitions, by their times; positions are the ends.

    Records of a partition keep their order: one with an earlier time than the one before it counts
    as just as late. Offsets of a log may have gaps (compaction, markers), so each partition is read
    from further and further back until it gave enough, or begins.
    """
    from client.msgpack.consumer import Consumed

    starts = await consumer.offsets(START)
    found: list[tuple[int, Consumed]] = []
    for partition, end in ends.items():
        back, held = count, []
        while True:
            begin = max(starts[partition], end - back)
            held = await _between(consumer, partition, begin, end, count)
            if len(held) >= count or begin == starts[partition]:
                break
            back *= 4
        times = itertools.accumulate((record.timestamp for record in held), max)
        found += zip(times, (Consumed(partition, record) for record in held), strict=True)
        found.sort(key=lambda one: (one[0], one[1].partition, one[1].record.offset))
        del found[:-count]
        consumer.seek(partition, end)
    return [one for _, one in found]


async def _between(
    consumer: Consumer, partition: int, begin: int, end: int, count: int
) -> list[Any]:
    """Return the last `count` records of one partition in a range of offsets."""
    consumer.seek(partition, begin)
    held: list[Any] = []
    while consumer.positions[partition] < end:
        for _, record in await consumer.poll(partitions=[partition]):
            if record.offset < end:
                held.append(record)
        del held[:-count]
    return held
