"""How the words of `barnabas acls` become ACLs: principals, operations, resources and names.

A name that ends with `*` means all names that begin so, as in most other systems, and becomes a
prefix; `*` alone is every name. Kafka's own tool takes both for a literal name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from client.kafka.acl_requests import AclCodes
from client.suggest import did_you_mean

if TYPE_CHECKING:
    from broker.security.acl.acl_codes import AclOperation, PatternType, ResourceType
    from broker.security.acl.acl_entry import AclEntry

Found = TypeVar("Found")
Right: TypeAlias = tuple[str, str, str | None]  # operations, resource type, name
_USER = "User:"


def principal_of(text: str) -> str:
    """Return a principal: `alice` is User:alice."""
    return text if ":" in text else _USER + text


def operations_of(text: str) -> list[AclOperation]:
    """Return operations from a list such as `read,write`. Raises click.UsageError."""
    from broker.security.acl.acl_codes import AclOperation

    known = {_word(one.name): one for one in AclOperation if one > AclOperation.ANY}
    return [_known(word.strip(), known, "operation") for word in text.split(",")]


def resource_type_of(text: str) -> ResourceType:
    """Return a type of resource from its name. Raises click.UsageError."""
    from broker.security.acl.acl_codes import ResourceType

    known = {_word(one.name): one for one in ResourceType if one > ResourceType.ANY}
    return _known(text, known, "resource")


def name_of(kind: ResourceType, text: str | None, *, literal: bool) -> tuple[str, PatternType]:
    """Return the name and the pattern of an ACL. Raises click.UsageError without a name."""
    from broker.security.acl.acl_codes import CLUSTER_NAME, WILDCARD, PatternType, ResourceType

    if kind is ResourceType.CLUSTER and text is None:
        return CLUSTER_NAME, PatternType.LITERAL
    if not text:
        raise click.UsageError(f"Say which {kind.name.lower()}: a name, 'begins.so*' or '*'.")
    if text.endswith(WILDCARD) and text != WILDCARD and not literal:
        return text[:-1], PatternType.PREFIXED
    return text, PatternType.LITERAL


def producer_rights(topics: Sequence[str], transactional_ids: Sequence[str]) -> list[Right]:
    """Return (operations, resource, name) for a producer: those of Kafka's tool."""
    rights: list[Right] = [("describe,create,write", "topic", name) for name in topics]
    return rights + [("describe,write", "transactional-id", name) for name in transactional_ids]


def consumer_rights(topics: Sequence[str], groups: Sequence[str]) -> list[Right]:
    """Return (operations, resource, name) for a consumer: those of Kafka's tool."""
    rights: list[Right] = [("read,describe", "topic", name) for name in topics]
    return rights + [("read", "group", name) for name in groups]


@dataclass(frozen=True, slots=True)
class Convenience:
    """The options that stand for several ACLs."""

    producer: bool
    consumer: bool
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]

    def rights(self) -> list[Right]:
        """Return (operations, resource type, name) for each. Raises click.UsageError."""
        if not self.topics or (self.consumer and not self.groups):
            raise click.UsageError("--producer needs --topic; --consumer also needs --group.")
        if self.groups and not self.consumer:
            raise click.UsageError("--group belongs to --consumer.")
        if self.transactional_ids and not self.producer:
            raise click.UsageError("--transactional-id belongs to --producer.")
        rights: list[Right] = []
        if self.producer:
            rights += producer_rights(self.topics, self.transactional_ids)
        if self.consumer:
            rights += consumer_rights(self.topics, self.groups)
        return list(dict.fromkeys(rights))


def entry_of_codes(codes: AclCodes) -> AclEntry:
    """Return an ACL that a broker has listed."""
    from broker.security.acl.acl_codes import (
        AclOperation,
        PatternType,
        PermissionType,
        ResourceType,
    )
    from broker.security.acl.acl_entry import AclEntry

    return AclEntry(
        ResourceType(codes.resource_type),
        codes.name or "",
        PatternType(codes.pattern),
        codes.principal or "",
        codes.host or "",
        AclOperation(codes.operation),
        PermissionType(codes.permission),
    )


def entries_of(
    principal: str,
    rights: Sequence[Right],
    host: str,
    *,
    is_allow: bool,
    literal: bool,
) -> list[AclEntry]:
    """Return the ACLs that give or deny rights. Raises click.UsageError."""
    from broker.security.acl.acl_codes import PermissionType
    from broker.security.acl.acl_entry import AclEntry

    permission = PermissionType.ALLOW if is_allow else PermissionType.DENY
    entries = []
    for operations, resource_type, name in rights:
        kind = resource_type_of(resource_type)
        resource, pattern = name_of(kind, name, literal=literal)
        entries += [
            AclEntry(kind, resource, pattern, principal_of(principal), host, one, permission)
            for one in operations_of(operations)
        ]
    return list(dict.fromkeys(entries))


def row_of(entry: AclEntry) -> dict[str, Any]:
    """Return an ACL as JSON shows it."""
    return {
        "principal": entry.principal,
        "permission": entry.permission.name.lower(),
        "operation": entry.operation.name.lower().replace("_", "-"),
        "resource_type": entry.resource_type.name.lower().replace("_", "-"),
        "pattern": entry.pattern.name.lower(),
        "name": entry.name,
        "host": entry.host,
    }


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def _known(word: str, known: dict[str, Found], what: str) -> Found:
    found = known.get(word.lower().replace("_", "-"))
    if found is None:
        hint = did_you_mean(word, known) or f"One of: {', '.join(known)}."
        raise click.UsageError(f"{word!r} is no {what}. {hint}")
    return found
