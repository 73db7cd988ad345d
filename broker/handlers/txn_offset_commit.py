"""TxnOffsetCommit, API key 28, versions 0-5: commit a group's offsets in a transaction (KIP-98).

Behaviour
- Topics and partitions that do not exist are refused one by one, and come first in the answer, as
  in Kafka. The others become pending in one batch, and are answered when that is durable, whatever
  `write.caching` says (broker/groups/txn_commits.py). The end of the transaction commits or drops
  them.
- An error of the group or the transaction is repeated for each partition.
- A commit of more than 500 partitions or topics is sorted out in turns of the loop, prepared in a
  thread, and answered in steps.
- A commit that has waited for a thread or for a transaction is refused if its client has lost a
  right meanwhile.

Version notes: below 2 a group that is being loaded answers COORDINATOR_NOT_AVAILABLE (clients
before 2.0 retry without end), 2 leader epochs, 3 flexible and members (KIP-447), 4
TRANSACTION_ABORTABLE, 5 adds the group's partition to the transaction by itself (KIP-890).
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from typing import NamedTuple

from broker.groups.txn_commits import Answers, Prepared, answers, commit, prepare
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.rights.standing import StandingCommit
from broker.runtime.lines import Turn
from broker.runtime.request import Pending, Request
from broker.runtime.steps import Steps, finished
from broker.runtime.turns import in_turns, names_more_than
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_VERSION = 2  # from here on clients handle COORDINATOR_LOAD_IN_PROGRESS
ADDS_PARTITION_VERSION = 5
PARTITIONS_ON_THE_LOOP = 500  # a commit that names more, or more topics, is prepared in a thread


class Sorted(NamedTuple):
    """What of a request exists, the refusals of what does not, and which topics do."""

    known: list[TxnOffsetCommitRequestTopic]
    refused: list[TxnOffsetCommitResponseTopic]
    ids: dict[str, bytes]  # of the topics in `known`, by their names


def handle(
    request: Request, services: Services
) -> TxnOffsetCommitResponse | Pending | Coroutine[None, None, TxnOffsetCommitResponse | Pending]:
    """Append the offsets of all partitions that exist, once the transaction before has ended."""
    body: TxnOffsetCommitRequest = request.body
    is_large = names_more_than(body.topics, PARTITIONS_ON_THE_LOOP)
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
    found: Sorted | None = None,
    prepared: Prepared | None = None,
) -> TxnOffsetCommitResponse | Pending:
    """Append if the client still may: it has waited."""
    if standing is not None:
        code = standing.refusal(topic.name for topic in request.body.topics)
        if code:
            return error_response(request, code)
    return _append(request, services, found, prepared)


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
        found, prepared = None, None
        while True:
            if is_large:
                found = await in_turns(_sorted(body, services))
                make = partial(prepare, services.groups, body, found.known)
                prepared = await services.pool.run(make)
            free = _line_up(request, services)
            if free is not None:
                await free
            if found is None or _is_current(found, services):
                break  # else a topic was deleted meanwhile
        return _append_still(request, services, standing, found, prepared)


def _is_current(found: Sorted, services: Services) -> bool:
    by_name = services.topics.by_name
    topics = ((by_name(name), topic_id) for name, topic_id in found.ids.items())
    return all(topic is not None and topic.topic_id == topic_id for topic, topic_id in topics)


def _append(
    request: Request,
    services: Services,
    found: Sorted | None = None,
    prepared: Prepared | None = None,
) -> TxnOffsetCommitResponse | Pending:
    body: TxnOffsetCommitRequest = request.body
    version = request.header.api_version
    known, refused, _ = finished(_sorted(body, services)) if found is None else found
    if not known:
        return TxnOffsetCommitResponse(topics=refused)
    is_large = prepared is not None
    if prepared is None:
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

    def answer(answered: Answers) -> None:
        merged = _merged(refused, answered, without_loading=version < LOADING_VERSION)
        pending.complete(merged if is_large else finished(merged))

    commit(services.groups, body, prepared, admit, answer)
    return pending


def _sorted(body: TxnOffsetCommitRequest, services: Services) -> Generator[int, None, Sorted]:
    """Divide the request into what exists and what does not, in steps.

    A topic that is deleted between two steps is still there for the steps before.
    """
    found = Sorted([], [], {})
    by_name: dict[str, set[int]] = {}  # a topic may have many partitions, and be named often
    for asked in body.topics:
        numbers = by_name.get(asked.name)
        if numbers is None:
            topic = services.topics.by_name(asked.name)
            numbers = set()
            if topic is not None:
                numbers = {info.partition for info in topic.partitions}
                found.ids[asked.name] = topic.topic_id
            by_name[asked.name] = numbers
        yield from _sort_out(asked, numbers, found)
        yield 0
    return found


def _sort_out(
    asked: TxnOffsetCommitRequestTopic, numbers: set[int], found: Sorted
) -> Generator[int, None, None]:
    """Divide the partitions of one topic into those that exist and those that do not."""
    existing: list[TxnOffsetCommitRequestPartition] = []
    missing: list[TxnOffsetCommitResponsePartition] = []
    for one in asked.partitions:
        if one.partition_index in numbers:
            existing.append(one)
        else:
            refused = TxnOffsetCommitResponsePartition(
                partition_index=one.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            missing.append(refused)
        yield 0
    if existing:
        found.known.append(TxnOffsetCommitRequestTopic(name=asked.name, partitions=existing))
    if missing or asked.name not in found.ids:  # it is answered, also without partitions
        found.refused.append(TxnOffsetCommitResponseTopic(name=asked.name, partitions=missing))


def _without_loading(topic: TxnOffsetCommitResponseTopic) -> None:
    for one in topic.partitions:
        if one.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            one.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE


def _merged(
    refused: list[TxnOffsetCommitResponseTopic], answers_in_steps: Answers, *, without_loading: bool
) -> Steps:
    answered = yield from answers_in_steps
    by_name: dict[str, TxnOffsetCommitResponseTopic] = {}
    for topic in refused:
        by_name[topic.name] = topic
        yield 0
    merged = list(refused)
    for answer in answered:
        if without_loading:
            _without_loading(answer)
        same = by_name.get(answer.name)
        if same is None:
            merged.append(answer)
        else:
            same.partitions.extend(answer.partitions)
        yield 0
    return TxnOffsetCommitResponse(topics=merged)


def error_response(request: Request, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Return an answer with `code` for each partition in the request."""
    return TxnOffsetCommitResponse(topics=finished(answers(request.body.topics, lambda _: code)))
