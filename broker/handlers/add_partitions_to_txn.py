"""AddPartitionsToTxn, API key 24, versions 0-5.

Behaviour
- All partitions of a transaction are added, in one record, or none. If one does not exist, it is
  UNKNOWN_TOPIC_OR_PARTITION, and one of a topic that belongs to a coordinator
  TOPIC_AUTHORIZATION_FAILED; the others are OPERATION_NOT_ATTEMPTED.
- The answer comes when the record is durable. Partitions that the transaction has already are fine.
- Versions 4 and 5 are for brokers: many transactions, and `verify_only`, which adds nothing and
  answers TRANSACTION_ABORTABLE for a partition that is not in the transaction. They may add
  partitions of `__consumer_offsets`.
- A fenced producer gets INVALID_PRODUCER_EPOCH, from version 2 on PRODUCER_FENCED.
- A request may name any number of transactions, topics and partitions: it is handled in turns of
  the loop.

Version notes: 2 PRODUCER_FENCED, 3 flexible, 4 batched (KIP-890), 5 TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from broker.metadata.topic_rules import INTERNAL_TOPICS, TRANSACTION_TOPIC
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.runtime.turns import InTurns, with_partitions
from broker.services import Services
from broker.transactions.transaction_errors import TransactionError
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_VERSION = 2
BATCHED_VERSION = 4
TRANSACTIONS_PER_TURN = 500
PARTITIONS_PER_TURN = 2_000
RESULT_BYTES = 6  # of a partition in the answer

Place = tuple[str, int]
Codes = defaultdict[Place, ErrorCode]  # those that are not the default


def _none() -> ErrorCode:
    return ErrorCode.NONE


async def handle(request: Request, services: Services) -> Steps:
    """Add partitions to transactions."""
    body: AddPartitionsToTxnRequest = request.body
    version = request.header.api_version
    transactions = InTurns(_transactions(body, version), TRANSACTIONS_PER_TURN)
    codes = [await _add(services, transaction, version) async for transaction in transactions]
    return _answer(body, version, codes)


def _transactions(
    body: AddPartitionsToTxnRequest, version: int
) -> Sequence[AddPartitionsToTxnTransaction]:
    if version >= BATCHED_VERSION:
        return body.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=body.v3_and_below_transactional_id,
            producer_id=body.v3_and_below_producer_id,
            producer_epoch=body.v3_and_below_producer_epoch,
            topics=body.v3_and_below_topics,
        )
    ]


async def _add(
    services: Services, asked: AddPartitionsToTxnTransaction, version: int
) -> Codes | ErrorCode:
    """Add partitions to one transaction; return the codes that are not NONE, or one for all."""
    transactions = services.transactions
    try:
        transactions.check_served(asked.transactional_id)
        refused = await _refused(services, asked.topics, version)
        if refused:
            return defaultdict(lambda: ErrorCode.OPERATION_NOT_ATTEMPTED, refused)
        wanted = await _by_topic(asked.topics)
        producer = (asked.transactional_id, asked.producer_id, asked.producer_epoch)
        if asked.verify_only:
            return defaultdict(_none, await transactions.unverified(*producer, wanted))
        await transactions.add(*producer, wanted)
    except TransactionError as error:
        return _code_of(error.code, version)
    return defaultdict(_none)


def _code_of(code: ErrorCode, version: int) -> ErrorCode:
    is_old = code == ErrorCode.PRODUCER_FENCED and version < FENCED_VERSION
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code


async def _refused(
    services: Services, topics: Sequence[AddPartitionsToTxnTopic], version: int
) -> dict[Place, ErrorCode]:
    """Return the codes of the partitions that cannot be added."""
    refused: dict[Place, ErrorCode] = {}
    is_refused = INTERNAL_TOPICS if version < BATCHED_VERSION else (TRANSACTION_TOPIC,)
    code, count = ErrorCode.NONE, 0
    async for asked, number in InTurns(with_partitions(topics), PARTITIONS_PER_TURN):
        if number is not None:
            if not 0 <= number < count:
                refused[asked.name, number] = code
            continue
        topic = services.topics.by_name(asked.name)
        count = 0 if topic is None else len(topic.partitions)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if asked.name in is_refused:
            code, count = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0
    return refused


async def _by_topic(topics: Sequence[AddPartitionsToTxnTopic]) -> Mapping[str, Sequence[int]]:
    """Return the partitions by topic; a topic may be named more than once."""
    wanted: dict[str, list[int]] = {}
    async for asked in InTurns(topics, PARTITIONS_PER_TURN):
        wanted.setdefault(asked.name, []).extend(asked.partitions)
    return wanted


def _answer(
    body: AddPartitionsToTxnRequest, version: int, codes: Sequence[Codes | ErrorCode]
) -> Steps:
    response = AddPartitionsToTxnResponse()
    for asked, found in zip(_transactions(body, version), codes, strict=True):
        result = AddPartitionsToTxnResult(transactional_id=asked.transactional_id)
        if version >= BATCHED_VERSION:
            response.results_by_transaction.append(result)
            results = result.topic_results
        else:
            results = response.results_by_topic_v3_and_below
        for topic in asked.topics:
            answer = AddPartitionsToTxnTopicResult(name=topic.name)
            results.append(answer)
            yield len(topic.name)
            for number in topic.partitions:
                place = (topic.name, number)
                code = found if isinstance(found, ErrorCode) else found[place]
                answer.results_by_partition.append(
                    AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=code
                    )
                )
                yield RESULT_BYTES
    return response


def error_response(request: Request, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Return an answer with `code` for the request, up to version 3 for each partition."""
    if request.header.api_version >= BATCHED_VERSION:
        return AddPartitionsToTxnResponse(error_code=code)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=code
                    )
                    for number in topic.partitions
                ],
            )
            for topic in request.body.v3_and_below_topics
        ]
    )
