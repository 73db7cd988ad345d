"""The coordinator of groups of a directory that is served read-only.

Groups and offsets are what their log says, and stay so: nothing is written, no session ends, and
where `__consumer_offsets` never was, every group is empty. What would change a group is refused
before it comes here (`broker.read_only`).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.groups.alarm import Alarm, Handle
from broker.groups.coordinator import Coordinator
from broker.groups.shard import Shard
from protocol.errors import ErrorCode


class FrozenCoordinator(Coordinator):
    """All groups of this broker, as they were."""

    async def ensure_log(self) -> None:
        """There is what there is."""

    def when_durable(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:  # noqa: ARG002
        """Nothing waits to be written."""
        done(ErrorCode.NONE)

    def alarm(self, ring: Callable[[int], int]) -> Alarm:
        """Return an alarm that never rings."""
        return Alarm(ring, self.clock.monotonic_ns, _never)

    def _make_shards(self) -> None:
        super()._make_shards()
        if not self._shards:
            self._shards = [Shard(0)]

    def _look_at(self, shard: Shard) -> None:
        if self.log.count():
            super()._look_at(shard)


class _NoTimer:
    """A timer that was not set."""

    def cancel(self) -> None:
        """There is nothing to cancel."""


def _never(_seconds: float, _call: Callable[[], None]) -> Handle:
    return _NoTimer()
