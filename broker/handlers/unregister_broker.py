"""UnregisterBroker, API key 64, version 0.

Behaviour
- Any broker but this one: BROKER_ID_NOT_REGISTERED, as Kafka answers for brokers it does not know.
- This broker itself: INVALID_REQUEST. Kafka does as it is told, and then has a cluster without a
  broker, whose heartbeats are refused until it is started again.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(request: Request, services: Services) -> UnregisterBrokerResponse:
    """Refuse, and say why."""
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
    """Return the answer that says `code`."""
    return UnregisterBrokerResponse(error_code=code, error_message=code.message)
