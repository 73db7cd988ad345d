"""Metadata: DESCRIBE on each topic, and CREATE, of it or of the cluster, to have it created.

- If all topics are asked for, those without the right are left out.
- A topic that is given by its id is refused under that id, without its name. Ids are no secret.
- A request that the handler refuses as a whole is refused alike whatever the client may see.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from broker.metadata.asked_topics import is_addressed
from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Turns
from broker.rights.clauses import CLUSTER, TOPIC, Seen
from broker.security.acl.acl_codes import AclOperation
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from protocol.wire import ZERO_UUID

NEED: Final = Need(TOPIC, AclOperation.DESCRIBE)
CREATE: Final = (Need(CLUSTER, AclOperation.CREATE), Need(TOPIC, AclOperation.CREATE))
SEEN: Final = Seen(NEED, "topics", "name")
LINES: Final = (
    (
        "TOPIC DESCRIBE",
        "TOPIC_AUTHORIZATION_FAILED for the topic; left out if all are asked for",
    ),
    (
        "CLUSTER CREATE or TOPIC CREATE, to create a missing topic",
        "TOPIC_AUTHORIZATION_FAILED for the topic",
    ),
)


def ask(asking: Asking) -> Turns:
    """Refuse topics, or have all of them filtered."""
    body: MetadataRequest = asking.request.body
    version = asking.request.header.api_version
    is_oldest = version == 0
    if body.topics is None or (is_oldest and not body.topics):
        asking.later.append(lambda answer: SEEN.filtered(asking, answer))
        return None
    if not is_addressed(body, version):
        return None
    kept: list[MetadataRequestTopic] = []
    refused: list[MetadataResponseTopic] = []
    for at, topic in enumerate(body.topics):
        need = _missing(asking, body, topic)
        if need is None:
            kept.append(topic)
        else:
            refused.append(
                MetadataResponseTopic(
                    error_code=DENIED[TOPIC], name=topic.name, topic_id=topic.topic_id
                )
            )
        if at % NAMES_PER_TURN == NAMES_PER_TURN - 1:
            yield
    if refused:
        asking.narrow(topics=kept)
        is_all = is_oldest and not kept  # an empty list then asks for all
        asking.later.append(lambda answer: _completed(answer, refused, is_emptied=is_all))
    return None


def _missing(asking: Asking, body: MetadataRequest, topic: MetadataRequestTopic) -> Need | None:
    """Return the right that the client lacks for a topic."""
    name = topic.name
    if topic.topic_id != ZERO_UUID:
        name = asking.name_of(topic.topic_id)
    if name is None:
        return None  # unknown, whoever asks
    if not asking.allows(NEED, name):
        asking.log(NEED, name)
        return NEED
    services = asking.services
    may_create = services.config.auto_create_topics_enable and body.allow_auto_topic_creation
    if not may_create or services.topics.by_name(name) is not None:
        return None
    if asking.allows_some(CREATE, name):
        return None
    asking.log(CREATE[1], name)
    return CREATE[1]


def _completed(
    answer: MetadataResponse, refused: list[MetadataResponseTopic], *, is_emptied: bool
) -> Generator[int, None, Any]:
    yield 0
    if not answer.error_code:
        answer.topics = refused if is_emptied else answer.topics + refused
    return answer
