"""Turn a request to change users into records: Kafka's rules, codes and texts.

Pure checks of one request, in the order in which Kafka 4.3 makes them
(ScramControlManager.alterCredentials): removals first, then credentials to set. Each user has one
outcome, and the first error stays:

    the user a second time, whatever the mechanism   DUPLICATE_RESOURCE, and nothing is done to it
    no name                                          UNACCEPTABLE_CREDENTIAL
    another mechanism than the two                   UNSUPPORTED_SASL_MECHANISM
    to remove: the user has no such credential       RESOURCE_NOT_FOUND
    to set: iterations below 4,096, above 16,384     UNACCEPTABLE_CREDENTIAL
            an empty salted password                 UNKNOWN_SERVER_ERROR

Ours: a name or a salt above 1,024 bytes is UNACCEPTABLE_CREDENTIAL, and more than 5,000 changes or
4 MiB of them in one request are POLICY_VIOLATION.

A client sends the salted password, PBKDF2 of the password. What is recorded of it are StoredKey and
ServerKey (RFC 5802, section 3), with which the broker checks a login and nobody can log in.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from broker.metadata.scram_image import ScramImage
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.scram_records import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    RemoveUserScramCredentialRecord,
    ScramMechanism,
    UserScramCredentialRecord,
)

NAME_BYTES_MAX: Final = 1_024
SALT_BYTES_MAX: Final = 1_024
CHANGES_PER_REQUEST_MAX: Final = 5_000  # they are applied in one turn, in some 15 ms
BYTES_PER_REQUEST_MAX: Final = 4 << 20  # half of the largest batch that Kafka reads
KEYS_BYTES: Final = 2 * 64

_MECHANISM_CODES = frozenset(int(mechanism) for mechanism in ScramMechanism)


class UserError(NamedTuple):
    """Why a user is not changed."""

    code: ErrorCode
    message: str


TWICE: Final = UserError(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)
NO_SUCH_CREDENTIAL: Final = UserError(
    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
)
TOO_MANY: Final = UserError(
    ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
)


class UserPlan:
    """The outcome for each user, None: changed; and the records that make it."""

    def __init__(self) -> None:
        self.outcomes: dict[str, UserError | None] = {}
        self.records: list[Any] = []
        self.removals: dict[str, ScramCredentialDeletion] = {}
        self.credentials: dict[str, ScramCredentialUpsertion] = {}

    def still_holds(self, image: ScramImage) -> bool:
        """Whether every credential to remove is still there."""
        return all(image.has(one.name, one.mechanism) for one in self.removals.values())

    def _take(self, user: str, error: UserError | None) -> bool:
        """Note the first outcome of a user; return whether the change is to be made."""
        if user in self.removals or user in self.credentials:
            self.removals.pop(user, None)
            self.credentials.pop(user, None)
            error = TWICE
        elif user in self.outcomes:
            return False
        self.outcomes[user] = error
        return error is None

    def remove(self, one: ScramCredentialDeletion, image: ScramImage) -> None:
        """Plan a removal."""
        error = _name_or_mechanism_error(one)
        if error is None and not image.has(one.name, one.mechanism):
            error = NO_SUCH_CREDENTIAL
        if self._take(one.name, error):
            self.removals[one.name] = one

    def set(self, one: ScramCredentialUpsertion) -> None:
        """Plan a credential to set."""
        if self._take(one.name, _name_or_mechanism_error(one) or _content_error(one)):
            self.credentials[one.name] = one

    def refuse_all(self, error: UserError) -> None:
        """Make no change, and give every user that error."""
        self.outcomes = dict.fromkeys(self.outcomes, error)
        self.removals.clear()
        self.credentials.clear()


def plan_users(
    image: ScramImage,
    removals: Sequence[ScramCredentialDeletion],
    credentials: Sequence[ScramCredentialUpsertion],
) -> UserPlan:
    """Check a request's changes against the users of `image`. Some 10 µs each, in any thread."""
    plan = UserPlan()
    for removal in removals:
        plan.remove(removal, image)
    for credential in credentials:
        plan.set(credential)
    size = sum(len(one.name) * 4 + len(one.salt) + KEYS_BYTES for one in plan.credentials.values())
    count = len(plan.removals) + len(plan.credentials)
    if count > CHANGES_PER_REQUEST_MAX or size > BYTES_PER_REQUEST_MAX:
        plan.refuse_all(TOO_MANY)
    plan.records += (
        RemoveUserScramCredentialRecord(name=one.name, mechanism=one.mechanism)
        for one in plan.removals.values()
    )
    plan.records += map(credential_record, plan.credentials.values())
    return plan


def _name_or_mechanism_error(
    one: ScramCredentialDeletion | ScramCredentialUpsertion,
) -> UserError | None:
    if not one.name:
        return UserError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if one.mechanism not in _MECHANISM_CODES:
        return UserError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None


def _content_error(one: ScramCredentialUpsertion) -> UserError | None:
    if one.iterations < ITERATIONS_MIN:
        return UserError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if one.iterations > ITERATIONS_MAX:
        return UserError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if len(one.name.encode()) > NAME_BYTES_MAX:
        message = f"Username is longer than {NAME_BYTES_MAX} bytes"
        return UserError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    if len(one.salt) > SALT_BYTES_MAX:
        message = f"Salt is longer than {SALT_BYTES_MAX} bytes"
        return UserError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    if not one.salted_password:
        return UserError(ErrorCode.UNKNOWN_SERVER_ERROR, "Salted password must not be empty")
    return None


def credential_record(one: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    """Return the record of a credential, with the keys that its salted password gives."""
    digest = ScramMechanism(one.mechanism).digest
    client_key = hmac.digest(one.salted_password, b"Client Key", digest)
    return UserScramCredentialRecord(
        name=one.name,
        mechanism=one.mechanism,
        salt=one.salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(one.salted_password, b"Server Key", digest),
        iterations=one.iterations,
    )
