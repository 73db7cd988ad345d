"""Answers that become ready together leave together, and none is forgotten."""

import asyncio

from broker.network.gathered_writes import Outbox
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
    outbox = Outbox()
    first, second = CountingSender(), CountingSender()
    outbox.add(first)
    outbox.add(second)
    assert (first.flushes, second.flushes) == (0, 0)
    await asyncio.sleep(0)
    assert (first.flushes, second.flushes) == (1, 1)
    outbox.add(first)
    await asyncio.sleep(0)
    assert (first.flushes, second.flushes) == (2, 1)


async def test_a_holder_flushes_itself() -> None:
    outbox = Outbox()
    sender = CountingSender()
    outbox.held = True
    outbox.add(sender)
    await asyncio.sleep(0)
    assert sender.flushes == 0
    outbox.held = False
    outbox.flush()
    assert sender.flushes == 1
    await asyncio.sleep(0)
    assert sender.flushes == 1


async def test_a_sender_may_add_itself_again_while_it_is_flushed() -> None:
    outbox = Outbox()

    class Again(CountingSender):
        def flush(self) -> None:
            super().flush()
            if self.flushes == 1:
                outbox.add(self)

    sender = Again()
    outbox.add(sender)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sender.flushes == 2


async def test_a_sender_that_fails_is_closed_and_the_others_send() -> None:
    outbox = Outbox()

    class Failing(CountingSender):
        def flush(self) -> None:
            raise KeyError("nobody thought of it")

    asyncio.get_running_loop().set_exception_handler(FailureLog(Metrics(), SystemClock()))
    failing, behind = Failing(), CountingSender()
    outbox.add(failing)
    outbox.add(behind)
    await asyncio.sleep(0)
    assert failing.aborted == "internal error"
    assert behind.flushes == 1
    assert len(failures.take()) == 1
