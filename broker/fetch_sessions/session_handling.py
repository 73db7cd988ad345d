"""Finds or begins the session of a fetch, in front of its rights and its handler.

    fetch ── without a session ───────────────────────────────── rights, handler ── answered
      ├───── full: ends the session that it names ────────────── rights, handler ── begins one
      ├───── unknown session, or another epoch than its next ── refused
      └───── the next epoch: partitions are added, changed and forgotten
                 └── none left: as without a session
                 └── what is awake ──────────────────────────── rights, handler ── what is new

A connection's fetches within one session go one after the other, as all its requests do in Kafka:
the next begins when the one before it is answered. Other connections may use the session, too.

Followers get no session: they are refused anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

from broker.fetch_sessions.fetch_session import FetchSession, Ident
from broker.fetch_sessions.session_cache import NAMED_MAX, SessionCache
from broker.fetch_sessions.session_fetch import Full, Incremental
from broker.partitions.partition import Partitions
from broker.runtime import owners
from broker.runtime.fetch_body import SessionFetch
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.request import Pending, Request
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from storage.home import Home

if TYPE_CHECKING:
    from broker.security.acl.authorizer import Authorizer

TOPIC_ID_VERSION: Final = 13
REPLICA_STATE_VERSION: Final = 15
FULL: Final = 0
FINAL: Final = -1
ROUSE_MS: Final = 1_000  # in case a wake-up was lost

Handle = Callable[[Request, Any], Any]


class FetchSessions:
    """The sessions of one broker, and the fetches within them."""

    def __init__(
        self,
        cache: SessionCache,
        partitions: Partitions,
        names: Callable[[bytes], str],
        home: Home,
        now_ms: Callable[[], int],
        authorizer: Authorizer | None,
        metrics: Metrics,
    ) -> None:
        """`names` returns the name of a topic id, "" if it is unknown."""
        self.cache = cache
        self.partitions = partitions
        self._names = names
        self._authorizer = authorizer  # None: all is allowed
        self._home = home
        self._now_ms = now_ms
        self._metrics = metrics

    def around(self, handle: Handle) -> Handle:
        """Return the handler of fetches with sessions around it."""
        return partial(self._handle, handle)

    def _handle(self, inner: Handle, request: Request, services: Any) -> Any:
        body: FetchRequest = request.body
        epoch = body.session_epoch
        if epoch == FINAL and not body.session_id:  # most clients that have no sessions
            return inner(request, services)
        if epoch not in (FULL, FINAL):
            return self._within(inner, request, services)
        if body.session_id:
            self.cache.remove(body.session_id)
        if epoch == FINAL or _is_of_replica(request):
            return inner(request, services)
        full = Full(self, body, by_id=request.header.api_version >= TOPIC_ID_VERSION)
        request.body = _with(body, full)
        return self._answered(full, inner, request, services)

    def _within(self, inner: Handle, request: Request, services: Any) -> Any:
        body: FetchRequest = request.body
        if request.abandoned:  # its connection is gone: it must not move the epoch
            return None
        session = self.cache.get(body.session_id)
        if session is None:
            return _refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.has_before(request):
            return self._wait(session, inner, request, services)
        return self._begin(session, inner, request, services)

    def _begin(self, session: FetchSession, inner: Handle, request: Request, services: Any) -> Any:
        body: FetchRequest = request.body
        by_id = request.header.api_version >= TOPIC_ID_VERSION
        if session.epoch != body.session_epoch:
            return _refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            return _refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        forgotten_count = sum(len(topic.partitions) for topic in body.forgotten_topics_data)
        if forgotten_count > NAMED_MAX or not self.cache.may_grow(session, body.topics):
            self.cache.remove(session.id)
            return _refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._update(session, body)
        if not session.partitions:
            session.next_epoch()  # for a fetch that runs on another connection
            self.cache.remove(session.id)
            return inner(request, services)
        self.cache.touch(session)
        self._wake(session, request)
        fetch = Incremental(self, request, session)
        request.body = _with(body, fetch)
        request.body.topics = [] if self._authorizer is None else fetch.offer()
        return self._answered(fetch, inner, request, services)

    def _update(self, session: FetchSession, body: FetchRequest) -> None:
        """Do as the request says with its partitions."""
        by_id = session.by_id
        count = len(session.partitions)
        for topic in body.topics:
            ident: Ident = topic.topic_id if by_id else topic.topic
            name = self.name_of(ident)
            for asked in topic.partitions:
                session.put(ident, name, asked)
        for forgotten in body.forgotten_topics_data:
            ident = forgotten.topic_id if by_id else forgotten.topic
            for number in forgotten.partitions:
                session.forget((ident, number))
        self.cache.grew(len(session.partitions) - count)

    def _wake(self, session: FetchSession, request: Request) -> None:
        """Wake what may have news for a reason that its log does not know."""
        body: FetchRequest = request.body
        rights = None
        if self._authorizer is not None:
            info = request.info
            rights = (info.principal, info.peer_host, self._authorizer.version)
        is_committed = body.isolation_level == 1
        if rights != session.rights or is_committed != session.is_committed:
            session.rights, session.is_committed = rights, is_committed
            session.wake_all()
        now_ms = self._now_ms()
        if now_ms - session.roused_ms >= ROUSE_MS:
            session.roused_ms = now_ms
            self._rouse(session)

    def rouse_if_starts_moved(self, session: FetchSession) -> None:
        """Wake the partitions of a session whose log start has moved."""
        if session.start_moves != self._home.start_moves:
            session.start_moves = self._home.start_moves
            self._rouse(session)

    def _rouse(self, session: FetchSession) -> None:
        self._metrics.fetch_wakeups_lost += session.rouse()

    def name_of(self, ident: Ident) -> str:
        """Return the name of a topic; "" if its id is unknown."""
        return ident if isinstance(ident, str) else self._names(ident)

    # -- one after the other --------------------------------------------------------------------

    def _wait(
        self, session: FetchSession, inner: Handle, request: Request, services: Any
    ) -> Pending:
        pending = Pending()
        resume = partial(self._resume, session, pending, inner, request, services)
        session.behind.append((request.connection, resume))
        return pending

    def _resume(
        self,
        session: FetchSession,
        pending: Pending,
        inner: Handle,
        request: Request,
        services: Any,
    ) -> None:
        try:
            if request.abandoned:
                pending.complete(None)
            elif self.cache.has(session):
                pending.complete(self._begin(session, inner, request, services))
            else:
                pending.complete(_refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        except Exception as error:
            pending.fail(error)
        if session.running is None:  # it was refused
            self.go_on(session)

    def go_on(self, session: FetchSession) -> None:
        """Begin the fetch that waits behind one that has ended."""
        if session.behind and not session.goes_on:
            session.goes_on = True
            owners.soon(Owner.REQUEST, self._go_on, session)

    def _go_on(self, session: FetchSession) -> None:
        session.goes_on = False
        _, resume = session.behind.popleft()  # a later one of its connection was behind it
        resume()

    # -- the answer -----------------------------------------------------------------------------

    def _answered(
        self, fetch: Full | Incremental, inner: Handle, request: Request, services: Any
    ) -> Any:
        try:
            return self._complete(fetch, inner(request, services))
        except BaseException:
            fetch.end()
            raise

    def _complete(self, fetch: Full | Incremental, result: Any) -> Any:
        """Return what a handler returns, such that its answer tells what is new."""
        kind = type(result)
        if kind is Pending:
            return _completed_later(partial(self._complete, fetch), fetch, result)
        if kind is GeneratorType:
            steps = self._complete_steps(fetch, result)
            next(steps)  # one that has not begun would not notice that it is closed
            return steps
        if kind is CoroutineType:
            return self._complete_task(fetch, result)
        try:
            return None if result is None else fetch.answer(result)
        finally:
            fetch.end()

    def _complete_steps(
        self, fetch: Full | Incremental, steps: Generator[int, None, Any]
    ) -> Generator[int, None, Any]:
        try:
            yield 0
            result = yield from steps
        except BaseException:  # or closed, as its client is gone
            fetch.end()
            raise
        return self._complete(fetch, result)

    async def _complete_task(
        self, fetch: Full | Incremental, task: Coroutine[Any, Any, Any]
    ) -> Any:
        try:
            result = await task
        except BaseException:
            fetch.end()
            raise
        return self._complete(fetch, result)


def _completed_later(
    complete: Callable[[Any], Any], fetch: Full | Incremental, result: Pending
) -> Pending:
    pending = Pending()

    def failed(error: Exception) -> None:
        fetch.end()
        pending.fail(error)

    def completed(answer: Any) -> None:
        try:
            answered = complete(answer)
        except Exception as error:
            failed(error)
        else:
            pending.complete(answered)

    result.then(completed, failed)
    return pending


def _with(body: FetchRequest, context: Full | Incremental) -> SessionFetch:
    return SessionFetch(
        cluster_id=body.cluster_id,
        replica_id=body.replica_id,
        replica_state=body.replica_state,
        max_wait_ms=body.max_wait_ms,
        min_bytes=body.min_bytes,
        max_bytes=body.max_bytes,
        isolation_level=body.isolation_level,
        session_id=body.session_id,
        session_epoch=body.session_epoch,
        topics=body.topics,
        rack_id=body.rack_id,
        context=context,
    )


def _refusal(code: ErrorCode) -> FetchResponse:
    return FetchResponse(error_code=code, session_id=0)


def _is_of_replica(request: Request) -> bool:
    body: FetchRequest = request.body
    if request.header.api_version >= REPLICA_STATE_VERSION:
        return body.replica_state.replica_id >= 0
    return body.replica_id >= 0
