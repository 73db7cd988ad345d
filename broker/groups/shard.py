"""One partition of `__consumer_offsets` with its groups: Kafka's CoordinatorShard.

    LOADING ── all of its log has been applied ──> SERVING
       └────── its log cannot be read ───────────> REFUSED (until a restart)
    OFFLINE ── its log is open at last ──────────> LOADING

Shards share nothing: one that fails to load keeps no group of another from being served, and the
order in which they are loaded does not matter. While a shard is loaded its groups are nobody's:
no request finds them, and topics that are deleted meanwhile are noted, for the offsets that are
still to be read.
"""

from __future__ import annotations

from enum import StrEnum

from broker.groups.errors import GroupError
from broker.groups.registry import Registry
from protocol.errors import ErrorCode


class ShardState(StrEnum):
    """What becomes of a request for a group of the shard."""

    LOADING = "loading"
    SERVING = "serving"
    REFUSED = "refused"
    OFFLINE = "offline"


_REFUSALS = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.REFUSED: ErrorCode.NOT_COORDINATOR,
    ShardState.OFFLINE: ErrorCode.NOT_COORDINATOR,
}


class Shard:
    """The groups of one partition, and whether they are served."""

    __slots__ = ("deleted_topics", "is_dropped", "number", "registry", "state")

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = ShardState.SERVING
        self.registry = Registry()
        self.deleted_topics: set[str] = set()  # since the loading began, or while it is offline
        self.is_dropped = False  # its topic is gone: whoever still loads it stops

    @property
    def is_served(self) -> bool:
        """Whether requests find its groups."""
        return self.state is ShardState.SERVING

    def check(self) -> None:
        """Raise GroupError if its groups are not served now."""
        if self.state is not ShardState.SERVING:
            raise GroupError(_REFUSALS[self.state])

    def refuse(self) -> None:
        """Serve no group of it any more: its log cannot be read."""
        self.state = ShardState.REFUSED
        self.clear()

    def drop(self) -> None:
        """End: the topic is gone, or the broker stops."""
        self.is_dropped = True
        self.clear()

    def clear(self) -> None:
        """Forget every group; whoever waits in one is told to look for another coordinator."""
        registry, self.registry = self.registry, Registry()
        self.deleted_topics.clear()
        for group_id in list(registry.groups):
            registry.remove(group_id, ErrorCode.NOT_COORDINATOR)
