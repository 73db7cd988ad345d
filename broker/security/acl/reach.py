"""The rule for many names at once: which of all topics a client may describe, for example.

`broker.security.acl.rule.decide` takes some microseconds for a name, so 5,000 topics would hold the
loop for 30 ms. A `Reach` sorts the ACLs that concern the client and the operation once; a name then
costs a few look-ups in sets, whatever the number of ACLs. A test compares it with `decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.security.acl.acl_codes import WILDCARD, AclOperation, PatternType
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.rule import Policy


class _Names:
    """Names and prefixes of them; `*` holds each."""

    __slots__ = ("_by_length", "_literal", "has_all")

    def __init__(self) -> None:
        self._literal: set[str] = set()
        self._by_length: dict[int, set[str]] = {}
        self.has_all = False

    def add(self, entry: AclEntry) -> None:
        if entry.pattern is PatternType.PREFIXED:
            self._by_length.setdefault(len(entry.name), set()).add(entry.name)
        else:
            self._literal.add(entry.name)
            self.has_all = self.has_all or entry.name == WILDCARD

    def __contains__(self, name: str) -> bool:
        if self.has_all or name in self._literal:
            return True
        return any(name[:length] in prefixes for length, prefixes in self._by_length.items())


class Reach:
    """What one client may do one operation with. It holds until the next change of an ACL."""

    __slots__ = ("_allowed", "_denied", "_has_acl", "_is_super")

    def __init__(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        entries: Iterable[AclEntry],
        policy: Policy,
        has_acl: Callable[[str], bool],
    ) -> None:
        """`entries` are those that concern `principal`, of one type of resource.

        `has_acl` says whether any ACL is for the resource of a name.
        """
        self._is_super = principal in policy.super_users
        self._has_acl = has_acl if policy.allows_without_acl else None
        self._allowed, self._denied = _Names(), _Names()
        for entry in () if self._is_super else entries:
            if entry.is_for_host(host) and entry.is_for_operation(operation):
                (self._allowed if entry.is_allow else self._denied).add(entry)

    def allows(self, name: str) -> bool:
        """Return whether the client may do it with the resource of that name."""
        if self._is_super:
            return True
        if name in self._denied:
            return False
        if name in self._allowed:
            return True
        return self._has_acl is not None and not self._has_acl(name)
