"""SaslAuthenticate, API key 36, versions 0 to 2, where no authentication is in progress.

Behaviour
- On a listener with SASL, `broker.network.logins` answers these requests; one arrives here
  only after the authentication.
- Here the answer is ILLEGAL_SASL_STATE with Kafka's text, also on a listener without SASL. The
  connection stays open.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateResponse

TOO_LATE = "SaslAuthenticate request received after successful authentication"


def handle(request: Request, services: Services) -> SaslAuthenticateResponse:  # noqa: ARG001
    """Refuse the token."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=TOO_LATE)


def error_response(request: Request, code: ErrorCode) -> SaslAuthenticateResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return SaslAuthenticateResponse(error_code=code, error_message=code.message)
