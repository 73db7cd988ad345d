"""Kafka's enumerations for ACLs. On the wire and on disk: never renumber.

UNKNOWN is what a reader does not know. ANY and MATCH belong to filters, never to an ACL.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

WILDCARD: Final = "*"  # as a name, host or in `User:*`: each
EVERY_USER: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"  # the only resource of type CLUSTER


class AclCode(IntEnum):
    """A code of one of the enumerations; one that is not listed is UNKNOWN, its code 0."""

    __hash__ = int.__hash__  # an enumeration's own is Python, and each decision would call it twice

    @classmethod
    def of(cls, code: int) -> Self:
        """Return the same as a call, in a quarter of the time."""
        return cls._value2member_map_.get(code) or cls(0)  # type: ignore[return-value]

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls(0) if isinstance(value, int) else None


class ResourceType(AclCode):
    """What kind of thing an ACL protects."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(AclCode):
    """How an ACL's name is compared with that of a resource."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(AclCode):
    """What a client wants to do with a resource (Kafka's AclOperation)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(AclCode):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3
