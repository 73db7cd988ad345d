"""InitProducerId: WRITE on the transactional id, or for an idempotent producer on some topic.

IDEMPOTENT_WRITE on the cluster does as well. Kafka would not have it needed since 2.8: a client
that may write to a topic may do so idempotently (KIP-679).
"""

from __future__ import annotations

from typing import Final

from broker.rights.asking import DENIED, Asking, Need, Turns
from broker.rights.clauses import CLUSTER, TOPIC, TRANSACTIONAL_ID
from broker.security.acl.acl_codes import AclOperation

NEED_OF_ID: Final = Need(TRANSACTIONAL_ID, AclOperation.WRITE)
IDEMPOTENT: Final = Need(CLUSTER, AclOperation.IDEMPOTENT_WRITE)
SOME_TOPIC: Final = Need(TOPIC, AclOperation.WRITE)
LINES: Final = (
    (
        "TRANSACTIONAL_ID WRITE",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the request",
    ),
    (
        "without a transactional id: CLUSTER IDEMPOTENT_WRITE, or WRITE on some TOPIC",
        "CLUSTER_AUTHORIZATION_FAILED for the request",
    ),
)


def ask(asking: Asking) -> Turns:
    """Refuse the request."""
    yield from ()
    name = asking.request.body.transactional_id
    if name is None:
        if asking.allows(IDEMPOTENT) or asking.allows_any(SOME_TOPIC):
            return None
        asking.log(IDEMPOTENT)
        return asking.refuse(DENIED[CLUSTER])
    if asking.allows(NEED_OF_ID, name):
        return None
    asking.log(NEED_OF_ID, name)
    return asking.refuse(DENIED[TRANSACTIONAL_ID])
