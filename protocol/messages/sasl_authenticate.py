"""SaslAuthenticate, API key 36, versions 0 to 2: one token of an authentication.

Version notes
- 1: the answer says how long the session lasts (KIP-368). 2: flexible.

Source: SaslAuthenticateRequest.json and SaslAuthenticateResponse.json, Apache Kafka 4.3 (KIP-152).
"""

from typing import Annotated

from protocol.wire import Bytes, Int16, Int64, Nullable, Since, String, message, structure


@message(api_key=36, kind="request", versions=(0, 2), flexible_since=2)
@structure
class SaslAuthenticateRequest:
    """A token of the client's mechanism."""

    auth_bytes: Bytes


@message(api_key=36, kind="response", versions=(0, 2), flexible_since=2)
@structure
class SaslAuthenticateResponse:
    """The broker's token, or why the client is refused."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, Since(1)] = 0
