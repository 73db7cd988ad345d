"""FindCoordinator: DESCRIBE on each key, a group or a transactional id."""

from __future__ import annotations

from typing import Final

from broker.rights.asking import DENIED, Asking, Need, Refused, Turns
from broker.rights.clauses import CLUSTER, GROUP, TRANSACTIONAL_ID, Each
from broker.security.acl.acl_codes import AclOperation
from protocol.messages import find_coordinator
from protocol.messages.find_coordinator import FindCoordinatorRequest

MANY_KEYS_VERSION: Final = 4
SHARE: Final = 2
SHARE_VERSION: Final = 6
NEEDS: Final = {
    find_coordinator.GROUP: Need(GROUP, AclOperation.DESCRIBE),
    find_coordinator.TRANSACTION: Need(TRANSACTIONAL_ID, AclOperation.DESCRIBE),
}
NEED_OF_BROKERS: Final = Need(CLUSTER, AclOperation.CLUSTER_ACTION)
LINES: Final = (
    (
        "GROUP DESCRIBE",
        "GROUP_AUTHORIZATION_FAILED for the key",
    ),
    (
        "TRANSACTIONAL_ID DESCRIBE",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the key",
    ),
    (
        "CLUSTER CLUSTER_ACTION, for a share group",
        "CLUSTER_AUTHORIZATION_FAILED for the key",
    ),
)


def ask(asking: Asking) -> Turns:
    """Refuse keys; the handler refuses unknown types."""
    body: FindCoordinatorRequest = asking.request.body
    version = asking.request.header.api_version
    if body.key_type == SHARE and version >= SHARE_VERSION:
        if asking.allows(NEED_OF_BROKERS):
            return None
        asking.log(NEED_OF_BROKERS)
        return asking.refuse(DENIED[CLUSTER])
    need = NEEDS.get(body.key_type)
    if need is None:
        return None
    if version < MANY_KEYS_VERSION:
        if asking.allows(need, body.key):
            return None
        asking.log(need, body.key)
        return asking.refuse(DENIED[need.resource])
    each = Each((need,), "coordinator_keys", "coordinators", name="")
    refused: Refused | None = yield from each.ask(asking)
    return refused
