"""The authorizer of a broker: the rule over the ACLs in force, with its decisions remembered.

A decision holds until the next change of an ACL, so the usual request costs one look-up. What is
remembered is bounded in number and in the length of names, since clients choose these.
`version` moves with each change: a request that has waited compares it, and asks again.
`changed_at` is the version of the last change that concerns one client: what costs more, such as
matching all topics with an expression, is done again only then.

`allows` says nothing in the log: handlers use it to filter. A handler that answers an error reports
it with `log_denied`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from broker.runtime.clock import Clock
from broker.runtime.metrics import Metrics
from broker.security.acl.acl_codes import EVERY_USER, AclOperation, PatternType, ResourceType
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.acl_filter import AclFilter
from broker.security.acl.acl_index import AclIndex
from broker.security.acl.audit import Audit
from broker.security.acl.explanation import explain
from broker.security.acl.reach import Reach
from broker.security.acl.resource_operations import OPERATIONS
from broker.security.acl.rule import (
    Access,
    AclDecision,
    Policy,
    any_access,
    decide,
    decide_any,
)

REMEMBERED_MAX = 16_384
REMEMBERED_NAME_MAX = 512  # characters of a name or principal
REACHES_MAX = 64
CHANGED_MAX = 16_384  # principals whose last change is known
EXPLAINED_MAX = 200  # ACLs of the client, and as many others, that are searched for near misses

_Asked = Access | tuple[str, str, AclOperation, ResourceType]


class Authorizer:
    """Decides what clients may do. Synchronous; on the loop only."""

    def __init__(self, policy: Policy, clock: Clock, metrics: Metrics) -> None:
        self.policy = policy
        self.version = 0
        self.audit = Audit(clock, metrics)
        self._metrics = metrics
        self._index = AclIndex()
        self._remembered: dict[_Asked, AclDecision] = {}
        self._reaches: dict[tuple[str, str, AclOperation, ResourceType], Reach] = {}
        self._changed_at: dict[tuple[ResourceType, str], int] = {}
        self._all_changed_at = 0  # of those that `_changed_at` does not have

    def add(self, entry: AclEntry) -> None:
        """Have an ACL take effect."""
        self._index.add(entry)
        self._changed(entry)

    def remove(self, entry: AclEntry) -> None:
        """End the effect of an ACL."""
        self._index.remove(entry)
        self._changed(entry)

    def _changed(self, entry: AclEntry) -> None:
        self.version += 1
        self._remembered.clear()
        self._reaches.clear()
        if len(self._changed_at) >= CHANGED_MAX:
            self._changed_at.clear()
            self._all_changed_at = self.version
        # Without an ACL everything may be allowed, so each concerns all.
        principal = EVERY_USER if self.policy.allows_without_acl else entry.principal
        self._changed_at[entry.resource_type, principal] = self.version
        self._metrics.acls_now = len(self._index)

    def allows(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Return whether the client may do the operation on the resource."""
        access = Access(principal, host, operation, resource_type, name)
        known = self._remembered.get(access)
        return (known or self._decide(access)).is_allowed

    def decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> AclDecision:
        """Return the same as `allows`, with the ACL that decided."""
        access = Access(principal, host, operation, resource_type, name)
        return self._remembered.get(access) or self._decide(access)

    def allows_any(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether the client may do the operation on some resource of the type."""
        asked = (principal, host, operation, resource_type)
        known = self._remembered.get(asked)
        if known is None:
            access = any_access(*asked)
            entries = self._index.of_principal(resource_type, principal)
            known = decide_any(self.decide(*access), access, entries)
            if len(principal) <= REMEMBERED_NAME_MAX:
                self._remember(asked, known)
        return known.is_allowed

    def reach(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> Reach:
        """Return what answers as `allows` does, for many names; it holds until the next change."""
        asked = (principal, host, operation, resource_type)
        known = self._reaches.get(asked)
        if known is None:
            entries = self._index.of_principal(resource_type, principal)
            has_acl = partial(self._index.has_any, resource_type)
            known = Reach(principal, host, operation, entries, self.policy, has_acl)
            if len(self._reaches) >= REACHES_MAX:
                self._reaches.clear()
            self._reaches[asked] = known
        return known

    def changed_at(self, principal: str, resource_type: ResourceType) -> int:
        """Return the version at which something may have changed for one client."""
        found = self._changed_at
        return max(
            found.get((resource_type, principal), 0),
            found.get((resource_type, EVERY_USER), 0),
            self._all_changed_at,
        )

    def allowed_operations(
        self, principal: str, host: str, resource_type: ResourceType, name: str
    ) -> int:
        """Return the operations that the client may do on a resource: a bit for each (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self.allows(principal, host, operation, resource_type, name)
        )

    def candidates(self, wanted: AclFilter) -> list[AclEntry]:
        """Return the ACLs in force among which are all that `wanted` matches."""
        kind, name = wanted.resource_type, wanted.name
        if kind is ResourceType.ANY:
            return list(self._index.all())
        if name is None:
            return list(self._index.of_type(kind))
        if wanted.pattern is PatternType.MATCH:
            return list(self._index.of_resource(kind, name))
        return list(self._index.named(kind, name))

    def log_denied(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        api: str,
        count: int = 1,
    ) -> None:
        """Write Kafka's audit line for a request that is answered with an error, and count it.

        `api` is the API's name as in Kafka's messages (`Metadata`); `count` is how often the
        request names the resource.
        """
        decision = self.decide(principal, host, operation, resource_type, name)
        access = Access(principal, host, operation, resource_type, name)
        self.audit.denied(
            access, decision, api, count, lambda: explain(access, decision, self._likely(access))
        )

    def _likely(self, access: Access) -> Iterator[AclEntry]:
        """Yield ACLs of which some may nearly allow the access."""
        kind, principal = access.resource_type, access.principal
        yield from islice(self._index.of_principal(kind, principal), EXPLAINED_MAX)
        for entry in islice(self._index.of_type(kind), EXPLAINED_MAX):
            if not entry.is_for_principal(principal):
                yield entry

    def _decide(self, access: Access) -> AclDecision:
        entries = self._index.of_resource(access.resource_type, access.name)
        decision = decide(access, entries, self.policy)
        if max(len(access.name), len(access.principal)) <= REMEMBERED_NAME_MAX:
            self._remember(access, decision)
        return decision

    def _remember(self, asked: _Asked, decision: AclDecision) -> None:
        if len(self._remembered) >= REMEMBERED_MAX:
            self._metrics.authorizations_forgotten += len(self._remembered)
            self._remembered.clear()
        self._remembered[asked] = decision
