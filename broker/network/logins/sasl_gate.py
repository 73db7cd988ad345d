"""The gate of a connection whose client logs in by SASL: what passes it in which state.

    state       ApiVersions          SaslHandshake        SaslAuthenticate     any other API
    BEGIN       passes, once         chooses a mechanism  closed               closed
    VERSIONED   closed               chooses a mechanism  closed               closed
    TOKENS      error 34, closed     error 34, closed     one token            error 34, closed
    RAW_TOKENS  each frame is a token (SaslHandshake 0)
    MISMATCHED  closed               closed               closed               closed
    OPEN        passes               passes, or begins    passes               passes
                                     the login again
    ENDED       nothing is read any more

ApiVersions in a version that is not served does not count: its answer names the versions, and the
client asks again. What passes goes to the handlers; the gate answers the rest itself. A closed gate
takes one frame at a time, of `FRAME_BYTES_MAX` at most, and a client that is silent for
`SILENCE_SECONDS_MAX` ends. Other APIs are not even decoded before the handshake; after it an error
in their own shape names the mistake, if the request is small.

A login that fails is answered after a delay (`connection.failed.authentication.delay.ms`). The
connection ends a moment later: a client that finds answer and end together may show only the end.
Both are timers, which hold up nothing but that client.

Login again (KIP-368). If logins have an end, a SaslHandshake on an open connection begins another,
at most once a second, with the same mechanism and for the same principal. Its answers wait behind
those of earlier requests, which may be parked (I7): a client that waits for them is not silent.
After the end of a login the next request closes the connection. So does the removal of the user, at
once (`FrameGate.end_if_removed`).

The mechanisms themselves are in `broker.security.sasl`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from broker.network.logins.gated_connection import GatedConnection, SaslParts
from broker.network.logins.login_errors import OutOfTurn
from broker.network.logins.session import LoginSession
from broker.network.reading import Hold
from broker.runtime import owners
from broker.runtime.clock import SECOND_NS
from broker.runtime.one_by_one import TooManyWait
from broker.runtime.owners import Owner
from broker.runtime.request import Buffer, Request
from broker.security.sasl.mechanism import AuthenticationFailed, Identity, Mechanism, Reply
from protocol.api_keys import ApiKey
from protocol.dialect import RequestHeader
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    import asyncio

FRAME_BYTES_MAX: Final = 64 * 1024
SILENCE_SECONDS_MAX: Final = 10
EXPLAINED_BYTES_MAX: Final = 4 * 1024  # of a request out of turn that is answered
VERSIONS_MAX: Final = 4  # the newest ApiVersions that is served

_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_AUTHENTICATE: Final = int(ApiKey.SASL_AUTHENTICATE)
_RAW_VERSION: Final = -1
_HELD_BY_US: Final = Hold.THROTTLED | Hold.QUEUE_FULL
_SIZE = struct.Struct(">i")


class LoginState(Enum):
    """Where a login stands: the rows of the table above."""

    BEGIN = "begin"
    VERSIONED = "versioned"
    TOKENS = "tokens"
    RAW_TOKENS = "raw tokens"
    MISMATCHED = "mismatched"
    OPEN = "open"
    ENDED = "ended"


class SaslGate:
    """The login of one connection."""

    __slots__ = (
        "_connection",
        "_deadline_ns",
        "_is_again",
        "_login",
        "_mechanism",
        "_parts",
        "_pending",
        "_state",
        "_usual_bytes_max",
        "is_closed",
        "session",
    )

    def __init__(self, connection: GatedConnection, parts: SaslParts) -> None:
        self.is_closed = True
        self._connection = connection
        self._usual_bytes_max = connection.reader.size_max
        connection.reader.size_max = min(FRAME_BYTES_MAX, self._usual_bytes_max)
        self._parts = parts
        self._state = LoginState.BEGIN
        self._mechanism = ""
        self._login: Mechanism | None = None
        self._is_again = False
        self.session = LoginSession(parts.clock)
        self._pending: asyncio.TimerHandle | asyncio.Task[None] | None = None
        self._heard()

    def _heard(self) -> None:
        self._deadline_ns = self._parts.clock.monotonic_ns() + SILENCE_SECONDS_MAX * SECOND_NS

    def end_if_silent(self, now_ns: int) -> None:
        """Close the connection if its client, and nothing else, has delayed the login too long."""
        if self._connection.slots or self._connection.reading.holds & _HELD_BY_US:
            self._heard()
        elif self.is_closed and self._pending is None and self._deadline_ns < now_ns:
            self._parts.metrics.logins_timed_out += 1
            self._connection.refuse(TimeoutError(f"no login, silent for {SILENCE_SECONDS_MAX} s"))

    @property
    def takes_raw_tokens(self) -> bool:
        """Whether the next frame is a token, without a header."""
        return self._state is LoginState.RAW_TOKENS

    # -- an open gate ------------------------------------------------------------------------------

    def passes(self, api_key: int) -> bool:
        """Whether a request may go to its handler; if not, the gate is closed now, or all over."""
        session = self.session
        if not session.has_end:
            return True
        if api_key == _HANDSHAKE and session.may_renew():
            self._is_again = self.is_closed = True
            self._state = LoginState.VERSIONED
            self._heard()
            return False
        if session.is_over:
            self._parts.metrics.logins_expired += 1
            self._connection.abort("its login has expired")
            return False
        return True

    # -- a closed gate -----------------------------------------------------------------------------

    def check(self, api_key: int, frame_bytes: int) -> None:
        """Raise OutOfTurn if a frame closes the connection without being decoded."""
        state = self._state
        check_size(frame_bytes)
        if state is LoginState.TOKENS:
            if api_key == _AUTHENTICATE or frame_bytes <= EXPLAINED_BYTES_MAX:
                return
        elif state is not LoginState.MISMATCHED and (
            api_key == _HANDSHAKE or (api_key == _VERSIONS and state is LoginState.BEGIN)
        ):
            return
        raise OutOfTurn(_mistake(api_key, state))

    def take(self, request: Request) -> bool:
        """Take the newest request of the connection; return True if it is for its handler."""
        header = request.header
        if header.api_key == _VERSIONS and self._state is LoginState.BEGIN:
            if 0 <= header.api_version <= VERSIONS_MAX:
                self._state = LoginState.VERSIONED
                self._heard()
            return True
        if self._state is not LoginState.TOKENS:
            self._handshake(request)
        elif header.api_key == _AUTHENTICATE:
            self._token(request, bytes(request.body.auth_bytes))
        elif header.api_key == _HANDSHAKE:
            answer = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self._fail(request, answer, "SASL_HANDSHAKE instead of a token")
        else:
            answer = self._parts.error_answer(request, ErrorCode.ILLEGAL_SASL_STATE)
            self._fail(request, answer, _mistake(header.api_key, self._state))
        return False

    def take_raw_token(self, frame: bytearray) -> None:
        """Take a frame that is a token."""
        header = RequestHeader(_AUTHENTICATE, _RAW_VERSION, 0, None)
        request = Request(self._connection, header, None, len(frame) + _SIZE.size)
        self._connection.slots.append(request)
        self._token(request, bytes(frame))

    def _handshake(self, request: Request) -> None:
        body: SaslHandshakeRequest = request.body
        offers = self._parts.listeners.of(self._connection.info.listener.name).offers
        offer = offers.get(body.mechanism)
        if offer is None:
            answer = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(offers)
            )
            offered = ", ".join(offers)
            self._fail(request, answer, f"mechanism {body.mechanism[:40]!r}; offered: {offered}")
            return
        if self._is_again and body.mechanism != self._mechanism:
            self._state = LoginState.MISMATCHED
        else:
            self._mechanism = body.mechanism
            self._login = offer.begin()
            self._state = LoginState.TOKENS if request.header.api_version else LoginState.RAW_TOKENS
        self._respond(request, SaslHandshakeResponse(mechanisms=list(offers)))

    def _token(self, request: Request, token: bytes) -> None:
        assert self._login is not None
        try:
            reply = self._login.respond(token)
        except AuthenticationFailed as error:
            self._refused(request, error)
        except Exception as error:
            self._failed(request, error)
        else:
            if isinstance(reply, Reply):
                self._replied(request, reply)
            else:
                assert isinstance(reply, CoroutineType)
                self._wait_for(request, owners.spawn(Owner.LOGIN, self._finish(request, reply)))

    async def _finish(self, request: Request, coroutine: CoroutineType[Any, Any, Reply]) -> None:
        try:
            reply = await coroutine
        except AuthenticationFailed as error:
            self._done_waiting(request)
            self._refused(request, error)
        except TooManyWait:
            self._done_waiting(request)
            said = "Authentication failed: the broker is busy with other logins; try again"
            self._refused(request, AuthenticationFailed(said))
        except Exception as error:
            self._done_waiting(request)
            self._failed(request, error)
        else:
            self._done_waiting(request)
            self._replied(request, reply)

    def _wait_for(
        self, request: Request, pending: asyncio.TimerHandle | asyncio.Task[None]
    ) -> None:
        """Read nothing more until a task or a timer is done; the end of the client ends it."""
        self._pending = pending
        request.on_abandon = self._drop
        self._connection.reading.hold(Hold.LOGIN)

    def _done_waiting(self, request: Request) -> None:
        self._pending = None
        request.on_abandon = None
        self._connection.release(Hold.LOGIN)

    def _drop(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()

    # -- the end of a step -------------------------------------------------------------------------

    def _replied(self, request: Request, reply: Reply) -> None:
        lifetime_ms = 0
        if reply.identity is not None:
            principal = f"User:{reply.identity.user}"
            before = self._connection.info.principal
            if self._is_again and principal != before:
                said = "Cannot change principals during re-authentication from"
                said = f"{said} {before.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
                self._refused(request, AuthenticationFailed(said))
                return
            lifetime_ms = self._open(principal, reply.identity)
        if request.header.api_version == _RAW_VERSION:
            self._send(request, [_SIZE.pack(len(reply.token)) + reply.token])
        else:
            answer = SaslAuthenticateResponse(
                auth_bytes=reply.token, session_lifetime_ms=lifetime_ms
            )
            self._respond(request, answer)

    def _open(self, principal: str, identity: Identity) -> int:
        """Open the gate; return for how long, in ms, or 0."""
        parts, connection = self._parts, self._connection
        offer = parts.listeners.of(connection.info.listener.name).offers.get(self._mechanism)
        max_reauth_ms = offer.max_reauth_ms if offer is not None else 0
        lifetime_ms = self.session.begin(max_reauth_ms, identity)
        parts.metrics.logins += 1
        connection.info.principal = principal
        self._login = None
        self._is_again = self.is_closed = False
        self._state = LoginState.OPEN
        parts.receive_freely(connection, self._usual_bytes_max)
        return lifetime_ms

    def _refused(self, request: Request, error: AuthenticationFailed) -> None:
        answer = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=error.said
        )
        self._fail(request, answer, error.why)

    def _failed(self, request: Request, error: Exception) -> None:
        """End the connection: the broker met an error that it did not foresee."""
        self._state = LoginState.ENDED
        owners.failed(Owner.LOGIN, error)
        request.give_up()

    def _fail(self, request: Request, answer: Any, why: str) -> None:
        """Count and log a failed login, and answer it after the delay."""
        parts, connection, info = self._parts, self._connection, self._connection.info
        self._state = LoginState.ENDED
        self._login = None
        connection.frames.clear()
        is_raw = request.header.api_version == _RAW_VERSION
        buffers = [] if is_raw else info.dialect.encode_response(request.header, answer)
        request.body = None
        parts.tell_failed(info, why)
        delay_ms = parts.listeners.of(info.listener.name).failed_delay_ms
        timer = owners.later(Owner.LOGIN, delay_ms / 1000, self._end, request, buffers)
        self._wait_for(request, timer)

    def _end(self, request: Request, buffers: Sequence[Buffer]) -> None:
        request.on_abandon = None
        self._connection.reading.hold(Hold.REFUSED)
        self._connection.respond(request, buffers)
        self._pending = self._parts.end(self._connection, is_answered=bool(buffers))

    def _respond(self, request: Request, answer: Any) -> None:
        self._send(request, self._connection.info.dialect.encode_response(request.header, answer))

    def _send(self, request: Request, buffers: Sequence[Buffer]) -> None:
        self._heard()
        self._connection.respond(request, buffers)


def check_size(frame_bytes: int) -> None:
    """Raise OutOfTurn for a large frame: an open gate has let the reader take any size."""
    if frame_bytes > FRAME_BYTES_MAX:
        raise OutOfTurn(
            f"{frame_bytes} bytes within a login; a login's requests have at most {FRAME_BYTES_MAX}"
        )


def _mistake(api_key: int, state: LoginState) -> str:
    """Say what a request out of turn was, and what its client was probably meant to do."""
    if state is LoginState.MISMATCHED:
        return "it has chosen another SASL mechanism to log in again"
    try:
        name = ApiKey(api_key).name
    except ValueError:
        return f"API key {api_key} before a login by SASL"
    if state is LoginState.TOKENS:
        return f"{name} instead of a token"
    return (
        f"{name} before a login: security.protocol=PLAINTEXT or SSL on a listener with SASL, where"
        " SASL_PLAINTEXT or SASL_SSL is meant"
    )
