"""Which ACLs a client asks for: Kafka's AclBindingFilter, as DescribeAcls and DeleteAcls have it.

A None and the code ANY match everything. With the pattern MATCH, a name finds the ACLs that are for
a resource of that name: literal ones, prefixes that begin it, and `*`. With ANY it finds those
that have this very name, whatever their pattern.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.security.acl.acl_codes import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry


class AclFilter(NamedTuple):
    """A filter; by default it matches every ACL."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: PermissionType = PermissionType.ANY

    def matches(self, entry: AclEntry) -> bool:
        """Return whether `entry` is among what is asked for."""
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and self._matches_name(entry)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (PermissionType.ANY, entry.permission)
        )

    def _matches_name(self, entry: AclEntry) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, entry.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is PatternType.MATCH:
            return entry.is_for_name(self.name)
        return self.name == entry.name
