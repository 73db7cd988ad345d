"""What is committed: records of open and of aborted transactions are not among it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.lifecycle.shutdown import EXIT_CLEAN
from protocol.control_records import Marker
from protocol.records import build
from tests.support.console_client import ConsoleBroker, EventReader
from tests.unit.broker.test_console_records import append, flush, offsets, records

COMMITTED = [2, 4, 6, 8]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    found = await ConsoleBroker.start(tmp_path / "data")
    await found.post("topics/create", {"name": "one", "partitions": 1})
    yield found
    assert await found.stop() == EXIT_CLEAN


def write(running: ConsoleBroker, producer: int, sequence: int) -> None:
    batch = build(
        records(1),
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    append(running, "one", batch, transaction=1)


def end(running: ConsoleBroker, producer: int, *, is_commit: bool) -> None:
    partition = running.services.partitions.get("one", 0)
    marker = Marker(producer, 0, is_commit=is_commit, coordinator_epoch=0)
    made = partition.log.append_marker(marker, 5)
    flush(partition)
    partition.log.settle(made.base_offset)


def mixed(running: ConsoleBroker) -> None:
    """Aborted at 0 and 1, beside what is committed, then others of the same producer; open at 9."""
    write(running, 7, 0)  # 0
    write(running, 7, 1)  # 1
    write(running, 8, 0)  # 2
    end(running, 7, is_commit=False)  # 3
    write(running, 7, 2)  # 4
    end(running, 7, is_commit=True)  # 5
    append(running, "one", build(records(1)))  # 6
    end(running, 8, is_commit=True)  # 7
    append(running, "one", build(records(1)))  # 8
    write(running, 7, 3)  # 9
    append(running, "one", build(records(1)))  # 10


async def test_a_page_of_what_is_committed(running: ConsoleBroker) -> None:
    mixed(running)
    for limit in (1, 2, 50):
        assert await offsets(running, f"order=oldest&committed=1&limit={limit}") == COMMITTED
        assert await offsets(running, f"committed=1&limit={limit}") == COMMITTED[::-1]
    assert await offsets(running, "order=oldest") == [0, 1, 2, 4, 6, 8, 9, 10]


async def test_an_export_of_what_is_committed(running: ConsoleBroker) -> None:
    mixed(running)
    for begin in range(10):
        found = await running.ask(f"/api/v1/export?topic=one&committed=1&offset={begin}")
        told = [json.loads(line)["offset"] for line in found.body.splitlines()]
        assert told == [offset for offset in COMMITTED if offset >= begin]


async def test_what_is_committed_arrives_when_it_is(running: ConsoleBroker) -> None:
    reader = await EventReader.connect(running, "/api/v1/tail?topic=one&committed=1")
    assert await reader.head() == 200
    seen: list[int] = []
    async for kind, found in reader.events():
        if kind == "begun":
            mixed(running)
        seen += [one["offset"] for one in found.get("messages", ())]
        if len(seen) == len(COMMITTED):
            end(running, 7, is_commit=False)  # 11
        if 10 in seen:
            break
    assert seen == [*COMMITTED, 10]
    reader.close()
