"""The operations that clients may perform on a resource of a broker without an authorizer: all.

Answers to clients that ask for their authorized operations (KIP-430) have one bit for each
AclOperation that the resource type supports, as in Kafka. With an authorizer,
`broker.rights.clauses.Bits` replaces them by those of the client.
"""

from __future__ import annotations

from typing import Final

UNKNOWN_ELEMENT: Final = 0  # UNKNOWN in each of Kafka's enumerations for ACLs
_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8  # AclOperation in Kafka
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*codes: int) -> int:
    return sum(1 << code for code in codes)


CLUSTER_OPERATIONS: Final = _bits(
    _CREATE,
    _ALTER,
    _DESCRIBE,
    _CLUSTER_ACTION,
    _DESCRIBE_CONFIGS,
    _ALTER_CONFIGS,
    _IDEMPOTENT_WRITE,
)
TOPIC_OPERATIONS: Final = _bits(
    _READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS
)
GROUP_OPERATIONS: Final = _bits(_READ, _DELETE, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
