"""Log in by SASL on a connection in the msgpack dialect, before anything else is sent on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from client.codes import code_text
from client.logins import Login, LoginError

UNSUPPORTED_MECHANISM: Final = 33
NO_LOGINS: Final = 34

Ask = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class LoginRefused(Exception):
    """The broker refuses the login, or cannot be trusted with it."""


async def log_in_async(login: Login, ask: Ask) -> float:
    """Log in; return for how long, in seconds, 0 without an end (KIP-368). Raises LoginRefused.

    `ask` sends a request and returns the body of its answer.
    """
    answer = await ask("sasl_handshake", {"mechanism": login.mechanism})
    if answer["error_code"] == UNSUPPORTED_MECHANISM:
        offered = ", ".join(answer["mechanisms"])
        raise LoginRefused(f"does not offer {login.mechanism}, but {offered}: set sasl.mechanism")
    _check(login, answer)
    try:
        exchange = await asyncio.to_thread(login.begin)
    except LoginError as error:
        raise LoginRefused(f"cannot be logged in to: {error}") from None
    token: bytes | None = exchange.first
    while token is not None:
        answer = await ask("sasl_authenticate", {"auth_bytes": token})
        _check(login, answer)
        try:  # a key derivation: some milliseconds
            token = await asyncio.to_thread(exchange.next, answer["auth_bytes"])
        except LoginError as error:
            raise LoginRefused(f"cannot be trusted with this login: {error}") from None
    return float(answer.get("session_lifetime_ms", 0)) / 1000


def _check(login: Login, answer: Mapping[str, Any]) -> None:
    code = answer["error_code"]
    if code == NO_LOGINS:
        raise LoginRefused("has no logins: it is a listener without SASL; set security.protocol")
    if code:
        reason = answer.get("error_message") or code_text(code)
        who = f"{login.username!r} by {login.mechanism}"
        raise LoginRefused(f"refuses the login of {who}: {reason}")
