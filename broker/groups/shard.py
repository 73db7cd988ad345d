"""One partition of `__consumer_offsets` with its groups: Kafka's CoordinatorShard.

    LOADING ── the whole log has been applied ──> SERVING
       ├────── the log is damaged ──────────────> REFUSED (until a restart)
       └────── the disk does not give the log ──> OFFLINE
    OFFLINE ── the log is open, tried again ────> LOADING

Shards share nothing. A shard that fails to load does not affect the others, and the order of
loading does not matter. While a shard is loading, no request finds its groups, and it collects the
topics that are deleted: their offsets are removed after the load.
"""

from __future__ import annotations

from enum import StrEnum

from broker.groups.errors import GroupError
from broker.groups.registry import Registry
from protocol.errors import ErrorCode


class ShardState(StrEnum):
    """Whether a shard serves requests, and why not."""

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
    """The groups of one partition, and the state of the shard."""

    __slots__ = (
        "deleted_topics", "is_dropped", "number", "registry", "state", "topic_ids", "unread",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = ShardState.SERVING
        self.registry = Registry()
        self.deleted_topics: set[str] = set()  # while it was loading or offline
        self.topic_ids: dict[str, set[bytes]] = {}  # just after a load: those of its offsets
        self.unread = ""  # why the last load found the log unreadable
        self.is_dropped = False  # its topic was deleted: a load under way has no effect

    @property
    def is_served(self) -> bool:
        """Whether it serves requests."""
        return self.state is ShardState.SERVING

    def check(self) -> None:
        """Raise GroupError if it does not serve requests."""
        if self.state is not ShardState.SERVING:
            raise GroupError(_REFUSALS[self.state])

    def refuse(self) -> None:
        """Refuse all requests until a restart: the log cannot be read."""
        self.state = ShardState.REFUSED
        self.clear()

    def drop(self) -> None:
        """End the shard: the topic was deleted, or the broker stops."""
        self.is_dropped = True
        self.clear()

    def clear(self) -> None:
        """Remove every group, and answer waiting requests with NOT_COORDINATOR."""
        registry, self.registry = self.registry, Registry()
        self.deleted_topics.clear()
        for group_id in list(registry.groups):
            registry.remove(group_id, ErrorCode.NOT_COORDINATOR)
