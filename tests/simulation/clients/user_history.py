"""What a user's passwords may be at a time, as far as answers tell.

A change of credentials has an effect at some moment between its request and its answer. So a
password *may* be one in a span of time if its change had begun by the end of the span, and no
other change was answered before the span began. It *must* be one if its change was answered before
the span, and no other had begun by the end of it.

A change without an answer has an effect at any time, or never: nobody changes this user again, so
the changes of a user follow each other. Times are the world's nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from protocol.scram import HASHES

PLAIN: Final = "PLAIN"
SCRAMS: Final = tuple(HASHES)


def credentials_of(mechanism: str) -> tuple[str, ...]:
    """Return the credentials that a mechanism looks at: PLAIN takes the password of any."""
    return SCRAMS if mechanism == PLAIN else (mechanism,)


class Change:
    """A change of some credentials: None removes one."""

    def __init__(self, passwords: Mapping[str, str | None], began_ns: int) -> None:
        self.passwords = dict(passwords)
        self.began_ns = began_ns
        self.ended_ns: int | None = None  # when it was answered


class UserHistory:
    """The credentials of one user; at first it has none."""

    def __init__(self, name: str) -> None:
        self.name = name
        first = Change(dict.fromkeys(SCRAMS), -1)
        first.ended_ns = -1
        self._changes: dict[str, list[Change]] = {one: [first] for one in SCRAMS}

    def begin(self, passwords: Mapping[str, str | None], now_ns: int) -> Change:
        """Note that a change is asked for. `end` notes its answer."""
        change = Change(passwords, now_ns)
        for credential in passwords:
            self._changes[credential].append(change)
        return change

    @property
    def passwords(self) -> dict[str, str]:
        """The credentials that the last changes have made, answered or not."""
        last = {one: changes[-1].passwords[one] for one, changes in self._changes.items()}
        return {one: password for one, password in last.items() if password is not None}

    def may_log_in(self, mechanism: str, password: str, since_ns: int, until_ns: int) -> bool:
        """Whether a login in this span of time may succeed."""
        return any(
            password in self._possible(one, since_ns, until_ns) for one in credentials_of(mechanism)
        )

    def must_log_in(self, mechanism: str, password: str, since_ns: int, until_ns: int) -> bool:
        """Whether a login in this span must succeed: no credential that it looks at changes."""
        possible = [self._possible(one, since_ns, until_ns) for one in credentials_of(mechanism)]
        return all(len(some) == 1 for some in possible) and {password} in possible

    def _possible(self, credential: str, since_ns: int, until_ns: int) -> set[str | None]:
        """Return the passwords that a credential may have at some moment of a span."""
        found: set[str | None] = set()
        for change in reversed(self._changes[credential]):
            if change.began_ns > until_ns:
                continue
            found.add(change.passwords[credential])
            if change.ended_ns is not None and change.ended_ns <= since_ns:
                break
        return found

    def was_removed(self, mechanism: str, after_ns: int, until_ns: int) -> bool:
        """Whether a login of `after_ns` was taken away by an answer that came by `until_ns`."""
        looked_at = credentials_of(mechanism)
        return any(
            change.began_ns >= after_ns
            and change.ended_ns is not None
            and change.ended_ns <= until_ns
            and _removes(change, looked_at)
            for change in self._changes[looked_at[0]]
        )


def _removes(change: Change, credentials: Iterable[str]) -> bool:
    return all(change.passwords.get(one, "stays") is None for one in credentials)
