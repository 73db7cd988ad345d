"""How long a login holds, and when the client may log in again (KIP-368)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.runtime.clock import MS_NS, SECOND_NS, Clock
from broker.security.sasl.mechanism import Identity

AGAIN_SECONDS_MIN: Final = 1


class LoginSession:
    """The session of one connection. A login without an end never expires and is never renewed."""

    __slots__ = ("_clock", "_expires_ns", "_renewed_ns", "_still_holds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._expires_ns: int | None = None
        self._still_holds: Callable[[], bool] | None = None
        self._renewed_ns: int | None = None  # when the last login on the open connection began

    def begin(self, max_reauth_ms: int, identity: Identity) -> int:
        """Begin with a login that has succeeded; return how long it holds, in ms, or 0.

        `max_reauth_ms` is connections.max.reauth.ms.
        """
        expires_at_ms, self._still_holds = identity.expires_at_ms, identity.still_holds
        bounds = [max_reauth_ms] if max_reauth_ms else []
        if expires_at_ms is not None:
            bounds.append(max(0, expires_at_ms - self._clock.now_ms()))
        lifetime_ms = min(bounds, default=0)
        self._expires_ns = self._clock.monotonic_ns() + lifetime_ms * MS_NS if bounds else None
        return lifetime_ms

    @property
    def has_end(self) -> bool:
        """Whether the login expires."""
        return self._expires_ns is not None

    @property
    def is_over(self) -> bool:
        """Whether the login has expired."""
        return self._expires_ns is not None and self._clock.monotonic_ns() > self._expires_ns

    @property
    def is_removed(self) -> bool:
        """Whether the user was removed after the login."""
        return self._still_holds is not None and not self._still_holds()

    def may_renew(self) -> bool:
        """Whether the client may log in again now, which this notes."""
        now_ns = self._clock.monotonic_ns()
        if self._expires_ns is None or (
            self._renewed_ns is not None
            and now_ns - self._renewed_ns < AGAIN_SECONDS_MIN * SECOND_NS
        ):
            return False
        self._renewed_ns = now_ns
        return True
