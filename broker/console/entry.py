"""Who may enter the console, and as whom.

    listener     authorizer  `barnabas.http.password`   who enters
    loopback     none        not set                    everybody, as User:ANONYMOUS
    loopback     none        set                        those with the password
    any other                any                        the broker's users, with their passwords
    without users: none      set                        those with the password, to read only
    without users: none      not set                    nobody: the answer says what to set
    without users: any       any                        nobody: the answer says what to set

With an authorizer the password opens no view. It is made for Prometheus, and the rights that
User:ANONYMOUS may have (`allow.everyone.if.no.acl.found`) are not given to whoever reads metrics:
the broker's clients may all have logged in by certificates or tokens.

The broker's users are those with SCRAM credentials, and those of PLAIN in the configuration.
Passwords are checked in a thread, one at a time. A wrong one is answered after a pause, so the
number of connections bounds the guesses.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Final

from broker.console.answers import ConsoleError
from broker.console.sessions import Sessions, token_of
from broker.console.visitor import Visitor
from broker.http.http_messages import HttpRequest
from broker.http.password_check import WRONG_PAUSE_SECONDS, has_password, is_password
from broker.http.routes import PageRules
from broker.runtime.log_lines import RateLimiter
from broker.runtime.one_by_one import OneByOne, TooManyWait
from broker.runtime.request import ANONYMOUS
from broker.security.sasl.mechanism import AuthenticationFailed, Identity, Reply
from broker.security.sasl.plain import JaasUsers, Plain, PlainUsers, ScramUsers, has_user
from broker.security.sasl.scram_users import CredentialSource
from broker.services import Services

logger = logging.getLogger("barnabas.http")

KEY_BYTES: Final = 32
PLAIN: Final = "PLAIN"


class Entry(Enum):
    """What a visitor needs."""

    OPEN = "open"
    PASSWORD = "password"  # noqa: S105 - a kind of entry
    USER = "user"
    CLOSED = "closed"


class WrongLogin(Exception):
    """The login is refused, after a pause."""


class Doorkeeper:
    """Lets visitors in, by the table above."""

    def __init__(self, services: Services, rules: PageRules) -> None:
        self._services = services
        self._rules = rules
        self._credentials = CredentialSource(services.users, services.random_bytes(KEY_BYTES))
        self._key = services.random_bytes(KEY_BYTES)
        self._one_by_one = OneByOne(services.pool)
        self._lines = RateLimiter(services.clock, per_second_max=5)
        self.sessions = Sessions(services.random_bytes, services.clock)

    @property
    def entry(self) -> Entry:
        """What a visitor needs now."""
        rules = self._rules
        if rules.is_private:
            return Entry.OPEN if rules.password is None else Entry.PASSWORD
        if len(self._services.users.image) or self._jaas_users():
            return Entry.USER
        if self._services.authorizer is not None:
            return Entry.CLOSED
        return Entry.CLOSED if rules.password is None else Entry.PASSWORD

    def visitor(self, request: HttpRequest) -> Visitor | None:
        """Return who asks; None if that is not known and must be."""
        entry, host = self.entry, request.peer_host
        may_write = self.may_write
        if entry is Entry.OPEN:
            return Visitor(self._services, host, ANONYMOUS, may_write)
        session = self.sessions.find(token_of(request.headers.get("cookie", "")))
        if session is not None and (entry is Entry.USER) == (session.principal != ANONYMOUS):
            may_write = may_write and session.may_write
            return Visitor(self._services, host, session.principal, may_write, is_guest=False)
        password = self._rules.password
        if entry is Entry.PASSWORD and password and has_password(request, password):
            return Visitor(self._services, host, ANONYMOUS, may_write and self._rules.is_private)
        return None

    def still_lets_in(self, request: HttpRequest, visitor: Visitor) -> bool:
        """Return whether a visitor would be let in as before; asking is no use of its login."""
        entry = self.entry
        if entry is Entry.OPEN or visitor.is_guest:
            return entry is not Entry.USER and entry is not Entry.CLOSED
        if (entry is Entry.USER) != (visitor.principal != ANONYMOUS):
            return False
        return self.sessions.is_open(token_of(request.headers.get("cookie", "")))

    @property
    def may_write(self) -> bool:
        """Whether the configuration lets anybody change anything here."""
        config = self._services.config
        return not config.barnabas_http_read_only and not config.barnabas_read_only

    async def log_in(self, user: str, password: str) -> str:
        """Return the token of a new session. Raises WrongLogin, ConsoleError."""
        entry = self.entry
        if entry is Entry.PASSWORD:
            if not is_password(self._rules.password or "", password.encode("utf-8", "replace")):
                self._tell_failed("the password is not barnabas.http.password")
                raise WrongLogin("The password is not barnabas.http.password")
            return self.sessions.begin(ANONYMOUS, None, may_write=self._rules.is_private)
        if entry is not Entry.USER:
            raise ConsoleError(409, "NO_LOGIN", "Nobody logs in here: see docs/http.md")
        for users in self._known():
            try:
                identity = await self._identity(users, user, password)
            except AuthenticationFailed as error:
                why = error.why
            except TooManyWait:
                raise ConsoleError(503, "BUSY", "Too many logins wait; try again") from None
            else:
                self._services.metrics.logins += 1
                principal = f"User:{identity.user}"
                return self.sessions.begin(principal, identity.still_holds, may_write=True)
        self._tell_failed(why)
        raise WrongLogin("The name or the password is wrong")

    async def _identity(self, users: PlainUsers, user: str, password: str) -> Identity:
        token = "\0".join(("", user, password)).encode("utf-8", "surrogatepass")
        reply = Plain(users).respond(token)
        found = reply if isinstance(reply, Reply) else await reply
        assert found.identity is not None, "PLAIN takes one token"
        return found.identity

    def _known(self) -> list[PlainUsers]:
        found: list[PlainUsers] = [ScramUsers(self._credentials, self._one_by_one.run)]
        found += [JaasUsers(users, self._key, self._still_has) for users in self._jaas_users()]
        return found

    def _jaas_users(self) -> list[dict[str, str]]:
        settings = self._services.config.sasl.values()
        plain = (one.mechanisms.get(PLAIN) for one in settings)
        return [dict(one.users) for one in plain if one is not None and one.users]

    def _still_has(self, user: str, password: str) -> bool:
        return any(has_user(users, user, password) for users in self._jaas_users())

    def _tell_failed(self, why: str) -> None:
        self._services.metrics.logins_failed += 1
        dropped = self._lines.allow()
        if dropped is not None:
            logger.warning("Failed login at the console (%(reason)s)", {"reason": why})


PAUSE_SECONDS: Final = WRONG_PAUSE_SECONDS
