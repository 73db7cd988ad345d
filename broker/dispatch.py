"""Pass a request to its handler, and turn the handler's result into an answer.

A handler (one row of `broker.handlers.HANDLERS`) is a plain function of the request and the
services. It returns one of these:

- the response message, or None if no answer is to be sent;
- a generator, if the answer is made in steps (`broker.runtime.steps`);
- a `Pending`;
- a coroutine, if it waits for files or for durability; the coroutine runs as a task of its own, or
  for the APIs `IN_PLACE` without a task (`broker.runtime.in_place`).

The last three end with any of those before them. The dispatcher encodes an answer on the loop, or
in a thread if that opens many records (`RequestHeader.wants_thread`). A large request names much,
so its answer is long: unless it is of Produce or Fetch, its errors are counted and it is encoded in
steps, however it was made.

While pieces of a large Produce are left, the requests of its connection wait behind it, as for a
client of Kafka (`broker.large_produces`).

If the broker has an authorizer, each handler is behind a guard (`broker.rights.guard`), which
returns the same kinds of results.

An unexpected exception of a handler is the broker's fault, not the client's: it is logged with its
request, counted, and answered with UNKNOWN_SERVER_ERROR in the shape of that API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import cached_property, partial
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final

from broker.error_counts import COUNTED_WHERE_MADE, ErrorCounts
from broker.error_mapping import error_code_of
from broker.handlers import HANDLERS, Handler
from broker.read_only.refusals import refuse_writes
from broker.runtime import owners
from broker.runtime.in_place import InPlace
from broker.runtime.lines import Lines, Turn
from broker.runtime.owners import Owner
from broker.runtime.record_work import WalkAbandoned
from broker.runtime.request import Buffer, Pending, Request
from broker.runtime.steps import Stepper, Steps
from broker.runtime.traffic import Counts
from broker.services import Services
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.security.acl.authorizer import Authorizer

logger = logging.getLogger("barnabas.requests")

Sending = Callable[[Request, Any], None]

# Frequent, and their coroutines wait for nothing that needs a task.
IN_PLACE: Final = frozenset((ApiKey.END_TXN,))
LARGE_REQUEST_BYTES: Final = 16 * 1024  # about a millisecond of an answer, if it names short names


class GuardedHandler(Handler):
    """A handler behind the rights that its row declares."""

    def __init__(self, row: Handler, authorizer: Authorizer, lines: Lines) -> None:
        super().__init__(row.api_key, row.min_version, row.max_version, *row.rights)
        self._row = row
        self._authorizer = authorizer
        self._lines = lines

    @cached_property
    def handle(self) -> Callable[[Request, Services], Any]:
        """The function that asks for the rights, then serves a request."""
        from broker.rights.guard import Guarded, guarded

        row = self._row
        api = row.request.__name__.removesuffix("Request")
        behind = Guarded(api, row.rights, row.handle, row.error_response)
        return guarded(behind, self._authorizer, self._lines)


class SessionedHandler(Handler):
    """A handler of fetches, with sessions around it."""

    def __init__(self, row: Handler, services: Services) -> None:
        super().__init__(row.api_key, row.min_version, row.max_version, *row.rights)
        self._row = row
        self._services = services

    @cached_property
    def handle(self) -> Callable[[Request, Services], Any]:
        """The function that finds the session, then serves a request."""
        return self._services.fetch_sessions.around(self._row.handle)


class Dispatcher:
    """Calls handlers and sends their answers."""

    __slots__ = (
        "_answered",
        "_handlers",
        "_in_place",
        "_produces",
        "_served",
        "_services",
        "_stepper",
        "_tasks",
    )

    def __init__(self, services: Services) -> None:
        self._services = services
        self._produces = services.large_produces.lines.waiting
        rows = refuse_writes(HANDLERS) if services.config.barnabas_read_only else HANDLERS
        if services.authorizer is not None:
            lines = Lines()
            rows = [GuardedHandler(row, services.authorizer, lines) for row in rows]
        self._handlers: dict[int, Handler] = {row.api_key: row for row in rows}
        fetches = self._handlers[ApiKey.FETCH]
        self._handlers[ApiKey.FETCH] = SessionedHandler(fetches, services)
        self._tasks: set[asyncio.Task[None]] = set()  # bounded by the requests in flight
        self._in_place = InPlace(Owner.REQUEST)  # so are these
        self._stepper = Stepper(
            services.clock, services.metrics, self._ended, self._fail, self._finished
        )
        traffic = services.metrics.traffic
        for row in rows:
            any_version = row.api_key == ApiKey.API_VERSIONS
            traffic.serve(row.api_key, row.min_version, row.max_version, any_version=any_version)
        self._served = self._counted()
        self._answered = ErrorCounts(traffic)

    def dispatch(self, request: Request) -> None:
        """Handle one request; never raises."""
        quotas = self._services.quotas.clients
        try:
            header = request.header
            api_key = header.api_key
            counts, handler, answer = self._served[api_key]
            counts[header.api_version] += 1
            if quotas is not None:
                quotas.begin()
            if (
                self._produces
                and api_key != ApiKey.PRODUCE
                and request.connection in self._produces
            ):
                result = self._handle_behind(self._services.large_produces.lines, request)
            else:
                result = handler.handle(request, self._services)
            if quotas is not None:
                quotas.handled(request)
            kind: type[Any] = type(result)  # asked here, too: the usual answer saves a call
            if kind is CoroutineType:
                self._spawn(request, result)
            elif kind is Pending or kind is GeneratorType:
                self._ended(request, result)
            else:
                answer(request, result)
        except Exception as error:
            self._fail(request, error)

    def _handle_behind(self, lines: Lines, request: Request) -> Coroutine[Any, Any, Any]:
        """Handle a request when those before it in the line of its connection have been."""
        return self._in_turn(lines.turn(request.connection), request)

    async def _in_turn(self, turn: Turn, request: Request) -> Any:
        async with turn:
            result = self._handlers[request.header.api_key].handle(request, self._services)
        return await result if type(result) is CoroutineType else result

    def put_around(self, wrap: Callable[[Handler], Handler]) -> None:
        """Replace each handler by another around it. Before the first request."""
        self._handlers = {key: wrap(row) for key, row in self._handlers.items()}
        self._served = self._counted()

    def _counted(self) -> dict[int, tuple[Counts, Handler, Sending]]:
        """Return each handler between what counts its requests and what answers them."""
        counts = self._services.metrics.traffic.requests
        return {
            key: (
                counts[key],
                row,
                self._answer if key in COUNTED_WHERE_MADE else self._search_and_answer,
            )
            for key, row in self._handlers.items()
        }

    @property
    def running_count(self) -> int:
        """How many handlers run as tasks or in place."""
        return len(self._tasks) + self._in_place.count

    async def finish(self) -> None:
        """Wait for the handlers that still run."""
        while self._tasks or self._in_place.count or self._stepper.is_busy:
            await self._in_place.finish()
            await asyncio.wait(self._tasks) if self._tasks else await asyncio.sleep(0)

    def _ended(self, request: Request, result: Any) -> None:
        """Answer with a result, or arrange for the answer, by the result's type."""
        kind = type(result)
        if kind is Pending:
            result.then(partial(self._answer_later, request), partial(self._fail, request))
        elif kind is GeneratorType:
            self._stepper.begin(request, result)
        else:
            self._served[request.header.api_key][2](request, result)

    def _finished(self, request: Request, response: Any) -> Steps:
        """Return, in steps, what is sent of an answer that is encoded in steps."""
        if (quotas := self._services.quotas.clients) is not None:
            response = quotas.answer(request, response)
        if request.header.api_key not in COUNTED_WHERE_MADE:
            yield from self._answered.count_in_steps(request.header.api_key, response)
        return response

    def _search_and_answer(self, request: Request, response: Any) -> None:
        """Count the errors in an answer, and send it; in steps if it may be long."""
        if response is not None:
            if request.frame_bytes > LARGE_REQUEST_BYTES and not request.header.opens_records:
                self._stepper.encode(request, response)
                return
            self._answered.count(request.header.api_key, response)
        self._answer(request, response)

    def _answer(self, request: Request, response: Any) -> None:
        if (quotas := self._services.quotas.clients) is not None:
            response = quotas.answer(request, response)
        if response is None:
            request.connection.respond(request, ())
            return
        header = request.header
        if header.opens_records and header.wants_thread(response):
            self._answer_from_thread(request, response)
        else:
            request.connection.respond(
                request, request.info.dialect.encode_response(header, response)
            )

    def _answer_from_thread(self, request: Request, response: Any) -> None:
        """Have a thread encode the answer: it opens records (`broker.runtime.record_work`)."""
        header = request.header
        encoded: list[Sequence[Buffer]] = []

        def encode() -> None:
            encoded.append(request.info.dialect.encode_response(header, response))

        def ended(error: BaseException | None) -> None:
            if isinstance(error, Exception):
                self._fail(request, error)
            else:
                self._services.metrics.record_walks_refused += header.refused_count()
                request.connection.respond(request, encoded[0])

        self._services.record_work.submit(Owner.REQUEST, request.connection, encode, ended)

    def _answer_later(self, request: Request, response: Any) -> None:
        # The caller completed the Pending: a failure of our answer must not end its work.
        try:
            self._ended(request, response)
        except Exception as error:
            self._fail(request, error)

    def _spawn(self, request: Request, coroutine: Coroutine[Any, Any, Any]) -> None:
        if (quotas := self._services.quotas.clients) is not None:
            coroutine = quotas.timed(request, coroutine)
        if request.header.api_key in IN_PLACE:
            self._in_place.begin(
                coroutine, partial(self._answer_later, request), partial(self._fail, request)
            )
            return
        owners.spawn(Owner.REQUEST, self._finish(request, coroutine), among=self._tasks)

    async def _finish(self, request: Request, coroutine: Coroutine[Any, Any, Any]) -> None:
        try:
            self._ended(request, await coroutine)
        except Exception as error:
            self._fail(request, error)

    def _fail(self, request: Request, error: Exception) -> None:
        header = request.header
        code = error_code_of(error)
        self._services.metrics.request_errors += 1
        is_expected = isinstance(error, WalkAbandoned)  # the broker is stopping: no defect
        logger.log(
            logging.INFO if is_expected else logging.ERROR,
            "%(api)s v%(version)d from %(host)s:%(port)d (client %(client_id)r, correlation id"
            " %(correlation_id)d) failed, answered %(answer)s: %(error)s",
            {
                "api": ApiKey(header.api_key).name,
                "version": header.api_version,
                "host": request.info.peer_host,
                "port": request.info.peer_port,
                "client_id": header.client_id,
                "correlation_id": header.correlation_id,
                "answer": code.name,
                "error": error,
            },
            exc_info=error if code is ErrorCode.UNKNOWN_SERVER_ERROR else None,
        )
        try:
            response = self._handlers[header.api_key].error_response(request, code)
            if header.api_key in COUNTED_WHERE_MADE:
                self._services.metrics.traffic.errors[header.api_key, int(code)] += 1
            else:
                self._answered.count(header.api_key, response)
            self._answer(request, response)  # at once: that ends here, whatever fails
        except Exception as second:
            logger.error("cannot make an error response; closing the connection", exc_info=second)
            request.give_up()
