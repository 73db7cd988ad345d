"""The door of the console: what is checked before an endpoint sees a request.

    a page of another site asks (Sec-Fetch-Site)                            403
    no such path, or another method                                         404, 405
    a write without JSON, our header, or an Origin that is ours             403
    nobody has logged in, and somebody must                                 401
    a write where the console is read-only                                  403

A browser sends none of the three that a write needs from a form, or from another site without
asking first; and nothing here answers that question. `Host` was checked before (`broker.http`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from broker.console import login_api, static_files
from broker.console.answers import ConsoleError, refused
from broker.console.console import Console
from broker.console.endpoints import BY_PATH, Endpoint
from broker.console.entry import PAUSE_SECONDS
from broker.http.attempts import LOGIN
from broker.http.http_messages import HttpAnswer, HttpRequest
from broker.http.routes import PageRules

if TYPE_CHECKING:
    from broker.http.surroundings import Surroundings

OUR_HEADER: Final = "x-barnabas"
LOGOUT: Final = "/api/v1/logout"
SESSION: Final = "/api/v1/session"
JSON_TYPE: Final = "application/json"


def answer_to(
    request: HttpRequest, surroundings: Surroundings, rules: PageRules
) -> HttpAnswer | Awaitable[HttpAnswer]:
    """Return the answer of the console, or why there is none."""
    if not request.path.startswith("/api/"):
        return static_files.answer_to(request, surroundings.assembly.services.pool)
    console = surroundings.console
    if console is None:
        console = surroundings.console = Console(surroundings, rules)
    return _answer(request, console)


async def _answer(request: HttpRequest, console: Console) -> HttpAnswer:
    try:
        return await _checked(request, console)
    except ConsoleError as error:
        return refused(error)


async def _checked(request: HttpRequest, console: Console) -> HttpAnswer:
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none"):
        raise ConsoleError(403, "FOREIGN_SITE", "A page of another site has asked; open / instead")
    if request.path in (LOGIN, LOGOUT, SESSION):
        if request.path != SESSION:
            check_write(request)
        return await login_api.answer_to(request, console)
    endpoint = BY_PATH.get(request.path)
    if endpoint is None:
        found = ", ".join(sorted(BY_PATH))
        raise ConsoleError(
            404, "NO_SUCH_PATH", f"There is no {request.path[:80]}; there are {found}"
        )
    if request.method not in endpoint.methods:
        allowed = ", ".join(endpoint.methods)
        error = ConsoleError(405, "METHOD", f"{endpoint.path} is for {allowed}")
        return refused(error, ("Allow", allowed))
    if endpoint.writes:
        check_write(request)
    return await _entered(request, endpoint, console)


async def _entered(request: HttpRequest, endpoint: Endpoint, console: Console) -> HttpAnswer:
    visitor = console.keeper.visitor(request)
    if visitor is None:
        entry = console.keeper.entry
        error = ConsoleError(401, "LOGIN", login_api.ADVICE[entry])
        tried = "authorization" in request.headers
        return refused(error, pause_seconds=PAUSE_SECONDS if tried else 0.0)
    if endpoint.writes and not visitor.may_write:
        raise ConsoleError(403, "READ_ONLY", "This console only shows: see barnabas.http.read.only")
    try:
        answer = endpoint.answer(request, visitor, console)
        return answer if isinstance(answer, HttpAnswer) else await answer
    finally:
        if endpoint.writes:
            console.changed()


def check_write(request: HttpRequest) -> None:
    """Refuse a request that our own page, or a program that means it, would not send."""
    headers = request.headers
    if request.method != "POST":
        raise ConsoleError(405, "METHOD", f"{request.path} is for POST")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise ConsoleError(403, "CONTENT_TYPE", f"A change needs Content-Type: {JSON_TYPE}")
    if OUR_HEADER not in headers:
        raise ConsoleError(403, "HEADER", "A change needs the header X-Barnabas: 1")
    origin = headers.get("origin")
    if origin is None and headers.get("sec-fetch-site") != "same-origin":
        raise ConsoleError(403, "ORIGIN", "A change needs Origin: http:// and what Host says")
    if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
        raise ConsoleError(403, "ORIGIN", f"Origin {origin[:80]!r} is not this server")
