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

from collections.abc import Generator

from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from broker.transactions.transaction import Transaction
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
    answered: set[str] = set()
    for name in body.transactional_ids:
        if name not in answered:
            answered.add(name)
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
    by_topic = yield from _partitions(services, found)
    for topic, numbers in by_topic.items():
        described.topics.append(TopicData(topic=topic, partitions=numbers))
        yield len(topic) + PARTITION_BYTES * len(numbers)
    return described


def _partitions(
    services: Services, found: Transaction
) -> Generator[int, None, dict[str, list[int]]]:
    """Return the partitions as they are now, by topic: the transaction goes on between steps."""
    if not found.state.is_prepared:
        return {topic: list(numbers) for topic, numbers in found.partitions.items()}
    missing = tuple(services.transactions.endings.missing_of(found))
    by_topic: dict[str, list[int]] = {}
    for start in range(0, len(missing), PARTITIONS_PER_STEP):
        for topic, number in missing[start : start + PARTITIONS_PER_STEP]:
            by_topic.setdefault(topic, []).append(number)
        yield 0
    return by_topic


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
