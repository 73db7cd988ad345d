"""Answers that become ready together are sent together, and none is lost."""

import asyncio

from broker.network.gathered_writes import GatheredWrites
from broker.runtime.clock import SystemClock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import FailureLog
from tests.support import failures


class CountingSender:
    def __init__(self) -> None:
        self.flushes = 0
        self.aborted = ""

    def flush(self) -> None:
        self.flushes += 1

    def abort(self, reason: str) -> None:
        self.aborted = reason


async def test_without_a_holder_the_next_turn_flushes() -> None:
    writes = GatheredWrites()
    first, second = CountingSender(), CountingSender()
    writes.add(first)
    writes.add(second)
    assert (first.flushes, second.flushes) == (0, 0)
    await asyncio.sleep(0)
    assert (first.flushes, second.flushes) == (1, 1)
    writes.add(first)
    await asyncio.sleep(0)
    assert (first.flushes, second.flushes) == (2, 1)


async def test_a_holder_flushes_itself() -> None:
    writes = GatheredWrites()
    sender = CountingSender()
    writes.held = True
    writes.add(sender)
    await asyncio.sleep(0)
    assert sender.flushes == 0
    writes.held = False
    writes.flush()
    assert sender.flushes == 1
    await asyncio.sleep(0)
    assert sender.flushes == 1


async def test_a_sender_may_add_itself_again_while_it_is_flushed() -> None:
    writes = GatheredWrites()

    class Again(CountingSender):
        def flush(self) -> None:
            super().flush()
            if self.flushes == 1:
                writes.add(self)

    sender = Again()
    writes.add(sender)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sender.flushes == 2


async def test_a_sender_that_fails_is_closed_and_the_others_send() -> None:
    writes = GatheredWrites()

    class Failing(CountingSender):
        def flush(self) -> None:
            raise KeyError("nobody thought of it")

    asyncio.get_running_loop().set_exception_handler(FailureLog(Metrics(), SystemClock()))
    failing, behind = Failing(), CountingSender()
    writes.add(failing)
    writes.add(behind)
    await asyncio.sleep(0)
    assert failing.aborted == "internal error"
    assert behind.flushes == 1
    assert len(failures.take()) == 1
