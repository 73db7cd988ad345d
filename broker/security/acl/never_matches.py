"""ACLs that are accepted, as Kafka accepts them, and can never decide anything."""

from __future__ import annotations

import re
from typing import Final

from broker.security.acl.acl_codes import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    PatternType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.acl_hosts import is_address, network_of
from broker.security.acl.resource_operations import OPERATIONS

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)  # Kafka's Topic.validate
_USER: Final = "User:"


def never_matches(entry: AclEntry) -> str:
    """Return why no request can match `entry`, or "" if one can."""
    return _host(entry) or _principal(entry) or _operation(entry) or _name(entry)


def _host(entry: AclEntry) -> str:
    host = entry.host
    if host == WILDCARD or is_address(host):
        return ""
    if not host:
        return "its host is empty; use * for every host"
    if network_of(host):
        return f"its host {host} is a network, and only whole addresses are compared"
    return f"its host {host} is no address, and names are not looked up"


def _principal(entry: AclEntry) -> str:
    if entry.principal == _USER:
        return "its principal has no name"
    if not entry.principal.startswith(_USER):
        kind = entry.principal.partition(":")[0]
        return f"its principal has the type {kind!r}, and clients are of the type User only"
    return ""


def _operation(entry: AclEntry) -> str:
    operations = OPERATIONS.get(entry.resource_type)
    if operations is None:
        return "its resource type is unknown here"
    if entry.resource_type in (ResourceType.DELEGATION_TOKEN, ResourceType.USER):
        return "this broker has no delegation tokens"
    if entry.operation not in (*operations, AclOperation.ALL):
        kind = entry.resource_type.name.lower()
        return f"no request asks a {kind} for {entry.operation.name}"
    return ""


def _name(entry: AclEntry) -> str:
    name, is_prefix = entry.name, entry.pattern is PatternType.PREFIXED
    if entry.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return "its pattern type is unknown here"
    if name == WILDCARD and not is_prefix:
        return ""
    if entry.resource_type is ResourceType.CLUSTER and not _is_cluster(name, is_prefix=is_prefix):
        return f"the only cluster is {CLUSTER_NAME}"
    if entry.resource_type is ResourceType.TOPIC and not _TOPIC_NAME.fullmatch(name):
        hint = ""
        if name.endswith(WILDCARD) and not is_prefix:
            hint = f", and a literal one matches no others: use the prefix {name[:-1]}"
        return f"no topic can have {'a name with this prefix' if is_prefix else 'this name'}{hint}"
    return ""


def _is_cluster(name: str, *, is_prefix: bool) -> bool:
    return CLUSTER_NAME.startswith(name) if is_prefix else name == CLUSTER_NAME
