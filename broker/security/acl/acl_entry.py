"""One ACL: for which resources, principal and host it permits or denies which operation."""

from __future__ import annotations

from typing import NamedTuple

from broker.security.acl.acl_codes import (
    EVERY_USER,
    WILDCARD,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_hosts import one_form


class AclEntry(NamedTuple):
    """An ACL (Kafka's AclBinding); two with the same fields are one.

    `principal` is `User:name`, or `User:*` for each user. `host` is an address, or `*`
    (`broker.security.acl.acl_hosts`).
    """

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: PermissionType

    @property
    def is_allow(self) -> bool:
        """Whether it allows, rather than denies."""
        return self.permission is PermissionType.ALLOW

    def is_for_name(self, name: str) -> bool:
        """Return whether a resource of its type with this name is protected by it."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def is_for_principal(self, principal: str) -> bool:
        """Return whether it concerns this principal."""
        return self.principal in (principal, EVERY_USER)

    def is_for_host(self, host: str) -> bool:
        """Return whether it concerns clients at this address."""
        return self.host in (host, WILDCARD) or one_form(self.host) == one_form(host)

    def is_for_operation(self, operation: AclOperation) -> bool:
        """Return whether it concerns the operation. Only what allows implies other operations."""
        if self.operation in (operation, AclOperation.ALL):
            return True
        return self.is_allow and self.operation in IMPLIED_BY.get(operation, ())

    def __str__(self) -> str:
        """Return the text of Kafka's StandardAcl, for its audit line."""
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, resourceName={self.name},"
            f" patternType={self.pattern.name}, principal={self.principal}, host={self.host},"
            f" operation={self.operation.name}, permissionType={self.permission.name}]"
        )


# An ALLOW of one of these operations allows the operation before them, too.
IMPLIED_BY = {
    AclOperation.DESCRIBE: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    ),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}
