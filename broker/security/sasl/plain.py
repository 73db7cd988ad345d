"""PLAIN (RFC 4616): a name and a password in one token, checked against stored users.

The texts are Kafka's. Unknown users and wrong passwords take the same way: the password is compared
with that of a user who does not exist.

Passwords come from the configuration (`JaasUsers`), or are checked against the SCRAM users of the
metadata log (`ScramUsers`): then the broker derives the key as the user's client would. That takes
milliseconds, so it runs in a thread, once for each mechanism of SCRAM, whether or not the user has
a credential for it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol

from broker.security.sasl.mechanism import AuthenticationFailed, Identity, Reply, shown
from broker.security.sasl.scram_users import Credential, CredentialSource
from protocol.scram import HASHES, client_key, salted_password, stored_key

WRONG = "Authentication failed: Invalid username or password"
PARTS = 3
RunInThread = Callable[[Callable[[], bool]], Awaitable[bool]]


class PlainUsers(Protocol):
    """Those who may log in by PLAIN."""

    def check(self, user: str, password: str) -> bool | Awaitable[bool]:
        """Whether it is the user's password."""
        ...

    def still_holds(self, user: str) -> Callable[[], bool] | None:
        """Return what says whether the user is still one; None: as long as the connection."""
        ...


class JaasUsers:
    """The users that the configuration names, by keyed digests of their passwords."""

    def __init__(
        self, users: Mapping[str, str], key: bytes, still_has: Callable[[str, str], bool]
    ) -> None:
        """`key` is random, and of this process.

        `still_has` asks the configuration of that time for a user and its password.
        """
        self._key = key
        self._still_has = still_has
        self._users = users
        self._digests = {user: self._digest(password) for user, password in users.items()}
        self._of_nobody = self._digest(key.hex())

    def check(self, user: str, password: str) -> bool:
        """Whether it is the user's password."""
        expected = self._digests.get(user)
        is_equal = hmac.compare_digest(
            self._digest(password), self._of_nobody if expected is None else expected
        )
        return is_equal and expected is not None

    def still_holds(self, user: str) -> Callable[[], bool] | None:
        """Return what says whether the configuration still has the user with that password."""
        return partial(self._still_has, user, self._users.get(user, ""))

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, _utf8(password), hashlib.sha256)


def has_user(users: Mapping[str, str], user: str, password: str) -> bool:
    """Whether that is the user's password in the configuration."""
    found = users.get(user)
    return found is not None and hmac.compare_digest(_utf8(found), _utf8(password))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class ScramUsers:
    """The users with SCRAM credentials; keys are derived by `run`, in a thread."""

    def __init__(self, users: CredentialSource, run: RunInThread) -> None:
        self._users = users
        self._run = run

    async def check(self, user: str, password: str) -> bool:
        """Whether it is the user's password, before and after the thread has looked."""
        credentials = self._credentials(user)
        is_right = await self._run(partial(_has_derived, credentials, password))
        return is_right and self._credentials(user) == credentials

    def still_holds(self, user: str) -> Callable[[], bool] | None:
        """Return what says whether it is the same user, with some credential."""
        return self._users.still_holds(user)

    def _credentials(self, user: str) -> dict[str, Credential]:
        return {mechanism: self._users.find(mechanism, user) for mechanism in HASHES}


def _has_derived(credentials: Mapping[str, Credential], password: str) -> bool:
    """Whether a password gives the stored key of one credential. For a thread."""
    found = False
    for mechanism, credential in credentials.items():
        salted = salted_password(mechanism, password, credential.salt, credential.iterations)
        derived = stored_key(mechanism, client_key(mechanism, salted))
        if hmac.compare_digest(derived, credential.stored_key) and not credential.is_mock:
            found = True
    return found


class Plain:
    """One login by PLAIN."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def respond(self, token: bytes) -> Reply | Coroutine[Any, Any, Reply]:
        """Check the client's only token."""
        parts = token.decode("utf-8", "replace").split("\0", PARTS)
        if len(parts) != PARTS:
            raise AuthenticationFailed(
                f"Invalid SASL/PLAIN response: expected {PARTS} tokens, got {len(parts)}"
            )
        authzid, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        checked = self._users.check(user, password)
        if isinstance(checked, bool):
            return self._reply(authzid, user, is_right=checked)
        return self._wait(authzid, user, checked)

    async def _wait(self, authzid: str, user: str, checked: Awaitable[bool]) -> Reply:
        return self._reply(authzid, user, is_right=await checked)

    def _reply(self, authzid: str, user: str, *, is_right: bool) -> Reply:
        if not is_right:
            raise AuthenticationFailed(WRONG, f"{WRONG} (user {shown(user)})")
        if authzid not in ("", user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from"
                " username"
            )
        return Reply(b"", Identity(user, still_holds=self._users.still_holds(user)))
