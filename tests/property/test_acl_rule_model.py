"""The rule, its index and its memory against a model that walks over all ACLs in plain sentences.

Names and principals come from small alphabets, so that ACLs collide, cover and deny one another.
The authorizer is changed and asked in turns: what it remembers must never outlive a change.
`tests/interop/test_acl_rule.py` asks Kafka's own authorizer.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.runtime.metrics import Metrics
from broker.security.acl.acl_codes import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.authorizer import Authorizer
from broker.security.acl.explanation import explain
from broker.security.acl.rule import Access, Basis, Policy

TYPES = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER]
OPERATIONS = [
    AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS,
]  # fmt: skip
PRINCIPALS = ["User:a", "User:b", "User:A", "User:*"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2", "10.0.0.0/8"]
NAMES = ["a", "ab", "abc", "b", "B", "hardcode"]
FRESH = "~"  # a name that no ACL has, nor a beginning of it

entries = st.builds(
    AclEntry,
    st.sampled_from(TYPES),
    st.sampled_from([*NAMES, "*"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from([PermissionType.ALLOW, PermissionType.DENY]),
)
accesses = st.builds(
    Access,
    st.sampled_from(PRINCIPALS[:3]),
    st.sampled_from(HOSTS[1:3]),
    st.sampled_from(OPERATIONS[1:]),
    st.sampled_from(TYPES),
    st.sampled_from([*NAMES, FRESH]),
)
policies = st.builds(Policy, st.sampled_from([frozenset(), frozenset({"User:b"})]), st.booleans())


class Clock:
    def monotonic_ns(self):
        return 0


def is_allowed(access, present, policy):
    if access.principal in policy.super_users:
        return True
    for_resource = [
        one
        for one in present
        if one.resource_type == access.resource_type
        and (
            access.name.startswith(one.name)
            if one.pattern == PatternType.PREFIXED
            else one.name in ("*", access.name)
        )
    ]
    for_client = [
        one
        for one in for_resource
        if one.principal in ("User:*", access.principal) and one.host in ("*", access.host)
    ]
    deny, allow = (
        {one.operation for one in for_client if one.permission == permission}
        for permission in (PermissionType.DENY, PermissionType.ALLOW)
    )
    if deny & {access.operation, AclOperation.ALL}:
        return False
    enough = {access.operation, AclOperation.ALL}
    if access.operation == AclOperation.DESCRIBE:
        enough |= {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
    if access.operation == AclOperation.DESCRIBE_CONFIGS:
        enough |= {AclOperation.ALTER_CONFIGS}
    if allow & enough:
        return True
    return policy.allows_without_acl and not for_resource


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), entries),
        st.tuples(st.just("remove"), entries),
        st.tuples(st.just("ask"), accesses),
        st.tuples(st.just("again"), st.just(None)),
    ),
    max_size=40,
)


@settings(max_examples=400, deadline=None)
@given(steps, policies)
def test_the_authorizer_decides_as_the_model_does(changes, policy):
    authorizer, present, asked = Authorizer(policy, Clock(), Metrics()), {}, []
    for what, value in changes:
        if what == "add":
            authorizer.add(value)
            present[value] = None
        elif what == "remove":
            authorizer.remove(value)
            present.pop(value, None)
        elif what == "ask":
            asked.append(value)
            judge(authorizer, value, present, policy)
        else:
            for access in asked:
                judge(authorizer, access, present, policy)


def judge(authorizer, access, present, policy):
    expected = is_allowed(access, present, policy)
    assert authorizer.allows(*access) is expected
    assert authorizer.reach(*access[:4]).allows(access.name) is expected
    decision = authorizer.decide(*access)
    assert decision.is_allowed is expected
    if decision.basis is Basis.ENTRY:
        assert decision.entry in present
        assert decision.entry.is_allow is expected
    assert explain(access, decision, present).verdict.startswith(
        "Allowed" if expected else "Denied"
    )


@settings(max_examples=400, deadline=None)
@given(st.lists(entries, max_size=6), entries, st.booleans(), accesses, policies)
def test_a_change_that_a_client_can_see_moves_its_version(present, changed, added, access, policy):
    authorizer = Authorizer(policy, Clock(), Metrics())
    for entry in (*present, *(() if added else (changed,))):
        authorizer.add(entry)
    before, version = authorizer.allows(*access), authorizer.version
    assert authorizer.changed_at(access.principal, access.resource_type) <= version
    (authorizer.add if added else authorizer.remove)(changed)
    if authorizer.allows(*access) is not before:
        assert authorizer.changed_at(access.principal, access.resource_type) > version


@settings(max_examples=400, deadline=None)
@given(st.lists(entries, max_size=12), st.sampled_from(PRINCIPALS[:3]), st.sampled_from(HOSTS[1:3]))
def test_some_resource_is_allowed_if_there_is_one(present, principal, host):
    authorizer = Authorizer(Policy(), Clock(), Metrics())
    for entry in present:
        authorizer.add(entry)
    names = [*NAMES, FRESH, *(name + FRESH for name in [*NAMES, "*"])]
    write, topic = AclOperation.WRITE, ResourceType.TOPIC
    expected = any(
        is_allowed(Access(principal, host, write, topic, name), present, Policy()) for name in names
    )
    assert authorizer.allows_any(principal, host, write, topic) is expected


@given(st.lists(entries, max_size=12), accesses)
def test_a_remedy_or_near_miss_is_named_for_each_denial_by_default(present, access):
    """Obeying the remedy allows the access, unless an ACL denies it."""
    authorizer = Authorizer(Policy(), Clock(), Metrics())
    for entry in present:
        authorizer.add(entry)
    decision = authorizer.decide(*access)
    explanation = explain(access, decision, present)
    if decision.basis is Basis.DEFAULT_DENY:
        principal, operation, kind = explanation.remedy.split()[3:6]
        assert f"User:{principal}" == access.principal
        assert (operation.upper().replace("-", "_"), kind.upper()) == (
            access.operation.name,
            access.resource_type.name,
        )
        for near in explanation.near:
            assert near.entry in present
            assert not near.entry.is_for_principal(access.principal) or not (
                near.entry.is_for_name(access.name)
                and near.entry.is_for_host(access.host)
                and near.entry.is_for_operation(access.operation)
            )
