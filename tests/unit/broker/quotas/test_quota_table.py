"""Kafka's precedence, over every set of the eight kinds of entities."""

import pytest

from broker.metadata.quota_image import quota_entity
from broker.quotas.quota_table import Quota, QuotaTable

USER, CLIENT = "alice", "app"
# The order, and the clients that share each: Kafka's DefaultQuotaCallback.
KINDS = (
    ((("user", USER), ("client-id", CLIENT)), (USER, CLIENT)),
    ((("user", USER), ("client-id", None)), (USER, CLIENT)),
    ((("user", USER),), (USER, None)),
    ((("user", None), ("client-id", CLIENT)), (USER, CLIENT)),
    ((("user", None), ("client-id", None)), (USER, CLIENT)),
    ((("user", None),), (USER, None)),
    ((("client-id", CLIENT),), (None, CLIENT)),
    ((("client-id", None),), (None, CLIENT)),
)


@pytest.mark.parametrize("chosen", range(256))
def test_the_first_kind_that_is_there_decides(chosen: int) -> None:
    table = QuotaTable()
    there = [kind for kind in range(8) if chosen & 1 << kind]
    for kind in there:
        table.set(quota_entity(KINDS[kind][0]), kind + 1.0)
    # Of other users and clients, which must not matter.
    for name in ("other", ""):
        table.set(quota_entity([("user", name or "x"), ("client-id", "z")]), 100.0)
    expected = Quota(there[0] + 1.0, KINDS[there[0]][1]) if there else None
    assert table.of(USER, CLIENT) == expected


def test_a_removed_quota_lets_the_next_one_decide() -> None:
    table = QuotaTable()
    for kind, (entity, _) in enumerate(KINDS):
        table.set(quota_entity(entity), kind + 1.0)
        table.set(quota_entity(entity), kind + 1.0)  # twice: counted once
    for kind, (entity, sharers) in enumerate(KINDS):
        assert table.of(USER, CLIENT) == Quota(kind + 1.0, sharers)
        table.set(quota_entity(entity), None)
        table.set(quota_entity(entity), None)
    assert table.of(USER, CLIENT) is None
    assert not table
    assert table._kinds == ()


def test_a_default_is_a_limit_of_each_client() -> None:
    table = QuotaTable()
    table.set(quota_entity([("client-id", None)]), 5.0)
    assert table.of("a", "x") == Quota(5.0, (None, "x"))
    assert table.of("b", "y") == Quota(5.0, (None, "y"))
