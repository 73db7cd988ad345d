"""DescribeTransactions, API key 65, version 0: the coordinator's state of transactional ids.

Behaviour
- An id that does not exist is TRANSACTIONAL_ID_NOT_FOUND, the empty id INVALID_REQUEST, and one
  that is not served at present has the code that each other request for it would get.
- The start time stays that of the last transaction after it has ended, as in Kafka.
- While a transaction is being ended, `topics` has only the partitions whose markers are missing.
- Ours: how and why the last transaction ended, as far as this process knows.
- An id that is named more than once is answered once, since its partitions may be many.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from broker.transactions.transaction import Place, Transaction
from broker.transactions.transaction_errors import TransactionError
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    LastEnd,
    TopicData,
    TransactionState,
)

PARTITIONS_PER_STEP = 1_000
PARTITION_BYTES = 4  # of the answer


def handle(request: Request, services: Services) -> Steps:
    """Describe each id."""
    body: DescribeTransactionsRequest = request.body
    response = DescribeTransactionsResponse()
    for name in dict.fromkeys(body.transactional_ids):
        described = yield from _describe(services, name)
        response.transaction_states.append(described)
        yield len(name)
    return response


def _describe(services: Services, name: str) -> Generator[int, None, TransactionState]:
    try:
        found = services.transactions.find(name)
    except TransactionError as error:
        return TransactionState(transactional_id=name, error_code=error.code)
    if found is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return TransactionState(transactional_id=name, error_code=code)
    described = TransactionState(
        transactional_id=name,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        last_end=_last_end(found),
    )
    topics: dict[str, TopicData] = {}
    for count, (topic, number) in enumerate(_places(services, found), 1):
        if topic not in topics:
            topics[topic] = TopicData(topic=topic)
            described.topics.append(topics[topic])
        topics[topic].partitions.append(number)
        if count % PARTITIONS_PER_STEP == 0:
            yield PARTITIONS_PER_STEP * PARTITION_BYTES
    return described


def _places(services: Services, found: Transaction) -> Iterable[Place]:
    """Return the partitions as they are now: the transaction goes on between the steps."""
    if found.state.is_prepared:
        return tuple(services.transactions.endings.missing_of(found))
    return tuple(found.places())


def _last_end(found: Transaction) -> LastEnd | None:
    last = found.last_end
    if last is None:
        return None
    return LastEnd(committed=last.is_commit, reason=last.reason.value, time_ms=last.ended_ms)


def error_response(request: Request, code: ErrorCode) -> DescribeTransactionsResponse:
    """Return an answer with `code` for each id in the request."""
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=name, error_code=code)
            for name in request.body.transactional_ids
        ]
    )
