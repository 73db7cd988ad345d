"""The users: SCRAM credentials by mechanism and name, as the metadata records say.

A user exists while it has a credential. `apply` does what Kafka's controller does with a record: a
credential replaces the one of the same mechanism and name; the removal of a credential that does
not exist contradicts the log (Kafka does not start on one), so a change is checked before it is
recorded. Codes of mechanisms that a newer Kafka may know are kept, and never found by name.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from protocol.scram_records import (
    SCRAM_MECHANISMS,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

_USER: Final = -1  # beside the codes of mechanisms


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server needs to check a login by SCRAM. Never logged, so `repr` hides the keys."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


class ScramImage:
    """The credentials of all users. Changed on the loop only.

    A user who is removed and made again is another, as is a credential: `generation` tells them
    apart, within one run of the broker.
    """

    def __init__(self) -> None:
        self._users: dict[str, dict[int, ScramCredential]] = {}  # by name, then mechanism's code
        self._iterations: dict[int, list[int]] = {}  # of all credentials, sorted
        self._generations: dict[tuple[str, int], int] = {}  # by name, and mechanism's code or _USER
        self._generation = 0  # the last one

    def __len__(self) -> int:
        return len(self._users)

    def names(self) -> list[str]:
        """Return the names of all users."""
        return list(self._users)

    def of(self, user: str) -> dict[int, ScramCredential]:
        """Return a user's credentials by the code of their mechanism; empty without such a user."""
        return self._users.get(user, {})

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """Return a user's credential for a mechanism such as "SCRAM-SHA-256", or None."""
        code = SCRAM_MECHANISMS.get(mechanism)
        return None if code is None else self.of(user).get(code)

    def has(self, user: str, mechanism_code: int) -> bool:
        """Whether the user has a credential for the mechanism of that code."""
        return mechanism_code in self.of(user)

    def iterations(self, mechanism: str) -> Sequence[int]:
        """Return those of all credentials of a mechanism such as "SCRAM-SHA-256", sorted."""
        return self._iterations.get(SCRAM_MECHANISMS.get(mechanism, -1), ())

    def generation(self, user: str, mechanism: str = "") -> int | None:
        """Return which of this name a user, or a credential, is; None if there is none now."""
        code = SCRAM_MECHANISMS.get(mechanism) if mechanism else _USER
        return None if code is None else self._generations.get((user, code))

    def upsert(self, record: UserScramCredentialRecord) -> None:
        """Make or replace a credential."""
        of_user = self._users.setdefault(record.name, {})
        self._forget_iterations(record.mechanism, of_user.get(record.mechanism))
        of_user[record.mechanism] = ScramCredential(
            bytes(record.salt),
            bytes(record.stored_key),
            bytes(record.server_key),
            record.iterations,
        )
        for code in (record.mechanism, _USER):
            if (record.name, code) not in self._generations:
                self._generation += 1
                self._generations[record.name, code] = self._generation
        insort(self._iterations.setdefault(record.mechanism, []), record.iterations)

    def remove(self, record: RemoveUserScramCredentialRecord) -> bool:
        """Remove a credential. Return False if there is none."""
        if not self.has(record.name, record.mechanism):
            return False
        of_user = self._users[record.name]
        self._forget_iterations(record.mechanism, of_user.pop(record.mechanism))
        del self._generations[record.name, record.mechanism]
        if not of_user:
            del self._users[record.name]
            del self._generations[record.name, _USER]
        return True

    def _forget_iterations(self, mechanism_code: int, gone: ScramCredential | None) -> None:
        if gone is not None:
            known = self._iterations[mechanism_code]
            del known[bisect_left(known, gone.iterations)]

    def capture(self) -> ScramImage:
        """Return a copy that another thread can read while this one changes the image."""
        captured = ScramImage()
        captured._users = {name: own.copy() for name, own in self._users.items()}
        captured._generations = self._generations.copy()
        captured._generation = self._generation
        captured._iterations = {code: known.copy() for code, known in self._iterations.items()}
        return captured

    def records(self) -> Iterator[UserScramCredentialRecord]:
        """Yield the records that make an empty image what this one is now."""
        for name, own in self._users.items():
            for code, credential in own.items():
                yield UserScramCredentialRecord(
                    name=name,
                    mechanism=code,
                    salt=credential.salt,
                    stored_key=credential.stored_key,
                    server_key=credential.server_key,
                    iterations=credential.iterations,
                )
