"""Log in by SASL on a connection for Kafka's protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from client.codes import BrokerError, code_text
from client.logins import Login, LoginError
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Call = Callable[[Any, type[Any]], Any]


def log_in(address: str, login: Login, call: Call) -> None:
    """Log in; `call` sends a request and returns its answer. Raises BrokerError."""
    answer = call(SaslHandshakeRequest(mechanism=login.mechanism), SaslHandshakeResponse)
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise BrokerError(
            f"{address} does not offer {login.mechanism}, but {', '.join(answer.mechanisms)}: set"
            " sasl.mechanism (--command-config)"
        )
    _check(address, login, answer.error_code, "")
    try:
        exchange = login.begin()
    except LoginError as error:
        raise BrokerError(str(error)) from None
    token: bytes | None = exchange.first
    while token is not None:
        given = call(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
        _check(address, login, given.error_code, given.error_message or "")
        try:
            token = exchange.next(given.auth_bytes)
        except LoginError as error:
            raise BrokerError(f"{address} cannot be trusted with this login: {error}") from None


def _check(address: str, login: Login, code: int, message: str) -> None:
    if code:
        raise BrokerError(refusal(address, login, code, message))


def refusal(address: str, login: Login, code: int, message: str) -> str:
    """Return what a refused login means, and what to do."""
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        return (
            f"{address} has no logins: it is a listener without SASL. Set security.protocol"
            " (--command-config)"
        )
    reason = message or code_text(code)
    return f"{address} refuses the login of {login.username!r} by {login.mechanism}: {reason}"
