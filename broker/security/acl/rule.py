"""The rule: whether a client may do something, and which ACL says so. Pure; no state.

It is that of Kafka's StandardAuthorizer, in this order:

1. a super user may do everything;
2. among the ACLs for the resource, the principal and the host, one that denies the operation
   decides, else one that allows it, or an operation that implies it;
3. otherwise the answer is no. If `allow.everyone.if.no.acl.found` is on, it is yes as long as no
   ACL at all is for the resource, whoever it concerns.

`decide_any` answers for some resource of a type, without a name: Kafka asks it whether a producer
may use an idempotent id. It looks for an ALLOW that no DENY covers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from broker.security.acl.acl_codes import WILDCARD, AclOperation, PatternType, ResourceType
from broker.security.acl.acl_entry import AclEntry


class Access(NamedTuple):
    """What a client asks for: who, from where, which operation on which resource."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str


class Basis(Enum):
    """What decided; the values are Kafka's words in its audit line."""

    SUPER_USER = "SuperUser"
    ENTRY = "MatchingAcl"
    DEFAULT_ALLOW = "DefaultAllow"
    DEFAULT_DENY = "DefaultDeny"


@dataclass(frozen=True, slots=True)
class AclDecision:
    """The answer, and what decided: `entry` is the ACL, if one did."""

    is_allowed: bool
    basis: Basis
    entry: AclEntry | None = None

    def __str__(self) -> str:
        """Return the rule as Kafka's audit line names it."""
        return f"MatchingAcl(acl={self.entry})" if self.entry else self.basis.value


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds beside the ACLs: `super.users` and `allow.everyone.if.no.acl.found`."""

    super_users: frozenset[str] = frozenset()
    allows_without_acl: bool = False


SUPER_USER = AclDecision(is_allowed=True, basis=Basis.SUPER_USER)
DEFAULT_ALLOW = AclDecision(is_allowed=True, basis=Basis.DEFAULT_ALLOW)
DEFAULT_DENY = AclDecision(is_allowed=False, basis=Basis.DEFAULT_DENY)


def decide(access: Access, entries: Iterable[AclEntry], policy: Policy) -> AclDecision:
    """Return whether `access` is allowed by `entries`, of which any may be for other resources.

    The first entry that denies decides, else the first that allows.
    """
    if access.principal in policy.super_users:
        return SUPER_USER
    allowing: AclEntry | None = None
    has_any = False
    for entry in entries:
        if entry.resource_type is not access.resource_type or not entry.is_for_name(access.name):
            continue
        has_any = True
        if not _concerns(entry, access.principal, access.host):
            continue
        if entry.is_for_operation(access.operation):
            if not entry.is_allow:
                return AclDecision(is_allowed=False, basis=Basis.ENTRY, entry=entry)
            allowing = allowing or entry
    if allowing is not None:
        return AclDecision(is_allowed=True, basis=Basis.ENTRY, entry=allowing)
    return DEFAULT_DENY if has_any or not policy.allows_without_acl else DEFAULT_ALLOW


def any_access(
    principal: str, host: str, operation: AclOperation, resource_type: ResourceType
) -> Access:
    """Return the access that Kafka tries before it looks for an ACL that allows some resource.

    So it finds super users, and resources without ACLs. The name is Kafka's.
    """
    return Access(principal, host, operation, resource_type, "hardcode")


def decide_any(first: AclDecision, access: Access, entries: Iterable[AclEntry]) -> AclDecision:
    """Return whether an operation is allowed on some resource of a type.

    `access` is what `any_access` returns, `first` the decision about it, and `entries` are the ACLs
    of the principal. As in Kafka, an operation implies no other here.
    """
    if first.is_allowed:
        return first
    principal, host, operation, resource_type, _ = access
    allowing: list[AclEntry] = []
    denied: dict[PatternType, set[str]] = {PatternType.LITERAL: set(), PatternType.PREFIXED: set()}
    for entry in entries:
        if entry.resource_type is not resource_type or not _concerns(entry, principal, host):
            continue
        if entry.operation not in (operation, AclOperation.ALL):
            continue
        if entry.is_allow:
            allowing.append(entry)
        elif (entry.pattern, entry.name) == (PatternType.LITERAL, WILDCARD):
            return AclDecision(is_allowed=False, basis=Basis.ENTRY, entry=entry)
        else:
            denied[entry.pattern].add(entry.name)
    for entry in allowing:
        if not _is_covered(entry, denied):
            return AclDecision(is_allowed=True, basis=Basis.ENTRY, entry=entry)
    return DEFAULT_DENY


def _concerns(entry: AclEntry, principal: str, host: str) -> bool:
    return entry.is_for_principal(principal) and entry.is_for_host(host)


def _is_covered(entry: AclEntry, denied: dict[PatternType, set[str]]) -> bool:
    """Return whether every resource that `entry` allows is denied by one other entry."""
    if (entry.pattern, entry.name) == (PatternType.LITERAL, WILDCARD):
        return False
    if entry.pattern is PatternType.LITERAL and entry.name in denied[PatternType.LITERAL]:
        return True
    return any(entry.name.startswith(prefix) for prefix in denied[PatternType.PREFIXED])
