"""Filters of DescribeAcls, nearly right, compared with a naive model (`security_fuzz filters`)."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from broker.acls import Acls
from broker.handlers import describe_acls
from broker.metadata.acl_image import AclImage
from broker.runtime.clock import ManualClock
from broker.runtime.metrics import Metrics
from broker.security.acl.acl_codes import PatternType, PermissionType, ResourceType
from broker.security.acl.authorizer import Authorizer
from broker.security.acl.rule import Policy
from protocol.errors import ProtocolError
from protocol.messages.describe_acls import DescribeAclsRequest
from tests.support.acl_entries import acl
from tests.support.bent import Ways, bent_text


def filters(source: random.Random, count: int) -> Ways:
    """Feed filters to DescribeAcls, and compare what they find with a naive model."""
    authorizer = Authorizer(Policy(frozenset(), False), ManualClock(), Metrics())
    names = ("a", "ab", "abc", "b", "*", "")
    entries = [
        acl(kind, name, operation, principal=principal, prefixed=prefixed, deny=deny)
        for kind in ("topic", "group")
        for name in names[:5]
        for operation in (3, 4)
        for principal in ("User:a", "User:*")
        for prefixed in (False, True)
        for deny in (False, True)
    ]
    for entry in entries:
        authorizer.add(entry)
    unused: Any = SimpleNamespace(image=SimpleNamespace(acls=AclImage()))
    acls = Acls(unused, unused, authorizer, unused, ManualClock(), bytes)
    services: Any = SimpleNamespace(acls=acls)
    codes = (*range(-128, 0), *range(20), 127)
    for _ in range(count):
        body = DescribeAclsRequest(
            resource_type_filter=source.choice((1, 2, 3, source.choice(codes))),
            resource_name_filter=source.choice((None, *names, bent_text("abc", source))),
            pattern_type_filter=source.choice((1, 2, 3, 4, source.choice(codes))),
            principal_filter=source.choice((None, "User:a", "User:*", "", "User:b")),
            host_filter=source.choice((None, "*", "::1")),
            operation=source.choice((1, 3, 4, source.choice(codes))),
            permission_type=source.choice((1, 2, 3, source.choice(codes))),
        )
        refused: list[ProtocolError] = []
        request: Any = SimpleNamespace(body=body, connection=SimpleNamespace(refuse=refused.append))
        answer: Any = describe_acls.handle(request, services)
        if answer is None:
            assert refused
            assert 0 in _codes(body)
            yield "closed"
            continue
        try:
            while True:
                next(answer)
        except StopIteration as end:
            answer = end.value
        found = sorted(
            (one.resource_type, one.resource_name, one.pattern_type, *_row(each))
            for one in answer.resources
            for each in one.acls
        )
        wanted = sorted(
            (one.resource_type, one.name, one.pattern, *_entry_row(one))
            for one in entries
            if _naively(body, one)
        )
        assert found == wanted, body
        yield f"{min(len(found), 1)} or more found"


def _codes(body: DescribeAclsRequest) -> tuple[int, ...]:
    kinds = (body.resource_type_filter, body.pattern_type_filter)
    return (*kinds, body.operation, body.permission_type)


def _row(one: Any) -> tuple[Any, ...]:
    return one.principal, one.host, one.operation, one.permission_type


def _entry_row(one: Any) -> tuple[Any, ...]:
    return one.principal, one.host, one.operation, one.permission


def _naively(body: DescribeAclsRequest, entry: Any) -> bool:
    """Whether a filter asks for an ACL, written down as Kafka's documentation says it."""
    name, pattern = body.resource_name_filter, body.pattern_type_filter
    if body.resource_type_filter not in (ResourceType.ANY, entry.resource_type):
        return False
    if pattern == PatternType.MATCH and name is not None:
        is_named = entry.name in (name, "*") if entry.pattern == PatternType.LITERAL else False
        is_named |= entry.pattern == PatternType.PREFIXED and name.startswith(entry.name)
    else:
        is_named = pattern in (PatternType.ANY, PatternType.MATCH, entry.pattern)
        is_named &= name is None or name == entry.name
    return (
        is_named
        and body.principal_filter in (None, entry.principal)
        and body.host_filter in (None, entry.host)
        and body.operation in (1, entry.operation)
        and body.permission_type in (PermissionType.ANY, entry.permission)
    )
