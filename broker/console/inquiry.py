"""Asks the broker's handlers, as a client's connection would, for one visitor.

A request goes through the request queue to the handler of its API, and so under the visitor's
rights, the quotas of its user and the bounds of that API. Answers are not encoded: `_Unencoded`
takes the place of a dialect. Nothing is sent to a place whose visitor has gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, Final

from broker.assembly import Assembly
from broker.console.answers import ConsoleError
from broker.console.visitor import Visitor
from broker.runtime.request import Buffer, ConnectionInfo, Request
from protocol.api_keys import ApiKey
from protocol.dialect import Dialect, RequestHeader
from protocol.errors import ErrorCode

CLIENT_ID: Final = "barnabas-console"
_OTHER: Final = 409
STATUS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.NOT_COORDINATOR: 404,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
    ErrorCode.KAFKA_STORAGE_ERROR: 503,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.INVALID_CONFIG: 400,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 400,
    ErrorCode.INVALID_PARTITIONS: 400,
    ErrorCode.INVALID_REPLICATION_FACTOR: 400,
}
SAID: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The right to do this with the topic is missing:"
    " allow it with kafka-acls",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The right to do this with the group is missing:"
    " allow it with kafka-acls",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The right to do this with the cluster is missing:"
    " allow it with kafka-acls",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "There is no such topic or partition",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of this name exists",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group",
    ErrorCode.NOT_COORDINATOR: "There is no such group; if there was one, its log has failed",
    ErrorCode.NON_EMPTY_GROUP: "The group has members: stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "The group has members: stop them first",
    ErrorCode.KAFKA_STORAGE_ERROR: "The log has failed or the disk is full; see the log",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The groups are being loaded; try again",
    ErrorCode.POLICY_VIOLATION: "The broker serves a directory read-only",
}


class _Header(RequestHeader):
    """The header of a request of the console, which is in less of a hurry than clients."""

    __slots__ = ()
    copied_inline_max = 16 * 1024


class _Unencoded:
    """In place of a dialect: an answer stays a message."""

    def encode_response(self, _: RequestHeader, response: Any) -> list[Any]:
        return [response]

    def encode_in_steps(self, _: RequestHeader, response: Any) -> Generator[int, None, list[Any]]:
        yield 0
        return [response]


class _Reading:
    """A visitor over a quota is answered all the same; there is nothing to mute."""

    can_wait: Final = False

    def mute(self, throttle_ms: int) -> None:
        pass


class _Place:
    """In place of a connection: one request, and where its answer goes."""

    reading = _Reading()

    def __init__(self, info: ConnectionInfo) -> None:
        self.info = info
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def respond(self, request: Request, buffers: Sequence[Buffer]) -> None:
        request.buffers = buffers
        if not self.answer.done():
            if buffers:
                self.answer.set_result(buffers[0])
            else:
                self.answer.set_exception(_no_answer("the broker gave no answer"))

    def abort(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(_no_answer(reason))

    def refuse(self, error: Exception) -> None:
        self.abort(str(error))


def _no_answer(reason: str) -> ConsoleError:
    return ConsoleError(500, "UNKNOWN_SERVER_ERROR", f"The request failed: {reason}; see the log")


_DIALECT: Any = _Unencoded()
DIALECT: Dialect = _DIALECT


class Inquiry:
    """Asks for visitors; used on the loop."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly
        self.asked = 0  # requests so far

    async def ask(self, visitor: Visitor, api_key: ApiKey, version: int, body: Any) -> Any:
        """Return the handler's answer. Raises ConsoleError if there is no room for a request."""
        assembly = self._assembly
        queue = assembly.network.queue
        if queue.full:
            raise ConsoleError(503, "BUSY", "The broker's request queue is full; try again")
        listener = assembly.bound[0][0]
        info = ConnectionInfo(listener, DIALECT, ("", 0), (visitor.host, 0))
        info.principal = visitor.principal
        place = _Place(info)
        header = _Header(api_key, version, 0, CLIENT_ID, copies_records=True)
        request = Request(place, header, body, 0)
        assembly.services.metrics.requests_received += 1
        self.asked += 1
        queue.put(request)
        try:
            return await place.answer
        except asyncio.CancelledError:
            request.abandon()
            raise


def check(code: int, message: str | None = None, what: str = "") -> None:
    """Raise the refusal for an error code of an answer; for NONE, return."""
    if code == ErrorCode.NONE:
        return
    known = ErrorCode(code)  # type: ignore[call-arg]
    text = message or SAID.get(known) or known.message
    said = f"{what}: {text}" if what else text
    raise ConsoleError(STATUS.get(known, _OTHER), known.name, said)
