"""From a request to its handler, and from whatever the handler gives back to the answer.

A handler (one row of `broker.handlers.HANDLERS`) is a plain function of the request and the
services. It returns the response message; or None, when nothing is to be sent; or a `Pending`;
or, where it must wait for files or for durability, a coroutine, which gets a task of its own.

What a handler did not foresee is this broker's fault, not the client's: it is logged with the
request it came from, counted, and answered with UNKNOWN_SERVER_ERROR in the shape of that API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from types import CoroutineType
from typing import Any

from broker.error_mapping import error_code_of
from broker.handlers import HANDLERS, Handler
from broker.pending import Pending
from broker.request import Request
from broker.services import Services
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

logger = logging.getLogger("barnabas.requests")


class Dispatcher:
    """Calls handlers and sends what they answer."""

    __slots__ = ("_handlers", "_services", "_tasks")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handlers: dict[int, Handler] = {row.api_key: row for row in HANDLERS}
        self._tasks: set[asyncio.Task[None]] = set()  # bounded by the requests in flight

    def dispatch(self, request: Request) -> None:
        """Handle one request; never raises."""
        try:
            result = self._handlers[request.header.api_key].handle(request, self._services)
            kind = type(result)
            if kind is Pending:
                result.then(partial(self._answer_later, request))
            elif kind is CoroutineType:
                self._spawn(request, result)
            else:
                self._answer(request, result)
        except Exception as error:
            self._fail(request, error)

    async def finish(self) -> None:
        """Wait for the handlers that still run as tasks."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _answer(self, request: Request, response: Any) -> None:
        if response is None:
            request.connection.respond(request, ())
        else:
            request.connection.respond(
                request, request.info.dialect.encode_response(request.header, response)
            )

    def _answer_later(self, request: Request, response: Any) -> None:
        # Called by whoever completed the Pending: its work must not end over our answer.
        try:
            self._answer(request, response)
        except Exception as error:
            self._fail(request, error)

    def _spawn(self, request: Request, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(request, coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, request: Request, coroutine: Coroutine[Any, Any, Any]) -> None:
        try:
            response = await coroutine
            if type(response) is Pending:
                response.then(partial(self._answer_later, request))
            else:
                self._answer(request, response)
        except Exception as error:
            self._fail(request, error)

    def _fail(self, request: Request, error: Exception) -> None:
        header = request.header
        code = error_code_of(error)
        self._services.metrics.request_errors += 1
        logger.error(
            "%s v%d from %s:%d (client %r, correlation id %d) failed, answered %s: %s",
            ApiKey(header.api_key).name,
            header.api_version,
            request.info.peer_host,
            request.info.peer_port,
            header.client_id,
            header.correlation_id,
            code.name,
            error,
            exc_info=error if code is ErrorCode.UNKNOWN_SERVER_ERROR else None,
        )
        try:
            row = self._handlers[header.api_key]
            self._answer(request, row.error_response(request, code))
        except Exception as second:
            logger.error("no answer could be made, closing the connection", exc_info=second)
            request.connection.abort("internal error")
