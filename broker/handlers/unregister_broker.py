"""UnregisterBroker, API key 64, version 0.

Behaviour
- Any other broker: BROKER_ID_NOT_REGISTERED, as in Kafka for unknown brokers.
- This broker: INVALID_REQUEST. Kafka obeys, and its cluster then has no broker until that one is
  restarted, since its heartbeats are refused.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(request: Request, services: Services) -> UnregisterBrokerResponse:
    """Refuse the request, with the reason."""
    body: UnregisterBrokerRequest = request.body
    if body.broker_id == services.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Broker {body.broker_id} is running and is the only one. "
            "To take it out of service, stop it.",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {body.broker_id} is not currently registered",
    )


def error_response(request: Request, code: ErrorCode) -> UnregisterBrokerResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return UnregisterBrokerResponse(error_code=code, error_message=code.message)
