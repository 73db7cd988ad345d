"""TxnOffsetCommit, API key 28, versions 0-5: commit a group's offsets in a transaction (KIP-98).

Behaviour
- Topics and partitions that do not exist are refused one by one, and come first in the answer, as
  in Kafka. The others become pending in one batch, and are answered when that is durable, whatever
  `write.caching` says (broker/groups/txn_commits.py). The end of the transaction commits or drops
  them.
- An error of the group or the transaction is repeated for each partition.
- A commit that has waited for a thread or for a transaction is refused if its client has lost a
  right meanwhile.

Version notes: below 2 a group that is being loaded answers COORDINATOR_NOT_AVAILABLE (clients
before 2.0 retry without end), 2 leader epochs, 3 flexible and members (KIP-447), 4
TRANSACTION_ABORTABLE, 5 adds the group's partition to the transaction by itself (KIP-890).
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial

from broker.groups.txn_commits import Prepared, answers, commit, prepare
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.rights.standing import StandingCommit
from broker.runtime.lines import Turn
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
PARTITIONS_ON_THE_LOOP = 500  # a larger commit is prepared in a thread


def handle(
    request: Request, services: Services
) -> TxnOffsetCommitResponse | Pending | Coroutine[None, None, TxnOffsetCommitResponse | Pending]:
    """Append the offsets of all partitions that exist, once the transaction before has ended."""
    body: TxnOffsetCommitRequest = request.body
    is_large = sum(len(topic.partitions) for topic in body.topics) > PARTITIONS_ON_THE_LOOP
    if is_large or body.transactional_id in services.groups.large_commits.waiting:
        turn = services.groups.large_commits.turn(body.transactional_id)
        standing = _standing(request, services)
        return _append_in_turn(turn, request, services, standing, is_large=is_large)
    free = _line_up(request, services)
    if free is None:
        return _append(request, services)
    return _append_after(free, request, services, _standing(request, services))


def _standing(request: Request, services: Services) -> StandingCommit | None:
    authorizer, body = services.authorizer, request.body
    if authorizer is None:
        return None
    return StandingCommit(request, authorizer, body.group_id, body.transactional_id)


def _line_up(request: Request, services: Services) -> Coroutine[None, None, None] | None:
    if request.header.api_version < ADDS_PARTITION_VERSION:
        return None
    return services.transactions.line_up(request.body.transactional_id)


async def _append_after(
    free: Coroutine[None, None, None],
    request: Request,
    services: Services,
    standing: StandingCommit | None,
) -> TxnOffsetCommitResponse | Pending:
    await free
    return _append_still(request, services, standing)


def _append_still(
    request: Request,
    services: Services,
    standing: StandingCommit | None,
    prepared: Prepared | None = None,
) -> TxnOffsetCommitResponse | Pending:
    """Append if the client still may: it has waited."""
    if standing is not None:
        code = standing.refusal(topic.name for topic in request.body.topics)
        if code:
            return error_response(request, code)
    return _append(request, services, prepared)


async def _append_in_turn(
    turn: Turn,
    request: Request,
    services: Services,
    standing: StandingCommit | None,
    *,
    is_large: bool,
) -> TxnOffsetCommitResponse | Pending:
    """Append behind the large commits of the same id, and have a thread prepare this one."""
    body: TxnOffsetCommitRequest = request.body
    async with turn:
        prepared = None
        if is_large:
            known, _ = _sort_out(body, services)
            prepared = await services.pool.run(partial(prepare, services.groups, body, known))
        free = _line_up(request, services)
        if free is not None:
            await free
        return _append_still(request, services, standing, prepared)


def _append(
    request: Request, services: Services, prepared: Prepared | None = None
) -> TxnOffsetCommitResponse | Pending:
    body: TxnOffsetCommitRequest = request.body
    version = request.header.api_version
    known, unknown = _sort_out(body, services)
    refused = answers(unknown, lambda _: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not known:
        return TxnOffsetCommitResponse(topics=refused)
    if prepared is None or prepared.topics != known:  # or a topic was deleted meanwhile
        prepared = prepare(services.groups, body, known)
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

    commit(services.groups, body, prepared, admit, answer)
    return pending


def _sort_out(
    body: TxnOffsetCommitRequest, services: Services
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitRequestTopic]]:
    """Divide the partitions of the request into those that exist and those that do not."""
    known: list[TxnOffsetCommitRequestTopic] = []
    unknown: list[TxnOffsetCommitRequestTopic] = []
    by_name: dict[str, set[int]] = {}  # a topic may have many partitions, and be named often
    for asked in body.topics:
        numbers = by_name.get(asked.name)
        if numbers is None:
            topic = services.topics.by_name(asked.name)
            numbers = set() if topic is None else {info.partition for info in topic.partitions}
            by_name[asked.name] = numbers
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
