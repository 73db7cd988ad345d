"""The index finds for each resource what a walk over all ACLs finds, and gives back its memory."""

from hypothesis import given
from hypothesis import strategies as st

from broker.security.acl.acl_codes import ResourceType
from broker.security.acl.acl_index import AclIndex
from tests.support.acl_entries import ALICE, acl

NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "b*", ""])
ENTRIES = st.builds(
    acl,
    kind=st.sampled_from(["topic", "group"]),
    name=NAMES,
    prefixed=st.booleans(),
    principal=st.sampled_from([ALICE, "User:bob", "User:*"]),
    deny=st.booleans(),
)


@given(st.lists(st.tuples(st.booleans(), ENTRIES), max_size=30), NAMES)
def test_it_finds_what_a_walk_finds(steps, name):
    index, model = AclIndex(), {}
    for is_added, entry in steps:
        if is_added:
            index.add(entry)
            model[entry] = None
        else:
            index.remove(entry)
            model.pop(entry, None)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.USER):
        of_type = [entry for entry in model if entry.resource_type is kind]
        assert list(index.of_type(kind)) == of_type
        for principal in (ALICE, "User:bob"):
            concerned = {entry for entry in of_type if entry.is_for_principal(principal)}
            assert set(index.of_principal(kind, principal)) == concerned
        found = list(index.of_resource(kind, name))
        assert len(found) == len(set(found))
        assert set(found) == {entry for entry in of_type if entry.is_for_name(name)}
    assert len(index) == len(model)


def test_the_most_specific_comes_first():
    index = AclIndex()
    entries = [
        acl(name="*"),
        acl(name="o", prefixed=True),
        acl(name="orders"),
        acl(name="ord", prefixed=True),
    ]
    for entry in entries:
        index.add(entry)
    order = [entries[2], entries[3], entries[1], entries[0]]
    assert list(index.of_resource(ResourceType.TOPIC, "orders")) == order


def test_an_emptied_index_holds_nothing():
    index = AclIndex()
    entries = [acl(name=f"n{i}", prefixed=bool(i % 2)) for i in range(10)]
    for entry in entries:
        index.add(entry)
    for entry in entries:
        index.remove(entry)
    assert not index._literal
    assert not index._prefixed
    assert not index._by_principal
    assert not any(index._lengths.values())
