"""Everything that clients may leave behind is found, and nothing is found at rest."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.at_rest import left_over
from broker.network.processor import Processor
from broker.partitions.partition import ParkedFetch
from broker.transactions.transaction import Transaction
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection
from tests.support.rig_client import crash, create


def park(rig: Rig) -> None:
    partition = rig.services.partitions.get("t", 0)
    request = FakeConnection().request(None)
    fetch = ParkedFetch(request, [partition], lambda: False, lambda: None)
    rig.services.purgatory.park(fetch, 60_000)


def queue(rig: Rig) -> None:
    rig.assembly.network.queue.put(FakeConnection().request(None))


def wait(rig: Rig) -> None:
    rig.assembly.network.queue.wait_for_room(Waiter())


def count_append(rig: Rig) -> None:
    rig.services.metrics.appends_queued_now += 1


def wait_for_a_transaction(rig: Rig) -> None:
    transactions = rig.services.transactions
    one = Transaction("t", 1, 60_000)
    one.is_ending = True
    transactions.store.put(one)
    waiting = transactions.line_up("t")
    assert waiting is not None
    waiting.close()


class Waiter:
    def hear_of_room(self) -> bool:
        return True


LEAKS: dict[str, Callable[[Rig], Any]] = {
    "7 request bytes": lambda rig: rig.assembly.network.budget.take(7),
    "8 answer bytes": lambda rig: rig.services.answers.take(8),
    "1 requests queued": queue,
    "1 connections waiting for the queue": wait,
    "1 fetches parked": park,
    "1 fetches watching a partition": park,
    "1 appends counted as queued": count_append,
    "1 requests waiting for a transaction": wait_for_a_transaction,
}


@pytest.mark.parametrize("leak", LEAKS)
async def test_leftovers_are_named(tmp_path: Path, leak: str) -> None:
    rig = Rig(tmp_path)
    await create(rig, "t")
    assert left_over(rig.assembly, rig.dispatcher) == []
    LEAKS[leak](rig)
    assert leak in left_over(rig.assembly, rig.dispatcher)
    await crash(rig)


async def test_a_leftover_connection_and_a_leftover_handler_are_named(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    processor: Any = SimpleNamespace(connections={1, 2})
    rig.dispatcher._tasks.add(asyncio.ensure_future(asyncio.sleep(0)))
    processors: list[Processor] = [processor]
    left = left_over(rig.assembly, rig.dispatcher, processors)
    assert left == ["2 connections", "1 requests being handled"]
    rig.dispatcher._tasks.clear()
    assert await rig.close()
