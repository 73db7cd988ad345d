"""InitProducerId, API key 22, versions 0-5.

Behaviour
- An idempotent producer gets an id that was never used before, with epoch 0 (KIP-98).
- An idempotent producer that sends its id and epoch (KIP-360, version 3) gets a new id as well: as
  in Kafka, the broker bumps epochs only for transactional producers.
- With a transactional id, the id's producer gets its next epoch, which fences the instances before
  it. While a transaction is open, that is aborted, and the answer is CONCURRENT_TRANSACTIONS until
  it is over. The answer comes when the new epoch is durable.
- A transactional producer that sends its id and epoch goes on after an error. The epoch before is
  that of a retry. Any other is fenced: INVALID_PRODUCER_EPOCH, from version 4 on PRODUCER_FENCED.
- `by_operator`, a tagged field of ours: DescribeTransactions then gives an operator as the reason.
- A timeout of 0, below, or above `transaction.max.timeout.ms`: INVALID_TRANSACTION_TIMEOUT.

Version notes: 2 flexible, 3 producer id and epoch (KIP-360), 4 PRODUCER_FENCED, 5 as 4.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from broker.transactions.transaction_errors import TransactionError
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NO_PRODUCER_ID = -1
NO_EPOCH = -1
FENCED_VERSION = 4


async def handle(request: Request, services: Services) -> InitProducerIdResponse:
    """Answer with an id and an epoch."""
    body: InitProducerIdRequest = request.body
    if body.transactional_id == "":
        return error_response(request, ErrorCode.INVALID_REQUEST)
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_EPOCH):
        return error_response(request, ErrorCode.INVALID_REQUEST)
    if body.transactional_id is None:
        producer_id = await services.producer_ids.next()
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    expected = None
    if body.producer_id != NO_PRODUCER_ID:
        expected = body.producer_id, body.producer_epoch
    try:
        producer_id, epoch = await services.transactions.init(
            body.transactional_id,
            body.transaction_timeout_ms,
            expected,
            by_operator=body.by_operator,
        )
    except TransactionError as error:
        code = error.code
        if code == ErrorCode.PRODUCER_FENCED and request.header.api_version < FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return error_response(request, code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def error_response(request: Request, code: ErrorCode) -> InitProducerIdResponse:  # noqa: ARG001
    """Return an answer with `code` and no producer id."""
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
    )
