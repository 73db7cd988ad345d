"""SaslHandshake, API key 17, versions 0 and 1, where no authentication can begin.

Behaviour
- On a listener with SASL, `broker.network.logins` answers these requests. Only those of an
  authenticated connection arrive here, if it does not expire or was renewed within the last second.
- Here the answer is ILLEGAL_SASL_STATE without mechanisms, as in Kafka. The connection stays open.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.sasl_handshake import SaslHandshakeResponse


def handle(request: Request, services: Services) -> SaslHandshakeResponse:  # noqa: ARG001
    """Refuse the handshake."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def error_response(request: Request, code: ErrorCode) -> SaslHandshakeResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return SaslHandshakeResponse(error_code=code)
