"""ACLs by resource, so that a decision looks at those of one resource only.

Literal names are found by the name. Prefixes are found by the beginnings of the name, of the
lengths that some prefix has: a name of any length costs no more look-ups than there are lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.security.acl.acl_codes import EVERY_USER, WILDCARD, PatternType, ResourceType
from broker.security.acl.acl_entry import AclEntry

_Bucket = dict[AclEntry, None]  # a set that keeps its order
_Table = dict[tuple[ResourceType, str], _Bucket]


class AclIndex:
    """The ACLs in force, by type and name of the resource."""

    __slots__ = ("_by_principal", "_by_type", "_lengths", "_literal", "_prefixed")

    def __init__(self) -> None:
        self._by_type: dict[ResourceType, _Bucket] = {}
        self._by_principal: _Table = {}
        self._literal: _Table = {}
        self._prefixed: _Table = {}
        self._lengths: dict[ResourceType, Counter[int]] = {}  # of prefixes

    def __len__(self) -> int:
        return sum(map(len, self._by_type.values()))

    def add(self, entry: AclEntry) -> None:
        """Add an ACL; one that is there already stays as it is."""
        of_type = self._by_type.setdefault(entry.resource_type, {})
        if entry in of_type:
            return
        of_type[entry] = None
        for table, key in self._places(entry):
            table.setdefault(key, {})[entry] = None
        if entry.pattern is PatternType.PREFIXED:
            self._lengths.setdefault(entry.resource_type, Counter())[len(entry.name)] += 1

    def remove(self, entry: AclEntry) -> None:
        """Remove an ACL; nothing happens if it is not there."""
        of_type = self._by_type.get(entry.resource_type, {})
        if entry not in of_type:
            return
        del of_type[entry]
        for table, key in self._places(entry):
            del table[key][entry]
            if not table[key]:
                del table[key]
        if entry.pattern is PatternType.PREFIXED:
            lengths = self._lengths[entry.resource_type]
            lengths[len(entry.name)] -= 1
            if not lengths[len(entry.name)]:
                del lengths[len(entry.name)]

    def of_resource(self, resource_type: ResourceType, name: str) -> Iterator[AclEntry]:
        """Yield the ACLs for one resource: of its name, of the longest prefix first, then `*`."""
        yield from self._literal.get((resource_type, name), ())
        for length in sorted(self._lengths.get(resource_type, ()), reverse=True):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())

    def has_any(self, resource_type: ResourceType, name: str) -> bool:
        """Return whether some ACL is for a resource."""
        return next(self.of_resource(resource_type, name), None) is not None

    def named(self, resource_type: ResourceType, name: str) -> Iterator[AclEntry]:
        """Yield the ACLs that have this very name, whatever their pattern."""
        yield from self._literal.get((resource_type, name), ())
        yield from self._prefixed.get((resource_type, name), ())

    def all(self) -> Iterator[AclEntry]:
        """Yield every ACL."""
        for of_type in self._by_type.values():
            yield from of_type

    def of_type(self, resource_type: ResourceType) -> _Bucket:
        """Return the ACLs for all resources of a type."""
        return self._by_type.get(resource_type, {})

    def of_principal(self, resource_type: ResourceType, principal: str) -> Iterator[AclEntry]:
        """Yield the ACLs that concern a principal, for all resources of a type."""
        yield from self._by_principal.get((resource_type, principal), ())
        if principal != EVERY_USER:
            yield from self._by_principal.get((resource_type, EVERY_USER), ())

    def _places(self, entry: AclEntry) -> tuple[tuple[_Table, tuple[ResourceType, str]], ...]:
        by_name = self._prefixed if entry.pattern is PatternType.PREFIXED else self._literal
        kind = entry.resource_type
        return (by_name, (kind, entry.name)), (self._by_principal, (kind, entry.principal))
