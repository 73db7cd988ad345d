"""Every request on its way to its handler: noted, and what rules want done to it.

request ── noted, rules are met ── none: the handler
├── drop before ── the connection ends, the handler hears nothing
├── error ── answered here; for a topic, its part is, and the handler gets the rest
└── delay, drop after ── the handler, and its answer is held (`held_connection`)
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import replace
from functools import cached_property
from types import CoroutineType, GeneratorType
from typing import Any, Final, NamedTuple, cast

from broker.handlers import Handler
from broker.runtime.request import Pending, Request
from broker.services import Services
from broker.testing import named_topics
from broker.testing.asked_requests import AskedRequests
from broker.testing.fault_rules import OWN_CLIENT, RequestRule
from broker.testing.held_connection import WHY, HeldConnection
from broker.testing.rule_book import RuleBook
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

# Of a fetch as a whole; any other error belongs to its partitions.
OF_SESSIONS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class _NamedPart(NamedTuple):
    """A part of a request, for the function that answers an error to it."""

    body: Any
    header: Any
    connection: Any
    info: Any


class FaultedHandler(Handler):
    """A handler with the desk in front of it."""

    def __init__(self, row: Handler, desk: FaultDesk) -> None:
        super().__init__(row.api_key, row.min_version, row.max_version, *row.rights)
        self._row = row
        self._desk = desk

    @cached_property
    def handle(self) -> Callable[[Request, Services], Any]:
        """The function that notes a request, and serves it as the rules say."""
        row, desk = self._row, self._desk
        return lambda request, services: desk.handle(row, request, services)


class FaultDesk:
    """Applies the rules of `book` to requests."""

    def __init__(self, book: RuleBook, asked: AskedRequests) -> None:
        self.book = book
        self.asked = asked

    def handle(self, row: Handler, request: Request, services: Services) -> Any:
        """Serve a request as the rules say; return what a handler returns."""
        client = request.header.client_id or ""

        def name_of(topic_id: bytes) -> str | None:
            topic = services.topics.by_id(topic_id)
            return None if topic is None else topic.name

        topics = named_topics.named(row.api_key, request.body, name_of)
        met = self.book.meet_request(row.api_key, client, topics)
        if client != OWN_CLIENT:
            numbers = [rule.number for rule in met]
            self.asked.note(request, topics, numbers, services.clock.now_ms())
        if not met:
            return row.handle(request, services)
        drop = next((rule.drop for rule in met if rule.drop is not None), None)
        if drop == "before":
            request.connection.abort(WHY)
            return None
        delay = sum(rule.delay for rule in met)
        if delay or drop:
            real = cast("Any", request.connection)
            request.connection = HeldConnection(real, delay, drop)
        return self._answered(row, request, services, name_of, met)

    def _answered(
        self,
        row: Handler,
        request: Request,
        services: Services,
        name_of: named_topics.NameOf,
        met: list[RequestRule],
    ) -> Any:
        """Answer the errors of the rules, and let the handler answer the rest."""
        errors: list[Any] = []
        for rule in met:
            if rule.error is None:
                continue
            if rule.topic is None and row.api_key not in named_topics.SHAPES:
                return row.error_response(request, rule.error)
            part, rest = request.body, None
            if rule.topic is not None:
                part, rest = named_topics.split(row.api_key, request.body, name_of, rule.is_for)
            if part is not None:
                errors.append(_error_answer(row, request, part, rule.error))
            if rest is None:
                return _all_of(row.api_key, errors)
            request.body = rest
        if not errors:
            return row.handle(request, services)
        if row.api_key == ApiKey.FETCH:  # the errors are there: nothing is waited for
            request.body = replace(request.body, max_wait_ms=0, min_bytes=0)
        return _completed(row.handle(request, services), row.api_key, errors)


def _error_answer(row: Handler, request: Request, body: Any, code: ErrorCode) -> Any:
    part = _NamedPart(body, request.header, request.connection, request.info)
    answer = row.error_response(cast("Request", part), code)
    if row.api_key == ApiKey.FETCH and code not in OF_SESSIONS:
        return replace(answer, error_code=ErrorCode.NONE)
    return answer


def _all_of(api_key: int, answers: list[Any]) -> Any:
    """Return one answer of all; None if none is sent."""
    first, *rest = answers
    for more in rest if first is not None else ():
        first = named_topics.joined(api_key, first, more)
    return first


def _completed(result: Any, api_key: int, errors: list[Any]) -> Any:
    """Return a handler's result such that the errors are in its answer when it is there."""
    kind = type(result)
    if kind is Pending:
        pending = Pending()
        result.then(
            lambda answer: pending.complete(_completed(answer, api_key, errors)), pending.fail
        )
        return pending
    if kind is CoroutineType:
        return _completed_task(result, api_key, errors)
    if kind is GeneratorType:
        return _completed_steps(result, api_key, errors)
    return None if result is None else _all_of(api_key, [result, *errors])


async def _completed_task(result: Coroutine[Any, Any, Any], api_key: int, errors: list[Any]) -> Any:
    return _completed(await result, api_key, errors)


def _completed_steps(
    result: Generator[int, None, Any], api_key: int, errors: list[Any]
) -> Generator[int, None, Any]:
    answer = yield from result
    return _completed(answer, api_key, errors)
