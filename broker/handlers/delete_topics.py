"""DeleteTopics, API key 20, versions 1-6.

Behaviour
- Topics are named, or from version 6 on given by id; both or neither is INVALID_REQUEST.
- A name or an id that is given twice is answered once, with INVALID_REQUEST, and the topic is not
  deleted. The same holds for a topic that is given once by name and once by id.
- The answer comes when the deletion is durable. The files leave their topic at once, and the disk
  after `file.delete.delay.ms`.
- `__transaction_state` is not deleted: INVALID_REQUEST. Kafka deletes it, and transactions hang.
- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED for each (INVALID_REQUEST before version 3).
- A topic that is deleted and created again while its deletion waits for large changes stays: the
  request meant its predecessor.
- Answers are in the order of the request. Kafka shuffles them, so clients rely on no order.
- A request may name any number of topics: it is handled in turns of the loop.

Version notes: 3 TOPIC_DELETION_DISABLED, 4 flexible, 5 error messages, and
THROTTLING_QUOTA_EXCEEDED where older versions throttle the client after the change (KIP-599), 6
topic ids (KIP-516).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from broker.error_mapping import error_code_of
from broker.metadata.topic_rules import TRANSACTION_TOPIC, TopicError
from broker.quotas.mutations import MutationQuota
from broker.runtime.request import Request
from broker.runtime.steps import Steps, finished
from broker.runtime.turns import InTurns
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.wire import ZERO_UUID
from storage.errors import StorageError

BY_ID_VERSION = 6
TOGETHER = 32  # topics deleted at a time, which bounds the work of one turn of the loop
JUDGED_PER_TURN = 1_000
ANSWER_BYTES = 40  # of a topic, beside its name
DISABLED_CODE_VERSION = 3
STRICT_QUOTA_VERSION = 5


async def handle(request: Request, services: Services) -> Steps:
    """Delete each topic; each has an outcome of its own."""
    if not services.config.delete_topic_enable:
        disabled = request.header.api_version >= DISABLED_CODE_VERSION
        return _refused_each(
            request,
            ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.INVALID_REQUEST,
        )
    judged = await _judged(services, request)
    quota = None
    if (quotas := services.quotas.clients) is not None:
        quota = quotas.mutations(request, STRICT_QUOTA_VERSION)
    results: list[DeletableTopicResult] = []
    for start in range(0, len(judged), TOGETHER):  # one fsync for all of them
        some = (_result(services, *one, quota) for one in judged[start : start + TOGETHER])
        results += await asyncio.gather(*some)
    throttle_ms = 0 if quota is None else quota.throttle_ms()
    return _answer(results, throttle_ms)


def _answer(results: list[DeletableTopicResult], throttle_ms: int) -> Steps:
    for result in results:
        yield ANSWER_BYTES + len(result.name or "")
    return DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=results)


async def _result(
    services: Services,
    topic: DeleteTopicState,
    refusal: TopicError | None,
    quota: MutationQuota | None,
) -> DeletableTopicResult:
    try:
        if refusal is not None:
            raise refusal
        return await _delete(services, topic, quota)
    except (StorageError, TopicError) as error:
        return DeletableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=error_code_of(error),
            error_message=str(error) or None,
        )


async def _judged(
    services: Services, request: Request
) -> list[tuple[DeleteTopicState, TopicError | None]]:
    """Return the topics to answer, each with its refusal if the request itself is at fault.

    Kafka's ControllerApis.deleteTopics: a topic that is given twice has one answer.
    """
    counts: Counter[tuple[str | None, bytes]] = Counter()
    wanted: list[DeleteTopicState] = []
    ids: set[bytes] = set()
    async for topic in InTurns(_wanted(request), JUDGED_PER_TURN):
        wanted.append(topic)
        counts[topic.name, topic.topic_id] += 1
        if topic.name is None:
            ids.add(topic.topic_id)
    twins: dict[str, bytes] = {}
    async for topic in InTurns(wanted if ids else (), JUDGED_PER_TURN):
        if topic.name is not None and counts[topic.name, ZERO_UUID] == 1:
            known = services.topics.by_name(topic.name)
            if known is not None and known.topic_id in ids:
                twins[topic.name] = known.topic_id
    twin_ids = set(twins.values())
    judged: list[tuple[DeleteTopicState, TopicError | None]] = []
    async for topic in InTurns(wanted, JUDGED_PER_TURN):
        name, topic_id = topic.name, topic.topic_id
        reason = None
        answered = topic
        if (name is None) == (topic_id == ZERO_UUID):
            reason = "A topic must be given by its name or by its id, not by both."
        else:
            count = counts.pop((name, topic_id), 0)
            if count > 1:
                reason = "Duplicate topic id." if name is None else "Duplicate topic name."
            elif name in twins:
                answered = DeleteTopicState(name=name, topic_id=twins[name])
                reason = "The provided topic name maps to an ID that was already supplied."
            elif count == 0 or topic_id in twin_ids:
                continue  # refused where it was given first, or under its name
        refusal = None if reason is None else TopicError(ErrorCode.INVALID_REQUEST, reason)
        judged.append((answered, refusal))
    return judged


async def _delete(
    services: Services, wanted: DeleteTopicState, quota: MutationQuota | None
) -> DeletableTopicResult:
    if wanted.name is None:
        known = services.topics.by_id(wanted.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known = services.topics.by_name(wanted.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if known is None:
        raise TopicError(code, code.message)
    if known.name == TRANSACTION_TOPIC:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            f"{TRANSACTION_TOPIC} is not deleted: it alone says how transactions have ended.",
        )
    if quota is not None:
        quota.begin()
        quota.charge(len(known.partitions))
        quota.settle()
    try:
        await services.topics.delete(known.name, known.topic_id)
    except TopicError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise TopicError(code, code.message) from error  # another deletion was faster
    return DeletableTopicResult(name=known.name, topic_id=known.topic_id)


def _wanted(request: Request) -> Iterator[DeleteTopicState]:
    body: DeleteTopicsRequest = request.body
    if request.header.api_version >= BY_ID_VERSION:
        yield from body.topics
    else:
        for name in body.topic_names:
            yield DeleteTopicState(name=name, topic_id=ZERO_UUID)


def _refused_each(request: Request, code: ErrorCode) -> Steps:
    response = DeleteTopicsResponse()
    for topic in _wanted(request):
        response.responses.append(
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=code,
                error_message=code.message,
            )
        )
        yield ANSWER_BYTES + len(topic.name or "")
    return response


def error_response(request: Request, code: ErrorCode) -> DeleteTopicsResponse:
    """Return an answer with `code` for each topic in the request."""
    response: DeleteTopicsResponse = finished(_refused_each(request, code))
    return response
