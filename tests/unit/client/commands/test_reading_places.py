"""Where `consume` begins: offsets by partition, and the last records of all partitions."""

from typing import Any

import click
import pytest

from client.commands.reading_places import parse_at, read_tail
from client.msgpack.consumer import Consumed
from protocol.records import Record


class Logs:
    """A consumer of partitions with gaps; each poll returns up to two records."""

    def __init__(self, logs: dict[int, list[int]], ends: dict[int, int]) -> None:
        self.logs = logs
        self.ends = ends
        self.positions = dict.fromkeys(logs, 0)

    def seek(self, partition: int, offset: int) -> None:
        self.positions[partition] = offset

    async def offsets(self, _: int) -> dict[int, int]:
        return {partition: offsets[0] for partition, offsets in self.logs.items()}

    async def poll(self, *, partitions: list[int]) -> list[Consumed]:
        (partition,) = partitions
        left = [one for one in self.logs[partition] if one >= self.positions[partition]][:2]
        self.positions[partition] = left[-1] + 1 if left else self.ends[partition] + 1
        # The time grows with the offset, and partition 1 is a little later.
        return [
            Consumed(partition, Record(one, one * 10 + partition, None, b"", ())) for one in left
        ]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [(1, 99)]),
        (3, [(0, 98), (0, 99), (1, 99)]),
        (5, [(0, 96), (0, 97), (0, 98), (0, 99), (1, 99)]),
        (500, None),
    ],
)
async def test_the_last_records_of_all_partitions(count: int, expected: Any) -> None:
    logs = {0: list(range(100)), 1: [0, 5, 99]}  # compaction has left three
    consumer = Logs(logs, {0: 100, 1: 100})
    found = await read_tail(consumer, count, consumer.ends)  # type: ignore[arg-type]
    places = [(one.partition, one.record.offset) for one in found]
    if expected is None:
        assert len(places) == 103
    else:
        assert places == expected
    assert consumer.positions == consumer.ends


async def test_records_of_a_partition_keep_their_order() -> None:
    consumer = Logs({0: [0, 1, 2, 3], 1: [4]}, {0: 4, 1: 5})
    times = {0: 50, 1: 10, 2: 60, 3: 5, 4: 55}
    found = await read_tail(Timed(consumer, times), 4, consumer.ends)  # type: ignore[arg-type]
    assert [one.record.offset for one in found] == [1, 4, 2, 3]


class Timed:
    """A consumer whose records have other times."""

    def __init__(self, consumer: Logs, times: dict[int, int]) -> None:
        self._times = times
        self.positions = consumer.positions
        self.seek, self.offsets, self._poll = consumer.seek, consumer.offsets, consumer.poll

    async def poll(self, *, partitions: list[int]) -> list[Consumed]:
        return [
            Consumed(partition, Record(record.offset, self._times[record.offset], None, b"", ()))
            for partition, record in await self._poll(partitions=partitions)
        ]


async def test_records_behind_the_end_are_left_for_later() -> None:
    consumer = Logs({0: list(range(10))}, {0: 6})
    found = await read_tail(consumer, 2, {0: 6})  # type: ignore[arg-type]
    assert [one.record.offset for one in found] == [4, 5]
    assert consumer.positions == {0: 6}


def test_offsets_by_partition() -> None:
    assert parse_at(["0:5", "12:0"]) == {0: 5, 12: 0}


@pytest.mark.parametrize("texts", [["5"], ["a:1"], ["1:-1"], ["1:1", "1:2"], ["9999999999:1"]])
def test_what_is_no_place_is_refused(texts: list[str]) -> None:
    with pytest.raises(click.UsageError, match="--at"):
        parse_at(texts)
