"""GET /api/v1/session, POST /api/v1/login and /api/v1/logout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.console.answers import ConsoleError, data, refused
from broker.console.entry import PAUSE_SECONDS, Entry, WrongLogin
from broker.console.parameters import body_of, field
from broker.console.sessions import COOKIE, token_of
from broker.http.http_messages import HttpAnswer, HttpRequest

if TYPE_CHECKING:
    from broker.console.console import Console

ADVICE: Final = {
    Entry.OPEN: "",
    Entry.USER: "Log in as a user of the broker",
    Entry.PASSWORD: "Log in with barnabas.http.password",
    Entry.CLOSED: "Nobody can log in: this listener is not on loopback, or there is an authorizer,"
    " and the broker has no users. Add one: kafka-configs --alter --add-config"
    " 'SCRAM-SHA-256=[password=…]' --entity-type users --entity-name NAME; or, without an"
    " authorizer, set barnabas.http.password to let others look",
}
CHARACTERS_MAX: Final = 1_024
BODY_BYTES_MAX: Final = 16 * 1024  # a name and a password, with every character escaped


async def answer_to(request: HttpRequest, console: Console) -> HttpAnswer:
    """Log in or out, or say who is logged in."""
    if request.path.endswith("/login"):
        return await _log_in(request, console)
    if request.path.endswith("/logout"):
        console.keeper.sessions.end(token_of(request.headers.get("cookie", "")))
        return data({}, ("Set-Cookie", f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"))
    if request.method not in ("GET", "HEAD"):
        raise ConsoleError(405, "METHOD", f"{request.path} is for GET")
    return data(_session(request, console))


async def _log_in(request: HttpRequest, console: Console) -> HttpAnswer:
    if len(request.body) > BODY_BYTES_MAX:  # a stranger's megabyte of JSON takes 80 ms to read
        raise ConsoleError(
            413, "TOO_LARGE", f"A login of {len(request.body)} bytes, at most {BODY_BYTES_MAX}"
        )
    body = body_of(request)
    user, password = field(body, "user", str, ""), field(body, "password", str)
    if max(len(user), len(password)) > CHARACTERS_MAX:
        raise ConsoleError(
            400, "BAD_REQUEST", f"A name or password over {CHARACTERS_MAX} characters"
        )
    try:
        token = await console.keeper.log_in(user, password)
    except WrongLogin as error:
        return refused(ConsoleError(401, "WRONG_LOGIN", str(error)), pause_seconds=PAUSE_SECONDS)
    return data({}, ("Set-Cookie", f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"))


def _session(request: HttpRequest, console: Console) -> dict[str, object]:
    keeper = console.keeper
    visitor, entry = keeper.visitor(request), keeper.entry
    return {
        "entry": entry.value,
        "advice": ADVICE[entry],
        "principal": None if visitor is None else visitor.principal,
        "is_guest": visitor is not None and visitor.is_guest,
        "may_write": visitor is not None and visitor.may_write,
        "has_authorizer": console.services.authorizer is not None,
    }
