"""ACLs for tests, in few words: `acl("topic", "orders", READ)`."""

from broker.security.acl.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from broker.security.acl.acl_entry import AclEntry

ALICE = "User:alice"
HOST = "10.0.0.1"


def acl(
    kind="topic",
    name="orders",
    operation=AclOperation.READ,
    *,
    principal=ALICE,
    host="*",
    prefixed=False,
    deny=False,
):
    return AclEntry(
        ResourceType[kind.upper()],
        name,
        PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal,
        host,
        operation,
        PermissionType.DENY if deny else PermissionType.ALLOW,
    )
