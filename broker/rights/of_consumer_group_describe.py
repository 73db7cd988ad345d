"""ConsumerGroupDescribe: a group whose members have topics that the client may not see is refused.

This is the last of the API's clauses; DESCRIBE on the group itself comes first.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from broker.rights.asking import DENIED, Asking, Need, Turns
from broker.rights.clauses import TOPIC
from broker.security.acl.acl_codes import AclOperation
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

NEED: Final = Need(TOPIC, AclOperation.DESCRIBE)
MESSAGE: Final = "The group has topics that the client may not describe."
LINES: Final = (
    (
        "TOPIC DESCRIBE, for each topic of a member",
        "TOPIC_AUTHORIZATION_FAILED for the group",
    ),
)


def ask(asking: Asking) -> Turns:
    """Have the groups looked over."""
    yield from ()
    asking.later.append(lambda answer: _looked_over(asking, answer))
    return None


def _looked_over(
    asking: Asking, answer: ConsumerGroupDescribeResponse
) -> Generator[int, None, Any]:
    for at, group in enumerate(answer.groups):
        hidden = yield from _hidden(asking, group)
        if hidden is not None:
            asking.log(NEED, hidden)
            answer.groups[at] = DescribedGroup(
                group_id=group.group_id, error_code=DENIED[TOPIC], error_message=MESSAGE
            )
    return answer


def _hidden(asking: Asking, group: DescribedGroup) -> Generator[int, None, str | None]:
    """Return a topic of the group's members that the client may not describe."""
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                if not asking.allows(NEED, topic.topic_name):
                    return topic.topic_name
        yield 0
    return None
