"""DeleteTopics: DELETE on the cluster, or on each topic.

A client that may describe a topic and not delete it is told so of a missing one. A topic that is
given by its id is refused under that id; its name is told to clients that may describe it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Refused, Turns
from broker.rights.clauses import CLUSTER, TOPIC
from broker.security.acl.acl_codes import AclOperation
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.wire import ZERO_UUID

BY_ID_VERSION: Final = 6
OF_CLUSTER: Final = Need(CLUSTER, AclOperation.DELETE)
NEED: Final = Need(TOPIC, AclOperation.DELETE)
SEES: Final = Need(TOPIC, AclOperation.DESCRIBE)
LINES: Final = (
    (
        "CLUSTER DELETE or TOPIC DELETE",
        "TOPIC_AUTHORIZATION_FAILED for the topic",
    ),
)


def ask(asking: Asking) -> Turns:
    """Refuse topics."""
    if asking.allows(OF_CLUSTER) or not asking.services.config.delete_topic_enable:
        return None
    body: DeleteTopicsRequest = asking.request.body
    by_id = asking.request.header.api_version >= BY_ID_VERSION
    wanted = body.topics if by_id else [DeleteTopicState(name=name) for name in body.topic_names]
    kept: list[DeleteTopicState] = []
    refused: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    for at, topic in enumerate(wanted):
        refusal = _refusal(asking, topic)
        if refusal is None:
            kept.append(topic)
        else:  # one that is given twice is refused once
            refused[topic.name, topic.topic_id] = refusal
        if at % NAMES_PER_TURN == NAMES_PER_TURN - 1:
            yield
    if not refused:
        return None
    answers = list(refused.values())
    if not kept:
        return Refused(DeleteTopicsResponse(responses=answers))
    if by_id:
        asking.narrow(topics=kept)
    else:
        asking.narrow(topic_names=[topic.name for topic in kept])
    asking.later.append(lambda answer: _completed(answer, answers))
    return None


def _refusal(asking: Asking, topic: DeleteTopicState) -> DeletableTopicResult | None:
    if (topic.name is None) == (topic.topic_id == ZERO_UUID):
        return None  # the handler refuses that
    name = asking.name_of(topic.topic_id) if topic.name is None else topic.name
    if name is None:
        return None  # unknown, whoever asks
    sees, may_delete = asking.allows(SEES, name), asking.allows(NEED, name)
    if sees and (may_delete or asking.services.topics.by_name(name) is None):
        return None  # one that is missing is told so
    if may_delete and topic.name is None:
        return None
    asking.log(NEED, name)
    code: ErrorCode = DENIED[TOPIC]
    return DeletableTopicResult(
        name=name if sees else topic.name,
        topic_id=topic.topic_id,
        error_code=code,
        error_message=code.message,
    )


def _completed(
    answer: DeleteTopicsResponse, refused: Sequence[DeletableTopicResult]
) -> Generator[int, None, Any]:
    yield 0
    answer.responses += refused
    return answer
