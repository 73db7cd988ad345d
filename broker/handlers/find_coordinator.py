"""FindCoordinator, API key 10, versions 0-6.

Behaviour
- This broker coordinates every group and every transactional id. The answer has the address of the
  listener that received the request (broker/network/advertised.py).
- The first request for a group creates `__consumer_offsets`, the first for a transactional id
  `__transaction_state`, and is answered when the topic is online. Kafka answers
  COORDINATOR_NOT_AVAILABLE meanwhile, which costs the first client a retry.
- While the log of a group or an id is offline: COORDINATOR_NOT_AVAILABLE, as in Kafka for a
  partition without a leader.
- Coordinators of share groups (as in Kafka with share groups disabled, docs/unsupported.md) and
  unknown types: INVALID_REQUEST. The empty id has a coordinator, as in Kafka.

Version notes: 1 key type and message, 3 flexible, 4 many keys (KIP-699), 5
TRANSACTION_ABORTABLE (never answered), 6 share groups (KIP-932).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from broker.groups.errors import GroupError
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from broker.transactions.transaction_errors import TransactionError
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
    """Name this broker for every group and transactional id."""
    body: FindCoordinatorRequest = request.body
    code = await _refusal(body, services)
    if code:
        return error_response(request, code)
    host, port = services.advertised.endpoint(request.info)
    is_of_groups = body.key_type == GROUP
    coordinator_of = services.groups if is_of_groups else services.transactions
    is_available: Callable[[str], bool] = coordinator_of.is_available
    if request.header.api_version < MANY_KEYS_VERSION:
        if not is_available(body.key):
            return error_response(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(
            node_id=services.node_id, host=host, port=port, error_message=ErrorCode.NONE.name
        )
    coordinator = Coordinator(key="", node_id=services.node_id, host=host, port=port)
    return _of_each(body.coordinator_keys, is_available, coordinator)


def _of_each(
    keys: Sequence[str], is_available: Callable[[str], bool], coordinator: Coordinator
) -> Steps:
    response = FindCoordinatorResponse()
    for key in keys:
        if is_available(key):
            found = replace(coordinator, key=key)
        else:
            found = _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        response.coordinators.append(found)
        yield len(coordinator.host)
    return response


def _none(key: str, code: ErrorCode) -> Coordinator:
    """Return the answer for a key without a coordinator."""
    return Coordinator(
        key=key,
        node_id=NO_NODE,
        host="",
        port=NO_NODE,
        error_code=code,
        error_message=code.message,
    )


async def _refusal(body: FindCoordinatorRequest, services: Services) -> ErrorCode:
    try:
        if body.key_type == GROUP:
            await services.groups.ensure_log()
        elif body.key_type == TRANSACTION:
            await services.transactions.ensure_log()
        else:
            return ErrorCode.INVALID_REQUEST
    except (GroupError, TransactionError) as error:
        return error.code
    return ErrorCode.NONE


def error_response(request: Request, code: ErrorCode) -> FindCoordinatorResponse:
    """Return an answer with `code` for each key in the request."""
    if request.header.api_version < MANY_KEYS_VERSION:
        return FindCoordinatorResponse(
            error_code=code, error_message=code.message, node_id=NO_NODE, port=NO_NODE
        )
    return FindCoordinatorResponse(
        coordinators=[_none(key, code) for key in request.body.coordinator_keys]
    )
