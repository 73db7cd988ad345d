"""ConsumerGroupHeartbeat: READ on the group, DESCRIBE on each topic that a member names.

An expression matches only topics that the member may describe (`standing.describable`).
"""

from __future__ import annotations

from typing import Final

from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Turns
from broker.rights.clauses import GROUP, TOPIC, Whole
from broker.security.acl.acl_codes import AclOperation

OF_GROUP: Final = Whole((Need(GROUP, AclOperation.READ),), "group_id")
NEED: Final = Need(TOPIC, AclOperation.DESCRIBE)
LINES: Final = (
    (
        "GROUP READ",
        "GROUP_AUTHORIZATION_FAILED for the request",
    ),
    (
        "TOPIC DESCRIBE, for each topic that is named",
        "TOPIC_AUTHORIZATION_FAILED for the request",
    ),
    (
        "TOPIC DESCRIBE, for each topic that an expression matches",
        "the topic does not match",
    ),
)


def ask(asking: Asking) -> Turns:
    """Refuse the heartbeat for its group or for one of its topics."""
    refused = yield from OF_GROUP.ask(asking)
    if refused is not None:
        return refused
    for at, name in enumerate(asking.request.body.subscribed_topic_names or ()):
        if not asking.allows(NEED, name):
            asking.log(NEED, name)
            return asking.refuse(DENIED[TOPIC])
        if at % NAMES_PER_TURN == NAMES_PER_TURN - 1:
            yield
    return None
