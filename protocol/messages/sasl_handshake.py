"""SaslHandshake, API key 17, versions 0 and 1: choose the mechanism of an authentication.

Version notes
- 0: the tokens that follow are bare frames, without headers. 1: they travel in SaslAuthenticate
  (KIP-152). The message itself is the same.

Source: SaslHandshakeRequest.json and SaslHandshakeResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field

from protocol.wire import Int16, String, message, structure


@message(api_key=17, kind="request", versions=(0, 1), flexible_since=None)
@structure
class SaslHandshakeRequest:
    """The mechanism that the client wants to use."""

    mechanism: String


@message(api_key=17, kind="response", versions=(0, 1), flexible_since=None)
@structure
class SaslHandshakeResponse:
    """The outcome, and the mechanisms that the listener offers."""

    error_code: Int16 = 0
    mechanisms: list[String] = field(default_factory=list)
