"""Requests that wait until several logs are durable: what each place answers, and when all have.

A transaction ends with writes to several logs, and its end is answered once, when the last of them
is durable or cannot be. Group commit flushes the logs; here is the bookkeeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from broker.partitions.partition import Partition
from broker.runtime import owners
from broker.runtime.owners import Owner
from protocol.errors import ErrorCode

NEVER_MS: Final = 2**63 - 1

Place = tuple[Partition, int]  # a partition, and the offset that it must be durable up to
AllDone = Callable[[list[ErrorCode]], None]
# Calls back with the code of one place; the third argument is a timeout in ms.
WaitForFlush = Callable[[Partition, int, int, Callable[[ErrorCode], None]], None]


class DurableTogether:
    """The requests that wait, until the broker stops."""

    __slots__ = ("_is_stopped", "_requests", "_stopping", "_wait_for_flush")

    def __init__(self, wait_for_flush: WaitForFlush) -> None:
        self._wait_for_flush = wait_for_flush
        self._requests: dict[Together, None] = {}
        self._stopping: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def wait(self, places: Sequence[Place], done: AllDone) -> None:
        """Call `done` with the codes of all places (`GroupCommit.durable_together`)."""
        together = Together(
            [
                ErrorCode.NONE if partition.log.durable_offset >= end_offset else None
                for partition, end_offset in places
            ],
            done,
        )
        if not together.left:
            together.tell()
            return
        missing = together.missing()
        self._requests[together] = None
        for index in missing:
            partition, end_offset = places[index]
            partition.lane_waiters += 1
            answer = partial(self._answer, together, index, partition)
            self._wait_for_flush(partition, end_offset, NEVER_MS, answer)
        if self._is_stopped:
            self._refuse_all()

    def _answer(
        self, together: Together, index: int, partition: Partition, code: ErrorCode
    ) -> None:
        partition.lane_waiters -= 1
        if together in self._requests:  # not refused
            together.codes[index] = code
            together.left -= 1
            if not together.left:
                del self._requests[together]
                together.tell()

    def stop(self, seconds: float) -> None:
        """Refuse in `seconds` what waits then, and what comes later unless it is durable."""
        self._stopping = owners.later(Owner.FLUSH, seconds, self._refuse_all)

    def stopped(self) -> None:
        """Refuse what still waits, if the broker is stopping: no flush runs any more."""
        if self._stopping is not None:
            self._stopping.cancel()
            self._refuse_all()

    def _refuse_all(self) -> None:
        self._is_stopped = True
        while self._requests:
            together, _ = self._requests.popitem()
            for index in together.missing():
                together.codes[index] = ErrorCode.COORDINATOR_NOT_AVAILABLE
            together.tell()


class Together:
    """One request: the answers of its places, None for those that are waited for, and how many."""

    __slots__ = ("_done", "codes", "left")

    def __init__(self, codes: list[ErrorCode | None], done: AllDone) -> None:
        self.codes = codes
        self.left = codes.count(None)
        self._done = done

    def missing(self) -> list[int]:
        """Return the indices of the places that have no answer."""
        return [index for index, code in enumerate(self.codes) if code is None]

    def tell(self) -> None:
        """Answer; report an exception that the callback raises."""
        codes = [code for code in self.codes if code is not None]
        try:
            self._done(codes)
        except Exception as error:
            owners.failed(Owner.FLUSH, error, f"a request for {len(codes)} logs, told {codes}")
