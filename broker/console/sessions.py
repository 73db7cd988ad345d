"""The logins of the console: random tokens in cookies, bounded in number and in time.

A session ends when its user is removed, `IDLE_MS` after its last request, and `LONGEST_MS` after
the login. When there are `SESSIONS_MAX`, the one used longest ago makes room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from broker.runtime.clock import Clock

SESSIONS_MAX: Final = 256
IDLE_MS: Final = 60 * 60 * 1000
LONGEST_MS: Final = 12 * 60 * 60 * 1000
TOKEN_BYTES: Final = 24
COOKIE: Final = "barnabas_session"


@dataclass(slots=True)
class ConsoleSession:
    """One login. `still_holds` says whether its user still exists; None: it is not asked."""

    principal: str
    may_write: bool
    still_holds: Callable[[], bool] | None
    ends_ms: int
    used_ms: int


class Sessions:
    """All logins by token, the one used longest ago first."""

    def __init__(self, random_bytes: Callable[[int], bytes], clock: Clock) -> None:
        self._random_bytes = random_bytes
        self._clock = clock
        self._sessions: dict[str, ConsoleSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, principal: str, still_holds: Callable[[], bool] | None, *, may_write: bool
    ) -> str:
        """Begin a session; return its token."""
        now_ms = self._now_ms()
        if len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        token = self._random_bytes(TOKEN_BYTES).hex()
        self._sessions[token] = ConsoleSession(
            principal, may_write, still_holds, now_ms + LONGEST_MS, now_ms
        )
        return token

    def find(self, token: str) -> ConsoleSession | None:
        """Return a session that has not ended, and note its use."""
        session = self._sessions.get(token)
        if session is None:
            return None
        now_ms = self._now_ms()
        del self._sessions[token]
        if not self._holds(session, now_ms):
            return None
        session.used_ms = now_ms
        self._sessions[token] = session
        return session

    def is_open(self, token: str) -> bool:
        """Return whether a session has not ended; that is no use of it."""
        session = self._sessions.get(token)
        return session is not None and self._holds(session, self._now_ms())

    def end(self, token: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(token, None)

    def _holds(self, session: ConsoleSession, now_ms: int) -> bool:
        return (
            now_ms < session.ends_ms
            and now_ms < session.used_ms + IDLE_MS
            and (session.still_holds is None or session.still_holds())
        )

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000


def token_of(cookies: str) -> str:
    """Return the token in a Cookie header, or nothing."""
    for part in cookies.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
