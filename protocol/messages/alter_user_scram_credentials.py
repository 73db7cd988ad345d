"""AlterUserScramCredentials, API key 51, version 0: set and remove credentials of users (KIP-554).

The client makes the salted password, so the broker never sees the password. The salted password is
as good as the password for a login, so `repr` hides it.

Source: AlterUserScramCredentialsRequest.json and AlterUserScramCredentialsResponse.json,
Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bytes, Int8, Int16, Int32, Nullable, String, message, structure


@structure
class ScramCredentialDeletion:
    """A credential to remove; `mechanism` is a `protocol.scram_records.ScramMechanism`."""

    name: String
    mechanism: Int8


@structure
class ScramCredentialUpsertion:
    """A credential to set, new or not."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes = field(repr=False)
    salted_password: Bytes = field(repr=False)


@message(api_key=51, kind="request", versions=(0, 0), flexible_since=0)
@structure
class AlterUserScramCredentialsRequest:
    """The credentials to remove, and those to set."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


@structure
class AlterUserScramCredentialsResult:
    """The outcome for one user."""

    user: String
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""


@message(api_key=51, kind="response", versions=(0, 0), flexible_since=0)
@structure
class AlterUserScramCredentialsResponse:
    """The outcome for each user of the request."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)
