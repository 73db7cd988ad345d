"""AddOffsetsToTxn, API key 25, versions 0-4.

Behaviour
- The partition of `__consumer_offsets` that belongs to the group joins the transaction. The topic
  is created if it does not exist yet.
- The answer comes when the record is durable.
- A fenced producer gets INVALID_PRODUCER_EPOCH, from version 2 on PRODUCER_FENCED.

Version notes: 2 PRODUCER_FENCED, 3 flexible, 4 TRANSACTION_ABORTABLE (never answered).
"""

from __future__ import annotations

from broker.groups.errors import GroupError
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.runtime.request import Request
from broker.services import Services
from broker.transactions.transaction_errors import TransactionError
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_VERSION = 2


async def handle(request: Request, services: Services) -> AddOffsetsToTxnResponse:
    """Let the offsets of a group join the transaction."""
    body: AddOffsetsToTxnRequest = request.body
    try:
        services.transactions.check_served(body.transactional_id)
        await services.groups.ensure_log()
        number = services.groups.partition_of(body.group_id)
        await services.transactions.add(
            body.transactional_id, body.producer_id, body.producer_epoch, {GROUP_TOPIC: (number,)}
        )
    except (TransactionError, GroupError) as error:
        code = error.code
        if code == ErrorCode.PRODUCER_FENCED and request.header.api_version < FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return error_response(request, code)
    return AddOffsetsToTxnResponse()


def error_response(request: Request, code: ErrorCode) -> AddOffsetsToTxnResponse:  # noqa: ARG001
    """Return an answer with `code`."""
    return AddOffsetsToTxnResponse(error_code=code)
