"""The sessions of a broker, and which of them goes if there are too many.

Kafka's rules, with its eight shards: each has an eighth of
`max.incremental.fetch.session.cache.slots`, new sessions go to the shards in rotation, and an id
tells its shard. A full shard takes another session only in place of

- the one used longest ago, if that was more than two minutes ago; or
- the one with the fewest partitions among those older than two minutes, if the new one has more.

Otherwise the fetch is answered without a session, and its client sends full fetches. Ours are two
more bounds, since sessions are memory that clients choose: on the partitions of all sessions
together, and on the names of topics. A name that no topic may have is kept in no session.

A session does not end with its connection, as in Kafka: a client may go on elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker.fetch_sessions.fetch_session import FetchSession
from broker.runtime.metrics import Metrics
from protocol.messages.fetch import FetchTopic
from storage.files.filenames import TOPIC_NAME_MAX

SHARDS: Final = 8
IDS_PER_SHARD: Final = (2**31 - 1) // SHARDS
EVICTION_MS: Final = 120_000  # unused, or of age
PARTITIONS_MAX: Final = 250_000  # of all sessions
PARTITIONS_OF_ONE_MAX: Final = 5_000  # so that nothing done with one takes long
NAMED_MAX: Final = 2 * PARTITIONS_OF_ONE_MAX  # in one request, named twice and forgotten ones too


class SessionCache:
    """All sessions, by id."""

    def __init__(
        self, slots: int, now_ms: Callable[[], int], random: Callable[[int], bytes],
        metrics: Metrics,
    ) -> None:  # fmt: skip
        self._slots_per_shard = slots // SHARDS
        self._now_ms = now_ms
        self._random = random
        self._metrics = metrics
        # Of each shard, by id, the one used longest ago first.
        self._shards: list[dict[int, FetchSession]] = [{} for _ in range(SHARDS)]
        self._next_shard = 0

    def get(self, session_id: int) -> FetchSession | None:
        """Return a session, or None."""
        return self._shard(session_id).get(session_id)

    def create(self, size: int, *, by_id: bool) -> FetchSession | None:
        """Return a new session that will have `size` partitions; None if there is no room."""
        number = self._next_shard
        self._next_shard = (number + 1) % SHARDS
        shard, now_ms, metrics = self._shards[number], self._now_ms(), self._metrics
        if (
            size > PARTITIONS_OF_ONE_MAX
            or metrics.fetch_session_partitions_now + size > PARTITIONS_MAX
            or (len(shard) >= self._slots_per_shard and not self._evict(shard, size, now_ms))
        ):
            self.decline()
            return None
        session = FetchSession(self._new_id(number, shard), by_id=by_id, now_ms=now_ms)
        shard[session.id] = session
        metrics.fetch_sessions_now += 1
        return session

    def decline(self) -> None:
        """Count a fetch that gets no session."""
        self._metrics.fetch_sessions_declined += 1

    def may_grow(self, session: FetchSession, topics: Sequence[FetchTopic]) -> bool:
        """Whether the partitions that are named, and not there yet, find room."""
        if not may_be_kept(topics):
            return False
        room = min(
            PARTITIONS_OF_ONE_MAX - len(session.partitions),
            PARTITIONS_MAX - self._metrics.fetch_session_partitions_now,
        )
        count = sum(len(topic.partitions) for topic in topics)
        if count <= room:
            return True
        if count > NAMED_MAX:
            return False
        named = {
            (topic.topic_id if session.by_id else topic.topic, one.partition)
            for topic in topics
            for one in topic.partitions
        }
        return len(named - session.partitions.keys()) <= room

    def grew(self, count: int) -> None:
        """Count partitions that have come, or gone if `count` is negative."""
        self._metrics.fetch_session_partitions_now += count

    def touch(self, session: FetchSession) -> None:
        """Note that a session is used."""
        session.used_ms = self._now_ms()
        shard = self._shard(session.id)
        shard[session.id] = shard.pop(session.id)

    def remove(self, session_id: int) -> None:
        """End a session, if it is there."""
        session = self._shard(session_id).pop(session_id, None)
        if session is not None:
            self._metrics.fetch_sessions_now -= 1
            self._metrics.fetch_session_partitions_now -= len(session.partitions)
            session.end()

    def has(self, session: FetchSession) -> bool:
        """Whether a session has not ended."""
        return self._shard(session.id).get(session.id) is session

    def _evict(self, shard: dict[int, FetchSession], size: int, now_ms: int) -> bool:
        """Make room for a session with `size` partitions; return whether there is."""
        if not shard:
            return False
        unused = next(iter(shard.values()))
        if now_ms - unused.used_ms > EVICTION_MS:
            found = unused
        else:
            # As of its last use, in Kafka too.
            aged = [one for one in shard.values() if one.used_ms - one.created_ms > EVICTION_MS]
            if not aged:
                return False
            found = min(aged, key=lambda one: (len(one.partitions), one.id))
            if size <= len(found.partitions):
                return False
        self._metrics.fetch_session_evictions += 1
        self.remove(found.id)
        return True

    def _shard(self, session_id: int) -> dict[int, FetchSession]:
        return self._shards[min(max(session_id, 0) // IDS_PER_SHARD, SHARDS - 1)]

    def _new_id(self, number: int, shard: dict[int, FetchSession]) -> int:
        while True:
            drawn = int.from_bytes(self._random(8), "big") % (IDS_PER_SHARD - 1)
            session_id = number * IDS_PER_SHARD + 1 + drawn
            if session_id not in shard:
                return session_id


def may_be_kept(topics: Sequence[FetchTopic]) -> bool:
    """Whether each topic has a name that a topic may have; those of ids are empty."""
    return all(len(topic.topic) <= TOPIC_NAME_MAX for topic in topics)
