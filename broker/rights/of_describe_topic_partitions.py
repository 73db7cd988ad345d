"""DescribeTopicPartitions: DESCRIBE on each topic.

If all topics are asked for, those without the right are left out, and pages do not count them: the
handler gets the names that the client may see. A cursor at one that it may not see moves to the
next. Otherwise refused topics come after the others, and do not count either.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Refused, Turns
from broker.rights.clauses import TOPIC
from broker.security.acl.acl_codes import AclOperation
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)

NEED: Final = Need(TOPIC, AclOperation.DESCRIBE)
LINES: Final = (
    (
        "TOPIC DESCRIBE",
        "TOPIC_AUTHORIZATION_FAILED for the topic; left out if all are asked for",
    ),
)


def ask(asking: Asking) -> Turns:
    """Have the handler see what the client may see."""
    body: DescribeTopicPartitionsRequest = asking.request.body
    asked = {topic.name for topic in body.topics}
    cursor = body.cursor
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        return None  # the handler refuses that
    first = "" if cursor is None else cursor.topic_name
    names = asked or {topic.name for topic in asking.services.topics.all()}
    kept: list[str] = []
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    for at, name in enumerate(sorted(names)):
        if at % NAMES_PER_TURN == NAMES_PER_TURN - 1:
            yield
        if name < first:
            continue
        if asking.allows(NEED, name):
            kept.append(name)
        elif asked:
            asking.log(NEED, name)
            refused.append(
                DescribeTopicPartitionsResponseTopic(error_code=DENIED[TOPIC], name=name)
            )
    if not kept:
        return Refused(DescribeTopicPartitionsResponse(topics=refused))
    if cursor is not None and cursor.topic_name != kept[0]:
        cursor = Cursor(topic_name=kept[0], partition_index=0)
    asking.narrow(topics=[TopicRequest(name=name) for name in kept], cursor=cursor)
    if refused:
        asking.later.append(lambda answer: _completed(answer, refused))
    return None


def _completed(
    answer: DescribeTopicPartitionsResponse, refused: Sequence[DescribeTopicPartitionsResponseTopic]
) -> Generator[int, None, Any]:
    yield 0
    answer.topics += refused
    return answer
