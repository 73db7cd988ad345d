"""IO workers: tasks that take requests from the queue and pass them to their handlers.

A worker never waits for an answer (docs/design.md, "The way of a request"): a handler answers
immediately, or returns something that completes later. A bad request never ends a worker.

A worker serves in a slice of the loop: in a turn of its own task, or, while it rests, as a part of
the step of a processor that has put requests on the queue (`RequestQueue.pass_on`).
"""

from __future__ import annotations

from broker.dispatch import Dispatcher
from broker.network.gathered_writes import GatheredWrites
from broker.runtime import owners
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.owners import Owner
from broker.runtime.request import Request
from broker.runtime.request_queue import RequestQueue

# How long a worker may keep the loop from its sockets. Two milliseconds are about a hundred
# small requests: long enough to pay for a switch, short compared to any client's deadline.
SLICE_NS = 2 * MS_NS


class IoWorker:
    """One of `num.io.threads` workers."""

    __slots__ = ("_clock", "_dispatcher", "_queue", "_writes", "name")

    def __init__(
        self,
        index: int,
        queue: RequestQueue,
        dispatcher: Dispatcher,
        writes: GatheredWrites,
        clock: Clock,
    ) -> None:
        self.name = f"io-worker-{index}"
        self._queue = queue
        self._dispatcher = dispatcher
        self._writes = writes
        self._clock = clock

    async def run(self) -> None:
        """Handle requests until cancelled."""
        while True:
            self.serve(self._clock.monotonic_ns())
            await self._queue.rest(self.serve)

    def serve(self, begun_ns: int) -> None:
        """Handle what is queued, until a slice of the step that has begun at `begun_ns` is over."""
        queue = self._queue
        take = queue.take
        dispatch = self._timed if queue.has_timed else self._dispatcher.dispatch
        monotonic_ns = self._clock.monotonic_ns
        writes = self._writes
        slice_end_ns = begun_ns + SLICE_NS
        if monotonic_ns() > slice_end_ns:  # others have used it up
            return
        writes.held = True
        try:
            while (request := take()) is not None:
                try:
                    dispatch(request)
                except Exception as error:  # or it would never be answered
                    owners.failed(Owner.WORKER, error)
                    request.give_up()
                if monotonic_ns() > slice_end_ns:
                    break
        finally:
            writes.held = False
        writes.flush()

    def _timed(self, request: Request) -> None:
        """Dispatch one of the queued requests, of which some are timed, and take its times."""
        timing = None if request.extras is None else request.extras.timing
        if timing is not None:
            timing.taken_ns = self._clock.monotonic_ns()
        try:
            self._dispatcher.dispatch(request)
        finally:
            if timing is not None:
                timing.handled_ns = self._clock.monotonic_ns()
            if not len(self._queue):
                self._queue.has_timed = False
