"""One fetch and its session: what it looks at, and what of its answer is said.

    Full          begins a session, with the partitions of its answer
    Incremental   within a session: looks at the partitions that are awake, says what is new

Kafka answers a fetch with INVALID_FETCH_SESSION_EPOCH if another one has begun the next epoch
meanwhile; it then changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.fetch_sessions.fetch_session import UNTOLD, CachedPartition, FetchSession, Ident
from broker.fetch_sessions.session_cache import SessionCache, may_be_kept
from broker.partitions.fetch_asked import Resolved, ResolvedTopics
from broker.partitions.partition import ParkedFetch, Partition, Partitions
from broker.runtime.request import Request
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

Find = Callable[[CachedPartition], Resolved]


class AllSessions(Protocol):
    """All sessions, as one fetch sees them."""

    cache: SessionCache
    partitions: Partitions

    def name_of(self, ident: Ident) -> str:
        """Return the name of a topic; "" if its id is unknown."""
        ...

    def rouse_if_starts_moved(self, session: FetchSession) -> None:
        """Wake the partitions of a session whose log start has moved."""
        ...

    def go_on(self, session: FetchSession) -> None:
        """Begin the fetch that waits behind one that has ended."""
        ...


class Full:
    """A fetch that begins a session."""

    __slots__ = ("_asked", "_by_id", "_session", "_sessions")

    view = rights = None

    def __init__(self, sessions: AllSessions, body: FetchRequest, *, by_id: bool) -> None:
        self._sessions = sessions
        self._asked = body.topics  # rights leave some of them out
        self._by_id = by_id
        self._session: FetchSession | None = None

    def answer(self, response: FetchResponse) -> FetchResponse:
        """Begin the session, if there is room for it."""
        if response.error_code:
            return response
        cache, by_id = self._sessions.cache, self._by_id
        size = sum(len(topic.partitions) for topic in response.responses)
        if not may_be_kept(self._asked):
            cache.decline()
            return response
        session = self._session = cache.create(size, by_id=by_id)
        if session is None:
            return response
        asked: dict[tuple[Ident, int], FetchPartition] = {
            (topic.topic_id if by_id else topic.topic, one.partition): one
            for topic in self._asked
            for one in topic.partitions
        }
        answers = {
            (topic.topic_id if by_id else topic.topic, data.partition_index): data
            for topic in response.responses
            for data in topic.partitions
        }
        for key, one in asked.items():  # in the order of the request
            if key not in answers:
                continue
            cached = session.put(key[0], self._sessions.name_of(key[0]), one)
            cached.told_mark = answers[key].high_watermark
            cached.told_start = answers[key].log_start_offset
        cache.grew(len(session.partitions))
        response.session_id = session.id
        return response

    def withheld(self, _response: FetchResponse) -> FetchResponse:
        """Take the session back."""
        if self._session is not None:
            self._sessions.cache.remove(self._session.id)
        return FetchResponse(session_id=0)

    def end(self) -> None:
        """Be over, whatever has ended it."""


class Incremental:
    """A fetch within a session: the view that its handler reads, and its answer."""

    __slots__ = (
        "_beds",
        "_changes",
        "_epoch",
        "_find",
        "_offered",
        "_refused",
        "_request",
        "_sessions",
        "_told",
        "_topics",
        "rights",
        "session",
    )

    def __init__(self, sessions: AllSessions, request: Request, session: FetchSession) -> None:
        self._sessions = sessions
        self._request = request
        self.session = session
        self.rights = session.rights  # for those that sleep now, and may wake while it waits
        self._epoch = session.next_epoch()
        self._offered: set[Ident] = set()
        self._refused: set[Ident] = set()
        self._find: Find | None = None
        self._changes = -1  # of the session, that `_topics` knows
        self._topics: ResolvedTopics = []
        self._beds: dict[CachedPartition, Partition] = {}
        self._told: list[CachedPartition] = []
        session.running = request

    # -- what is looked at ----------------------------------------------------------------------

    def offer(self) -> list[FetchTopic]:
        """Return what is awake as a request would name it, so that rights are asked for it."""
        by_ident: dict[Ident, FetchTopic] = {}
        for cached in self.session.in_order():
            topic = by_ident.get(cached.ident)
            if topic is None:
                topic = by_ident[cached.ident] = _topic(cached.ident)
            topic.partitions.append(cached.asked)
        self._offered = set(by_ident)
        return list(by_ident.values())

    @property
    def view(self) -> Incremental:
        """The partitions to look at."""
        return self

    def begin(self, find: Find, allowed: list[FetchTopic]) -> ResolvedTopics:
        """Look partitions up with `find`, except those that were offered and are not `allowed`."""
        self._find = find
        by_id = self.session.by_id
        left = {topic.topic_id if by_id else topic.topic for topic in allowed}
        self._refused = self._offered - left
        return self.topics()

    @property
    def size(self) -> int:
        """How many partitions the session has: all of them may wake while the fetch waits."""
        return len(self.session.partitions)

    @property
    def has_others(self) -> bool:
        """Whether partitions can be read that are not looked at."""
        return self.session.has_sleepers

    def topics(self) -> ResolvedTopics:
        """Return what is awake now, looked up."""
        session = self.session
        self._sessions.rouse_if_starts_moved(session)
        if self._changes == session.changes:
            return self._topics
        assert self._find is not None
        self._changes = session.changes
        self._topics, self._beds = topics, beds = [], {}
        ident: Ident | None = None
        some: list[tuple[FetchPartition, Resolved]] = []
        for cached in session.in_order():
            if cached.ident in self._refused:
                continue
            found = self._find(cached)
            if isinstance(found, Partition):
                beds[cached] = found
            if cached.ident != ident:
                ident, some = cached.ident, []
                topics.append((_topic(ident), some))
            some.append((cached.asked, found))
        return topics

    def parked(self, fetch: ParkedFetch) -> None:
        """Have `fetch` end, too, with the news of a partition that sleeps now."""
        if self._request.abandoned:  # while its rights were asked: it is not answered
            self.end()
            return
        self.session.parked = fetch
        forget = self._request.on_abandon

        def abandoned() -> None:
            self.end()
            if forget is not None:
                forget()

        if forget is not None:  # it is parked
            self._request.on_abandon = abandoned

    # -- what is said ---------------------------------------------------------------------------

    def answer(self, response: FetchResponse) -> FetchResponse:
        """Leave out what the client knows."""
        session = self.session
        if session.epoch != self._epoch:
            code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            return FetchResponse(error_code=code, session_id=session.id)
        if response.error_code:
            return response
        kept: list[FetchableTopicResponse] = []
        for topic in response.responses:
            ident = topic.topic_id if session.by_id else topic.topic
            news = [
                data
                for data in topic.partitions
                if self._tell(session.partitions[ident, data.partition_index], data)
            ]
            if news:
                topic.partitions = news
                kept.append(topic)
        response.responses = kept
        response.session_id = session.id
        return response

    def _tell(self, cached: CachedPartition, data: PartitionData) -> bool:
        session = self.session
        is_news = cached.tell(data)
        if is_news:
            self._told.append(cached)
        if data.records:
            session.move_to_end(cached)
        elif not data.error_code and data.diverging_epoch is None:
            bed = self._beds.get(cached)
            if (
                bed is not None
                and self._sessions.partitions.has_this(bed)
                and not cached.has_news(bed, is_committed=session.is_committed)
                and self._sessions.cache.has(session)
            ):
                session.sleep(cached, bed)
        return is_news

    def withheld(self, response: FetchResponse) -> FetchResponse:
        """Forget what was told."""
        for cached in self._told:
            cached.told_mark = cached.told_start = UNTOLD
            self.session.wake(cached)
        return FetchResponse(error_code=response.error_code, session_id=response.session_id)

    def end(self) -> None:
        """Be over, whatever has ended it, and let the next fetch of the connection begin."""
        session = self.session
        if session.running is self._request:
            session.running = session.parked = None
            self._sessions.go_on(session)


def _topic(ident: Ident) -> FetchTopic:
    if isinstance(ident, str):
        return FetchTopic(topic=ident)
    return FetchTopic(topic_id=ident)
