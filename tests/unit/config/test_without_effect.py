"""The table of keys without effect: each is listed once, exists in Kafka, and is not declared."""

import pytest

from config.broker import broker_keys
from config.topic import topic_keys
from config.without_effect import GROUPS_OF_KEYS, REASONS, group_of
from tests.support.kafka_keys import rows

# Dynamic only: Kafka has them in DynamicBrokerConfig, but not among its static keys.
DYNAMIC_ONLY = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}


def test_each_name_is_listed_once_and_is_kafkas():
    names = [name for group in GROUPS_OF_KEYS for name in group.names]
    assert len(names) == len(set(names)) == len(REASONS)
    assert set(names) - {row.name for row in rows("broker")} == DYNAMIC_ONLY


def test_no_listed_name_is_declared():
    declared = set(broker_keys())
    for described in (*broker_keys().values(), *topic_keys().values()):
        declared |= {synonym.name for synonym in described.synonyms}
    assert declared & set(REASONS) == set()


@pytest.mark.parametrize(
    ("name", "safety"),
    [
        ("ssl.engine.factory.class", True),
        ("delegation.token.secret.key", True),
        ("listener.name.inside.principal.builder.class", True),
        ("listener.name.inside.ssl.provider", False),
        ("replica.fetch.max.bytes", False),
    ],
)
def test_keys_that_promise_safety_are_distinguished(name, safety):
    group = group_of(name)
    assert group is not None
    assert group.promises_safety is safety


@pytest.mark.parametrize(
    "name", ["num.partitions", "nonsense", "", "listener.name.inside.ssl.keystore.location"]
)
def test_other_names_have_no_group(name):
    assert group_of(name) is None
