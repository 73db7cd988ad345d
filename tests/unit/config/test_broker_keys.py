"""The broker's keys against Kafka 4.3's own table."""

import typing

import pytest

from config.broker import BrokerConfig, broker_keys
from config.keys import AUTHORIZER_NAMES, Update
from config.topic import topic_keys
from config.values import Kind, text_of
from config.without_effect import REASONS
from tests.support.kafka_keys import default_text, rows

KEYS = broker_keys()
KAFKA = {row.name: row for row in rows("broker")}
SHARED = sorted(set(KEYS) & set(KAFKA))
SYNONYMS = {
    synonym.name: (described, synonym)
    for described in (*topic_keys().values(), *KEYS.values())
    for synonym in described.synonyms
}
# Deliberate differences; the documentation of each states Kafka's value.
OTHER_DEFAULTS = {
    "controller.listener.names",
    "group.initial.rebalance.delay.ms",
    "listeners",
    "log.dirs",
    "node.id",
    "process.roles",
    "queued.max.request.bytes",
    "socket.listen.backlog.size",
}
# Kafka can change these at run time; here they are fixed at the start of the broker.
FIXED_HERE = {
    "config.providers",
    "listener.security.protocol.map",
    "listeners",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
}
TYPES = {
    Kind.BOOLEAN: bool,
    Kind.STRING: str,
    Kind.PASSWORD: str,
    Kind.INT: int,
    Kind.LONG: int,
    Kind.DOUBLE: float,
}


def test_every_broker_key_of_kafka_is_known():
    assert set(KAFKA) - set(KEYS) - set(SYNONYMS) - set(REASONS) == set()


def test_keys_unknown_to_kafka_are_marked_as_our_own():
    assert {name for name in KEYS if not KEYS[name].own} == {*SHARED, *AUTHORIZER_NAMES}


@pytest.mark.parametrize("name", SHARED)
def test_kind_default_importance_and_update_are_kafkas(name):
    ours, kafkas = KEYS[name], KAFKA[name]
    assert ours.kind.name == kafkas.kind
    assert ours.importance.value == kafkas.importance
    assert (ours.update.value == kafkas.last) == (name not in FIXED_HERE)
    assert (text_of(ours.default) == default_text(kafkas)) == (name not in OTHER_DEFAULTS)
    assert bool(ours.kafka_default) == (name in OTHER_DEFAULTS)


@pytest.mark.parametrize("name", sorted(set(SYNONYMS) & set(KAFKA)))
def test_a_synonym_has_kafkas_kind_importance_and_update(name):
    described, synonym = SYNONYMS[name]
    assert (synonym.kind or described.kind).name == KAFKA[name].kind
    assert synonym.importance.value == KAFKA[name].importance
    assert synonym.update.value == KAFKA[name].last


@pytest.mark.parametrize("name", sorted(set(SYNONYMS) & set(KAFKA)))
def test_a_synonym_has_kafkas_default(name):
    described, synonym = SYNONYMS[name]
    alone = len(described.synonyms) == 1 and described.name not in KAFKA
    default = described.default if alone or synonym.name == described.name else synonym.default
    assert text_of(default) == default_text(KAFKA[name])


@pytest.mark.parametrize("described", KEYS.values(), ids=lambda described: described.name)
def test_a_declaration_is_complete(described):
    hints = typing.get_type_hints(BrokerConfig)
    expected = TYPES.get(described.kind, tuple[str, ...])
    assert described.attribute == described.name.replace(".", "_")
    assert hints[described.attribute] in (expected, expected | None)
    assert described.doc.endswith(".")
    assert described.update is not Update.TOPIC
    assert bool(described.unit) == described.name.endswith((".ms", ".bytes", ".bytes.max"))
    assert described.default is None or described.check.accepts(described.default)
