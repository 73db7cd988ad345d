"""Where `consume` begins: `--from`, `--from-time`, `--at` and `--tail`."""

from __future__ import annotations

import functools
import itertools
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from client.commands.output import INT32_MAX, INT64_MAX
from client.commands.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from client.msgpack.consumer import Consumed, Consumer

START: Final = -2  # the timestamp by which ListOffsets means the first offset
BEGINNING: Final = ("time", START)
END: Final = ("time", -1)
TAIL_MAX: Final = 1_000_000  # records held in memory
_AT: Final = re.compile(r"(\d{1,10}):(\d{1,19})")


class Where(NamedTuple):
    """Where reading begins: at one place in all partitions, at some offsets, or near the end.

    `start` is the text of --from.
    """

    start: str
    place: tuple[str, int]
    partitions: tuple[int, ...]
    at: dict[int, int]
    tail_count: int | None

    @property
    def is_inside(self) -> bool:
        """Whether reading begins at no end of the partitions."""
        return bool(self.at) or self.place not in (BEGINNING, END)

    @property
    def is_inside_partitions(self) -> bool:
        """Whether the place, or the partitions, are none that a group could have."""
        return self.is_inside or bool(self.partitions) or self.tail_count is not None


_OPTIONS = (
    click.option(
        "--from",
        "start",
        default="beginning",
        show_default=True,
        metavar="WHERE",
        help="beginning, end, an offset, or an ISO 8601 time.",
    ),
    click.option(
        "--from-time", metavar="TIME", help="Start at a time: ISO 8601, or ms since 1970."
    ),
    click.option(
        "--partition",
        "partitions",
        type=click.IntRange(0, INT32_MAX),
        multiple=True,
        help="Read only this partition; repeatable.",
    ),
    click.option(
        "--tail",
        "tail_count",
        metavar="N",
        type=click.IntRange(1, TAIL_MAX),
        help="Start with the last N records.",
    ),
    click.option(
        "--at",
        "places",
        metavar="PARTITION:OFFSET",
        multiple=True,
        help="Read this partition from this offset; repeatable.",
    ),
)


def place_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as `where`."""

    @functools.wraps(function)
    def wrapped(
        *arguments: Any,
        start: str,
        from_time: str | None,
        partitions: tuple[int, ...],
        tail_count: int | None,
        places: tuple[str, ...],
        **others: Any,
    ) -> Any:
        at = parse_at(places)
        is_moved = from_time is not None or start != "beginning"
        if bool(at) + (tail_count is not None) + is_moved > 1 or (at and partitions):
            raise click.UsageError(
                "Pass one of --from, --from-time, --tail and --at, which names its partitions"
                " itself."
            )
        where = Where(start, parse_start(start, from_time), partitions, at, tail_count)
        return function(*arguments, where=where, **others)

    command: Callable[..., Any] = wrapped
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def parse_start(start: str, from_time: str | None) -> tuple[str, int]:
    """Return ("offset", n) or ("time", ms or BEGINNING or END's). Raises click.UsageError."""
    if from_time is not None:
        return "time", parse_time(from_time)
    if start in ("beginning", "end"):
        return BEGINNING if start == "beginning" else END
    if start.isdecimal():
        if len(start) > 20 or int(start) > INT64_MAX:
            raise click.UsageError(f"--from {start} is not an offset; the maximum is {INT64_MAX}.")
        return "offset", int(start)
    return "time", parse_time(start, besides="beginning, end, an offset, ")


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


async def begin(consumer: Consumer, where: Where) -> None:
    """Move the consumer to where reading begins."""
    kind, place = where.place
    if where.at:
        for partition, offset in where.at.items():
            consumer.seek(partition, offset)
    elif where.tail_count is None and kind == "time":
        await consumer.seek_to(place)
    elif where.tail_count is None:
        for partition in consumer.positions:
            consumer.seek(partition, place)
