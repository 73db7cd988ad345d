"""ACLs in words, so that an operator reads back what an ACL does before a client finds out."""

from __future__ import annotations

from typing import Final

from broker.security.acl.acl_codes import (
    CLUSTER_NAME,
    EVERY_USER,
    WILDCARD,
    AclOperation,
    PatternType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry

VERBS: Final = {
    AclOperation.ALL: "do everything with",
    AclOperation.READ: "read",
    AclOperation.WRITE: "write to",
    AclOperation.CREATE: "create",
    AclOperation.DELETE: "delete",
    AclOperation.ALTER: "alter",
    AclOperation.DESCRIBE: "describe",
    AclOperation.CLUSTER_ACTION: "act as a broker of",
    AclOperation.DESCRIBE_CONFIGS: "describe the configs of",
    AclOperation.ALTER_CONFIGS: "alter the configs of",
    AclOperation.IDEMPOTENT_WRITE: "write idempotently to",
    AclOperation.CREATE_TOKENS: "create tokens for",
    AclOperation.DESCRIBE_TOKENS: "describe the tokens of",
    AclOperation.TWO_PHASE_COMMIT: "commit in two phases with",
}


def in_words(entry: AclEntry) -> str:
    """Return what an ACL says, as a sentence without its full stop."""
    subject = "Every user" if entry.principal == EVERY_USER else entry.principal
    may = "may" if entry.is_allow else "may not"
    verb = VERBS.get(entry.operation, "do something unknown here with")
    resource = resource_words(entry.resource_type, entry.name, entry.pattern)
    where = "any address" if entry.host == WILDCARD else entry.host or "no address"
    return f"{subject} {may} {verb} {resource} from {where}"


def resource_words(
    kind: ResourceType, name: str, pattern: PatternType = PatternType.LITERAL
) -> str:
    """Return the words for the resources that a name and a pattern stand for."""
    noun = noun_of(kind)
    if kind is ResourceType.CLUSTER and name in (CLUSTER_NAME, WILDCARD):
        return "the cluster"
    if pattern is PatternType.PREFIXED:
        return f"every {noun} whose name begins with '{name}'"
    return f"every {noun}" if name == WILDCARD else f"{noun} {name}"


def noun_of(kind: ResourceType) -> str:
    """Return the word for one resource of a type."""
    return kind.name.lower().replace("_", " ")
