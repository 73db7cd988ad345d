"""InitProducerId, API key 22, versions 0-5.

Behaviour
- An idempotent producer gets an id that was never used before, with epoch 0 (KIP-98).
- An idempotent producer that sends its id and epoch (KIP-360, version 3) gets a new id as well: as
  in Kafka, the broker bumps epochs only for transactional producers.
- With a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, since there are no transactions
  (docs/unsupported.md).

Version notes: 2 flexible, 3 producer id and epoch (KIP-360), 4 PRODUCER_FENCED, 5 as 4.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_EPOCH = -1


async def handle(request: Request, services: Services) -> InitProducerIdResponse:
    """Answer with an id and an epoch."""
    body: InitProducerIdRequest = request.body
    if body.transactional_id is not None:
        if not body.transactional_id:
            return error_response(request, ErrorCode.INVALID_REQUEST)
        return error_response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_EPOCH):
        return error_response(request, ErrorCode.INVALID_REQUEST)
    return InitProducerIdResponse(producer_id=await services.producer_ids.next(), producer_epoch=0)


def error_response(request: Request, code: ErrorCode) -> InitProducerIdResponse:  # noqa: ARG001
    """Return an answer with `code` and no producer id."""
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
    )
