"""Puts the rights of an API before its handler, if the broker has an authorizer.

    request ── allowed before, and simple? ── the handler
                  └── clauses, in order ── refused: answered here
                              └── the handler, with what is left ── later: the answer is completed

The handler begins in the turn of the loop in which the last right was asked, so no change of an ACL
comes between: where the handler is a coroutine, the guard is one too. A request that names so much
that asking takes several turns asks again if an ACL has changed meanwhile; the requests of its
connection stay behind it.

An answer that takes several turns is that of the rights at its beginning, except where records are
read (`of_fetch`) or appended (`standing`) later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from inspect import iscoroutinefunction
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.rights.asking import Asking, MakeRefusal, Refused, Turns
from broker.rights.clauses import Hot, Rights
from broker.runtime.lines import Lines, Turn
from broker.runtime.request import Pending, Request
from broker.services import Services

if TYPE_CHECKING:
    from broker.security.acl.authorizer import Authorizer

Handle = Callable[[Request, Services], Any]

ATTEMPTS: Final = 5  # to ask in several turns without a change meanwhile
REMEMBERED_MAX: Final = 16_384  # keys that were allowed, of all clients
KEY_CHARACTERS_MAX: Final = 249  # of one; no topic has a longer name
# Results of a handler that come later.
WAITS: Final = frozenset((Pending, GeneratorType, CoroutineType))


class Guarded(NamedTuple):
    """What is behind a guard: the API's name in audit lines, its rights, and its functions."""

    api: str
    rights: Rights
    handle: Handle
    make_refusal: MakeRefusal


def guarded(behind: Guarded, authorizer: Authorizer, lines: Lines) -> Handle:
    """Return the handler behind its rights; all guards of a broker share `lines`."""
    if iscoroutinefunction(behind.handle):
        return Guard(behind, authorizer, lines).handle_as_task
    if isinstance(behind.rights[0], Hot):
        return HotGuard(behind, authorizer, lines).handle
    return Guard(behind, authorizer, lines).handle


class Guard:
    """The rights of one API, and its handler."""

    def __init__(self, behind: Guarded, authorizer: Authorizer, lines: Lines) -> None:
        self._behind = behind
        self._handle = behind.handle
        self._authorizer = authorizer
        self._lines = lines  # by connection

    def handle(self, request: Request, services: Services) -> Any:
        """Ask, and handle what is left; return what a handler returns."""
        if request.connection in self._lines.waiting:
            return self._handle_in_line(self._lines.turn(request.connection), request, services)
        asked = request.body
        asking = self._asking(request, services)
        turns = self._ask(asking)
        try:
            next(turns)
        except StopIteration as end:
            refused: Refused | None = end.value
            return self._go_on(asking, refused)
        turns.close()
        request.body = asked
        return self._handle_in_line(self._lines.turn(request.connection), request, services)

    async def _handle_in_line(self, turn: Turn, request: Request, services: Services) -> Any:
        async with turn:
            asking, refused = await self._asked(request, services)
            result = self._go_on(asking, refused)
        return await result if type(result) is CoroutineType else result

    async def handle_as_task(self, request: Request, services: Services) -> Any:
        """As `handle`, before a handler that begins in a task anyway."""
        asking, refused = await self._asked(request, services)
        result = self._go_on(asking, refused)
        return await result if type(result) is CoroutineType else result

    async def _asked(self, request: Request, services: Services) -> tuple[Asking, Refused | None]:
        """Ask in several turns of the loop, again if an ACL has changed meanwhile."""
        asked = request.body
        left = ATTEMPTS
        while True:
            left -= 1
            request.body = asked
            asking = self._asking(request, services)
            refused = await _in_turns(self._ask(asking), is_last=not left)
            if not asking.is_outdated:
                return asking, refused

    def _go_on(self, asking: Asking, refused: Refused | None) -> Any:
        if refused is not None:
            return refused.answer
        return _completed(asking, self._handle(asking.request, asking.services))

    def _asking(self, request: Request, services: Services) -> Asking:
        behind = self._behind
        return Asking(request, services, self._authorizer, behind.api, behind.make_refusal)

    def _ask(self, asking: Asking) -> Turns:
        for clause in self._behind.rights:
            refused = yield from clause.ask(asking)
            if refused is not None:
                return refused
        return None


class HotGuard(Guard):
    """A guard that remembers who was allowed what, until an ACL changes."""

    def __init__(self, behind: Guarded, authorizer: Authorizer, lines: Lines) -> None:
        super().__init__(behind, authorizer, lines)
        hot = behind.rights[0]
        assert isinstance(hot, Hot), "its module has the keys"
        module = hot.load()
        self._need = module.NEED
        self._key: Callable[[Request], str | bytes | None] = module.key
        self._keys: Callable[[Request], list[str | bytes] | None] = module.keys
        self._again: Callable[[Asking, Any], Generator[int, None, Any]] | None = module.again
        self._waiting = lines.waiting
        self._version = authorizer.version
        self._known: dict[tuple[str, str], set[str | bytes]] = {}
        self._count = 0  # of the keys in `_known`

    def handle(self, request: Request, services: Services) -> Any:
        """As `Guard.handle`, at once if the client may touch everything that it names."""
        key = self._key(request)
        if key is None or self._waiting:
            return self._handle_others(request, services)
        info = request.info
        known = self._known.get((info.principal, info.peer_host))
        if known is None or key not in known or self._version != self._authorizer.version:
            return self._handle_others(request, services)
        result = self._handle(request, services)
        if self._again is None or type(result) not in WAITS:  # as in `_completed`, without a call
            return result
        return self._completed(request, services, result)

    def _handle_others(self, request: Request, services: Services) -> Any:
        """As `handle`, for a request that names several keys, or one that is not known yet."""
        keys = self._keys(request)
        if keys is None or request.connection in self._waiting:
            return super().handle(request, services)
        if self._version != self._authorizer.version:
            self._forget()
        info = request.info
        known = self._known.get((info.principal, info.peer_host))
        if (known is None or not known.issuperset(keys)) and not self._learn(
            request, services, keys
        ):
            return super().handle(request, services)
        return self._completed(request, services, self._handle(request, services))

    def _completed(self, request: Request, services: Services, result: Any) -> Any:
        """Return a result, whose answer is asked about again if it comes later."""
        if self._again is None or type(result) not in WAITS:
            return result
        asking = self._asking(request, services)
        asking.later.append(partial(self._again, asking))
        return _completed(asking, result)

    def _learn(self, request: Request, services: Services, keys: list[str | bytes]) -> bool:
        """Ask for each key, and remember them; return whether the client may touch them all."""
        asking = self._asking(request, services)
        for key in keys:
            name = key if isinstance(key, str) else asking.name_of(key)
            if name is None or len(name) > KEY_CHARACTERS_MAX:
                return False
            if not asking.allows(self._need, name):
                return False
        if not keys:  # its client would not count
            return True
        if self._count + len(keys) > REMEMBERED_MAX:
            self._forget()
        self._count += len(keys)
        info = request.info
        self._known.setdefault((info.principal, info.peer_host), set()).update(keys)
        return True

    def _forget(self) -> None:
        self._version = self._authorizer.version
        self._known.clear()
        self._count = 0


async def _in_turns(turns: Turns, *, is_last: bool) -> Refused | None:
    """Run `turns`, and let others have the loop between them, but not in the last attempt."""
    while True:
        try:
            next(turns)
        except StopIteration as end:
            refused: Refused | None = end.value
            return refused
        if not is_last:
            await asyncio.sleep(0)


def _completed(asking: Asking, result: Any) -> Any:
    """Return a handler's result, such that its answer is completed when it is there."""
    if not asking.later:
        return result
    kind = type(result)
    if kind is Pending:
        return _completed_later(asking, result)
    if kind is CoroutineType:
        return _completed_task(asking, result)
    return _completed_steps(asking, result)


async def _completed_task(asking: Asking, result: Coroutine[Any, Any, Any]) -> Any:
    return _completed(asking, await result)


def _completed_later(asking: Asking, result: Pending) -> Pending:
    pending = Pending()
    result.then(lambda answer: pending.complete(_completed(asking, answer)), pending.fail)
    return pending


def _completed_steps(asking: Asking, result: Any) -> Generator[int, None, Any]:
    """Complete an answer, which may have to be made in steps first."""
    answer = (yield from result) if type(result) is GeneratorType else result
    if type(answer) is Pending:
        return _completed_later(asking, answer)
    if answer is None:  # nothing is sent
        return None
    for complete in reversed(asking.later):
        answer = yield from complete(answer)
    return answer
