"""DeleteTopics, API key 20, versions 1-6.

Behaviour
- Each topic by name, or from version 6 on by id; a topic given twice is INVALID_REQUEST.
- The answer comes when the deletion is durable; the files are gone from their topic at once and
  from the disk after `file.delete.delay.ms`.
- `delete.topic.enable=false`: TOPIC_DELETION_DISABLED (INVALID_REQUEST before version 3).

Version notes: 3 TOPIC_DELETION_DISABLED, 4 flexible, 5 error messages, 6 topic ids (KIP-516).
"""

from __future__ import annotations

from collections import Counter

from broker.metadata.topic_rules import TopicError
from broker.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.wire import ZERO_UUID

BY_ID_VERSION = 6
DISABLED_CODE_VERSION = 3


async def handle(request: Request, services: Services) -> DeleteTopicsResponse:
    """Delete each topic, with an outcome of its own."""
    wanted = _wanted(request)
    if not services.config.delete_topic_enable:
        disabled = request.header.api_version >= DISABLED_CODE_VERSION
        return error_response(
            request,
            ErrorCode.TOPIC_DELETION_DISABLED if disabled else ErrorCode.INVALID_REQUEST,
        )
    counts = Counter((topic.name, topic.topic_id) for topic in wanted)
    results = []
    for topic in wanted:
        try:
            twice = counts[topic.name, topic.topic_id] > 1
            results.append(await _delete(services, topic, given_twice=twice))
        except TopicError as error:
            results.append(
                DeletableTopicResult(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    error_code=error.code,
                    error_message=str(error),
                )
            )
    return DeleteTopicsResponse(responses=results)


async def _delete(
    services: Services, wanted: DeleteTopicState, *, given_twice: bool
) -> DeletableTopicResult:
    if given_twice:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic in the request.")
    if wanted.name is not None and wanted.topic_id != ZERO_UUID:
        raise TopicError(
            ErrorCode.INVALID_REQUEST, "A topic must be given by its name or its id, not both."
        )
    if wanted.name is None:
        known = services.topics.by_id(wanted.topic_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known = services.topics.by_name(wanted.name)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if known is None:
        raise TopicError(code, code.message)
    await services.topics.delete(known.name)
    return DeletableTopicResult(name=known.name, topic_id=known.topic_id)


def _wanted(request: Request) -> list[DeleteTopicState]:
    body: DeleteTopicsRequest = request.body
    if request.header.api_version >= BY_ID_VERSION:
        return body.topics
    return [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in body.topic_names]


def error_response(request: Request, code: ErrorCode) -> DeleteTopicsResponse:
    """Return the answer that says `code` of every topic asked for."""
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=code,
                error_message=code.message,
            )
            for topic in _wanted(request)
        ]
    )
