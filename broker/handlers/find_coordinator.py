"""FindCoordinator, API key 10, versions 0-6.

Behaviour
- This broker coordinates every group. The answer has the address of the listener that received the
  request (broker/network/advertised.py).
- The first request creates `__consumer_offsets`, and is answered when the topic is online. Kafka
  answers COORDINATOR_NOT_AVAILABLE meanwhile, which costs the first consumer a retry.
- Coordinators of transactions: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, since there are no
  transactions. Of share groups: INVALID_REQUEST, as in Kafka with share groups disabled
  (docs/unsupported.md). Unknown types: INVALID_REQUEST.

Version notes: 1 key type and message, 3 flexible, 4 many keys (KIP-699), 5
TRANSACTION_ABORTABLE (never answered), 6 share groups (KIP-932).
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.groups.errors import GroupError
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

MANY_KEYS_VERSION = 4
NO_NODE = -1


async def handle(request: Request, services: Services) -> FindCoordinatorResponse | Steps:
    """Name this broker for every group."""
    body: FindCoordinatorRequest = request.body
    code = await _refusal(body, services)
    if code:
        return error_response(request, code)
    host, port = services.advertised.endpoint(request.info)
    if request.header.api_version < MANY_KEYS_VERSION:
        return FindCoordinatorResponse(
            node_id=services.node_id, host=host, port=port, error_message=ErrorCode.NONE.name
        )
    return _of_each(body.coordinator_keys, services.node_id, host, port)


def _of_each(keys: Sequence[str], node_id: int, host: str, port: int) -> Steps:
    response = FindCoordinatorResponse()
    for key in keys:
        response.coordinators.append(Coordinator(key=key, node_id=node_id, host=host, port=port))
        yield len(host)
    return response


async def _refusal(body: FindCoordinatorRequest, services: Services) -> ErrorCode:
    if body.key_type == TRANSACTION:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if body.key_type != GROUP:
        return ErrorCode.INVALID_REQUEST
    try:
        await services.groups.ensure_log()
    except GroupError as error:
        return error.code
    return ErrorCode.NONE


def error_response(request: Request, code: ErrorCode) -> FindCoordinatorResponse:
    """Return an answer with `code` for each key in the request."""
    if request.header.api_version < MANY_KEYS_VERSION:
        return FindCoordinatorResponse(
            error_code=code, error_message=code.message, node_id=NO_NODE, port=NO_NODE
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key,
                node_id=NO_NODE,
                host="",
                port=NO_NODE,
                error_code=code,
                error_message=code.message,
            )
            for key in request.body.coordinator_keys
        ]
    )
