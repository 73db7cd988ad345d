"""The coordinator of groups of a directory that is served read-only.

Groups and offsets stay as their log has them: nothing is written, and no session expires. Without
`__consumer_offsets`, every group is empty. `broker.read_only.refusals` refuses requests that
would change a group before they get here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.groups.alarm import Alarm, Handle
from broker.groups.coordinator import Coordinator
from broker.groups.forgetting import DeletedTopics
from broker.groups.shard import Shard
from protocol.errors import ErrorCode
from protocol.wire import ZERO_UUID


class FrozenCoordinator(Coordinator):
    """All groups of this broker, unchanged since the directory was last written."""

    def __init__(self, *args: Any) -> None:
        """Take what a Coordinator takes. The offsets of every topic stay."""
        super().__init__(*args)
        self._deleted_topics = DeletedTopics(self.remove_offsets, lambda _: ZERO_UUID)

    async def ensure_log(self) -> None:
        """Do nothing: the log is not created."""

    def when_durable(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:  # noqa: ARG002
        """Call `done` at once: nothing is ever written."""
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
    """A timer that never fires."""

    def cancel(self) -> None:
        """Do nothing."""


def _never(_seconds: float, _call: Callable[[], None]) -> Handle:
    return _NoTimer()
