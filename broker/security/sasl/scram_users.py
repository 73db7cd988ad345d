"""SCRAM credentials for every name: those of users, and mock ones for names that are no user's.

A mock credential is made of a secret and the name, so a name always gets the same salt, as a user
would; its keys are random and fit no password. Its iterations are those of some user: the names
are spread over the users' numbers, each as often as users have it, so an unusual number does not
tell that a name is a user's. With such a credential a login of an unknown user runs to its last
step and fails there, like a wrong password (RFC 5802 leaves this to the server; Kafka tells at the
first step).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from protocol.scram import hash_bytes

ITERATIONS_DEFAULT = 4096  # of Kafka's tools; without any user, of unknown ones
MOCK_SALT_BYTES = 26  # as Kafka's clients make them
_FIELDS = attrgetter("salt", "stored_key", "server_key", "iterations")
_SHARE_BYTES = 8
_DIGITS = b"0123456789abcdefghijklmnopqrstuv"


class StoredCredential(Protocol):
    """A user's credential, as the metadata log has it."""

    @property
    def salt(self) -> bytes: ...  # noqa: D102

    @property
    def stored_key(self) -> bytes: ...  # noqa: D102

    @property
    def server_key(self) -> bytes: ...  # noqa: D102

    @property
    def iterations(self) -> int: ...  # noqa: D102


class UserDirectory(Protocol):
    """Where users are found (`broker.security.users`)."""

    def scram(self, mechanism: str, user: str) -> StoredCredential | None:
        """Return a user's credential for a mechanism, or None."""
        ...

    def iterations(self, mechanism: str) -> Sequence[int]:
        """Return the iterations of all users of a mechanism, sorted."""
        ...

    def generation(self, user: str, mechanism: str = "") -> int | None:
        """Return which of this name a user, or a credential, is; None if there is none now."""
        ...


class Credential(NamedTuple):
    """A credential to check a login against; nobody logs in with a mock one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    is_mock: bool


class CredentialSource:
    """Finds a credential for any name."""

    def __init__(self, directory: UserDirectory, secret: bytes) -> None:
        """`secret` is random."""
        self._directory = directory
        self._secret = secret

    def find(self, mechanism: str, user: str, *, is_known: bool = True) -> Credential:
        """Return the credential of a user, or a mock one; always that unless `is_known`."""
        stored = self._directory.scram(mechanism, user)
        mock = self._mock(mechanism, user)
        # The same steps for both: 100 ns more would be seen over 2,000 tries.
        found = _FIELDS(mock if stored is None else stored)
        size = hash_bytes(mechanism)
        is_whole = len(found[1]) == len(found[2]) == size
        is_mock = stored is None or not is_known or not is_whole
        return Credential(*(_FIELDS(mock) if is_mock else found), is_mock)

    def still_holds(self, user: str, mechanism: str = "") -> Callable[[], bool]:
        """Return what says whether it is the same user, or has the same credential, as now.

        A credential may get another password. One that was removed and made again is another.
        """
        generation = self._directory.generation(user, mechanism)
        return lambda: (
            generation is not None and self._directory.generation(user, mechanism) == generation
        )

    def _mock(self, mechanism: str, user: str) -> Credential:
        name = f"{mechanism}\0{user}".encode("utf-8", "surrogatepass")
        seed = hmac.digest(self._secret, name, hashlib.sha512)
        keys = hmac.digest(self._secret, seed, hashlib.sha512)
        salt = bytes(_DIGITS[byte % len(_DIGITS)] for byte in seed[:MOCK_SALT_BYTES])
        size = hash_bytes(mechanism)
        iterations = self._mock_iterations(mechanism, user)
        return Credential(salt, keys[:size], keys[:size], iterations, is_mock=True)

    def _mock_iterations(self, mechanism: str, user: str) -> int:
        known = self._directory.iterations(mechanism)
        if not known:
            return ITERATIONS_DEFAULT
        # The same share for each mechanism, since a user's numbers mostly agree. A user who comes
        # or goes moves few names to another number.
        name = f"iterations\0{user}".encode("utf-8", "surrogatepass")
        share = hmac.digest(self._secret, name, hashlib.sha512)[:_SHARE_BYTES]
        return known[int.from_bytes(share, "big") * len(known) >> 8 * _SHARE_BYTES]
