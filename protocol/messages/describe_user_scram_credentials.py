"""DescribeUserScramCredentials, API key 50, version 0: which credentials users have, without keys.

Source: DescribeUserScramCredentialsRequest.json and DescribeUserScramCredentialsResponse.json,
Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Int8, Int16, Int32, Nullable, String, message, structure


@structure
class UserName:
    """A user."""

    name: String


@message(api_key=50, kind="request", versions=(0, 0), flexible_since=0)
@structure
class DescribeUserScramCredentialsRequest:
    """The users to describe; null or empty: all."""

    users: Annotated[list[UserName] | None, Nullable()] = field(default_factory=list)


@structure
class CredentialInfo:
    """A mechanism (`protocol.scram_records.ScramMechanism`), and the iterations of its hash."""

    mechanism: Int8
    iterations: Int32


@structure
class DescribeUserScramCredentialsResult:
    """The outcome for one user."""

    user: String
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@message(api_key=50, kind="response", versions=(0, 0), flexible_since=0)
@structure
class DescribeUserScramCredentialsResponse:
    """The outcome of the request, and of each user."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)
