"""TxnOffsetCommit, API key 28, versions 0-5: commit a group's offsets in a transaction (KIP-98).

Behaviour
- Topics and partitions that do not exist are refused one by one, and come first in the answer, as
  in Kafka. The others become pending in one batch, and are answered when that is durable, whatever
  `write.caching` says (broker/groups/txn_commits.py). The end of the transaction commits or drops
  them.
- An error of the group or the transaction is repeated for each partition.

Version notes: below 2 a group that is being loaded answers COORDINATOR_NOT_AVAILABLE (clients
before 2.0 retry without end), 2 leader epochs, 3 flexible and members (KIP-447), 4
TRANSACTION_ABORTABLE, 5 adds the group's partition to the transaction by itself (KIP-890).
"""

from __future__ import annotations

from collections.abc import Coroutine

from broker.groups.txn_commits import answers, commit
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.runtime.request import Pending, Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)

LOADING_VERSION = 2  # from here on clients handle COORDINATOR_LOAD_IN_PROGRESS
ADDS_PARTITION_VERSION = 5


def handle(
    request: Request, services: Services
) -> TxnOffsetCommitResponse | Pending | Coroutine[None, None, TxnOffsetCommitResponse | Pending]:
    """Append the offsets of all partitions that exist, once the transaction before has ended."""
    if request.header.api_version >= ADDS_PARTITION_VERSION:
        free = services.transactions.line_up(request.body.transactional_id)
        if free is not None:
            return _append_after(free, request, services)
    return _append(request, services)


async def _append_after(
    free: Coroutine[None, None, None], request: Request, services: Services
) -> TxnOffsetCommitResponse | Pending:
    await free
    return _append(request, services)


def _append(request: Request, services: Services) -> TxnOffsetCommitResponse | Pending:
    body: TxnOffsetCommitRequest = request.body
    version = request.header.api_version
    known, unknown = _sort_out(body, services)
    refused = answers(unknown, lambda _: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not known:
        return TxnOffsetCommitResponse(topics=refused)
    pending = Pending()

    def admit(number: int) -> ErrorCode:
        return services.transactions.admit(
            body.transactional_id,
            body.producer_id,
            body.producer_epoch,
            GROUP_TOPIC,
            number,
            version,
        )

    def answer(answered: list[TxnOffsetCommitResponseTopic]) -> None:
        if version < LOADING_VERSION:
            _without_loading(answered)
        pending.complete(TxnOffsetCommitResponse(topics=_merged(refused, answered)))

    commit(services.groups, body, known, admit, answer)
    return pending


def _sort_out(
    body: TxnOffsetCommitRequest, services: Services
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitRequestTopic]]:
    """Divide the partitions of the request into those that exist and those that do not."""
    known: list[TxnOffsetCommitRequestTopic] = []
    unknown: list[TxnOffsetCommitRequestTopic] = []
    for asked in body.topics:
        topic = services.topics.by_name(asked.name)
        numbers = set() if topic is None else {info.partition for info in topic.partitions}
        for found, is_known in ((known, True), (unknown, False)):
            partitions = [
                one for one in asked.partitions if (one.partition_index in numbers) is is_known
            ]
            if partitions:
                found.append(TxnOffsetCommitRequestTopic(name=asked.name, partitions=partitions))
    return known, unknown


def _without_loading(answered: list[TxnOffsetCommitResponseTopic]) -> None:
    for topic in answered:
        for one in topic.partitions:
            if one.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                one.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE


def _merged(
    refused: list[TxnOffsetCommitResponseTopic], answered: list[TxnOffsetCommitResponseTopic]
) -> list[TxnOffsetCommitResponseTopic]:
    by_name = {topic.name: topic for topic in refused}
    merged = list(refused)
    for answer in answered:
        same = by_name.get(answer.name)
        if same is None:
            merged.append(answer)
        else:
            same.partitions.extend(answer.partitions)
    return merged


def error_response(request: Request, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Return an answer with `code` for each partition in the request."""
    return TxnOffsetCommitResponse(topics=answers(request.body.topics, lambda _: code))
