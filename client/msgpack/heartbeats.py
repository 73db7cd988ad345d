"""The heartbeats of a group member: one task that sends them when the membership has one due.

They use the coordinator's connection, as commits do. `membership` decides what to send and when;
this module waits and sends. `wake` reports that there is something new to send; `wait_for_news`
returns when an answer has arrived, or when none will.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from client.msgpack.membership import Membership, State
from client.msgpack.transport import RequestRefused, Transport, TransportError, now_ms
from protocol.errors import ErrorCode


class Heartbeats:
    """The heartbeats of one membership. `failure` is why the last one was not answered."""

    def __init__(self, coordinator: Transport, membership: Membership) -> None:
        self.failure: TransportError | None = None
        self._coordinator = coordinator
        self._membership = membership
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def have_begun(self) -> bool:
        """Whether `start` was called."""
        return self._task is not None

    def start(self) -> None:
        """Send heartbeats until the membership ends or `stop` is called."""
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """Check at once whether the membership has something to send."""
        self._wake.set()

    def expect_news(self) -> None:
        """Make `wait_for_news` wait for an answer that arrives after this call."""
        self._news.clear()

    async def wait_for_news(self, wait_s: float) -> None:
        """Wait for an answer, at most `wait_s`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()

    def check(self) -> None:
        """Raise the error that ended the task, if any; RuntimeError if it was never started."""
        if self._task is None:
            raise RuntimeError("not subscribed: call subscribe first")
        if self._membership.error is not None:
            raise self._membership.error
        if self._task.done() and not self._task.cancelled():
            died = self._task.exception()
            if died is not None:
                raise died

    async def _run(self) -> None:
        try:
            while self._membership.state not in (State.LEFT, State.FAILED):
                self._wake.clear()
                body = self._membership.request(now_ms())
                if body is None:
                    await self._until_due()
                    continue
                try:
                    if self._membership.seeks_coordinator:
                        await self._find_coordinator()
                    answer = await self._coordinator.call("consumer_group_heartbeat", body)
                except TransportError as error:
                    self.failure = error
                    self._membership.unanswered(now_ms())
                except RequestRefused as error:
                    self._membership.fail(str(error), ErrorCode.INVALID_REQUEST)
                else:
                    self.failure = None
                    self._membership.answered(answer, now_ms())
                self._news.set()
        finally:
            self._news.set()

    async def _find_coordinator(self) -> None:
        """Have a coordinator created; the next heartbeat shows whether it is ready."""
        body = {"key_type": 0, "coordinator_keys": [self._membership.settings.group_id]}
        await self._coordinator.call("find_coordinator", body)
        self._membership.seeks_coordinator = False

    async def _until_due(self) -> None:
        due_ms = self._membership.due_ms()
        wait_s = None if due_ms is None else max(0, (due_ms - now_ms()) / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
