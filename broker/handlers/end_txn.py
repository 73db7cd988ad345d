"""EndTxn, API key 26, versions 0-5.

Behaviour
- The transaction is committed or aborted in all its partitions. The answer comes when the outcome
  is durable and readers see it, and the next transaction may begin at once (Kafka answers earlier,
  and tells the next one to wait).
- From version 5 the epoch rises with every transaction. The answer has the producer id and epoch of
  the next one, and a repeated request gets them again.
- Nothing to commit, or the other outcome than the one that was decided: INVALID_TXN_STATE. An abort
  of nothing is fine from version 5.
- A fenced producer gets INVALID_PRODUCER_EPOCH, from version 2 on PRODUCER_FENCED.
- If the log of a partition has failed, a commit is TRANSACTION_ABORTABLE, before version 4
  INVALID_TXN_STATE; an abort is fine.

Version notes: 2 PRODUCER_FENCED, 3 flexible, 4 TRANSACTION_ABORTABLE, 5 epochs (KIP-890).
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.services import Services
from broker.transactions.transaction_errors import TransactionError
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_VERSION = 2
IDS_VERSION = 5


async def handle(request: Request, services: Services) -> EndTxnResponse:
    """End the transaction."""
    body: EndTxnRequest = request.body
    version = request.header.api_version
    try:
        producer_id, epoch = await services.transactions.end(
            body.transactional_id,
            body.producer_id,
            body.producer_epoch,
            is_commit=body.committed,
            version=version,
        )
    except TransactionError as error:
        code = error.code
        if code == ErrorCode.PRODUCER_FENCED and version < FENCED_VERSION:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return error_response(request, code)
    if version < IDS_VERSION:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


def error_response(request: Request, code: ErrorCode) -> EndTxnResponse:  # noqa: ARG001
    """Return an answer with `code` and no ids."""
    return EndTxnResponse(error_code=code)
