"""The topic's keys against Kafka 4.3's own table, overrides, and the rules between keys."""

import typing

import pytest

from config.errors import ConfigError
from config.keys import Update
from config.topic import TopicConfig, topic_keys
from config.values import Kind, text_of
from tests.support.kafka_keys import default_text, rows

KEYS = topic_keys()
KAFKA = {row.name: row for row in rows("topic")}
TYPES = {
    Kind.BOOLEAN: bool,
    Kind.STRING: str,
    Kind.INT: int,
    Kind.LONG: int,
    Kind.DOUBLE: float,
    Kind.LIST: tuple[str, ...],
}


def test_every_topic_key_of_kafka_and_one_other_is_declared():
    assert set(KEYS) - set(KAFKA) == {"write.caching"}
    assert set(KAFKA) - set(KEYS) == set()


@pytest.mark.parametrize("name", KAFKA)
def test_kind_default_importance_and_synonyms_are_kafkas(name):
    ours, kafkas = KEYS[name], KAFKA[name]
    given_as = " ".join(f"{synonym.name}*{synonym.times}" for synonym in ours.synonyms)
    assert ours.kind.name == kafkas.kind
    assert text_of(ours.default) == default_text(kafkas)
    assert ours.importance.value == kafkas.importance
    if name != "internal.segment.bytes":  # only ours has a synonym, for tests of whole brokers
        assert given_as == kafkas.last


@pytest.mark.parametrize("described", KEYS.values(), ids=lambda described: described.name)
def test_a_declaration_is_complete(described):
    hints = typing.get_type_hints(TopicConfig)
    expected = TYPES[described.kind]
    assert described.attribute == described.name.replace(".", "_")
    assert hints[described.attribute] in (expected, expected | None)
    assert described.doc.endswith(".")
    assert described.update is Update.TOPIC
    assert bool(described.unit) == described.name.endswith((".ms", ".bytes"))
    assert described.default is None or described.check.accepts(described.default)


OVERRIDES = [
    ({}, {}),
    ({"retention.ms": "0"}, {"retention_ms": 0}),
    ({"retention.bytes": "-1", "segment.bytes": "1048576"}, {"segment_bytes": 1048576}),
    ({"cleanup.policy": "compact,delete"}, {"cleanup_policy": ("compact", "delete")}),
    ({"cleanup.policy": ""}, {"cleanup_policy": ()}),
    ({"write.caching": "true"}, {"write_caching": True}),
    ({"internal.segment.bytes": "100"}, {"internal_segment_bytes": 100, "segment_bytes": 1 << 30}),
    ({"message.timestamp.type": "LogAppendTime"}, {"message_timestamp_type": "LogAppendTime"}),
]
REFUSED = [
    ({"retention.hours": "1"}, "retention.hours"),
    ({"log.retention.ms": "1"}, "log.retention.ms"),
    ({"retention.ms": "-2"}, "retention.ms"),
    ({"segment.bytes": "1000"}, "segment.bytes"),
    ({"segment.bytes": "99999999999"}, "segment.bytes"),
    ({"cleanup.policy": "compress"}, "cleanup.policy"),
    ({"compression.type": "ZSTD"}, "compression.type"),
    ({"compression.gzip.level": "0"}, "compression.gzip.level"),
    ({"preallocate": "yes"}, "preallocate"),
    ({"min.cleanable.dirty.ratio": "NaN"}, "min.cleanable.dirty.ratio"),
    ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, "min.compaction.lag.ms"),
    ({"remote.storage.enable": "true"}, "remote.storage.enable"),
]


@pytest.mark.parametrize(("overrides", "expected"), OVERRIDES)
def test_overrides_replace_only_their_keys(overrides, expected):
    changed = TopicConfig().with_overrides(overrides)
    assert {name: getattr(changed, name) for name in expected} == expected
    texts = changed.texts()
    untouched = set(KEYS) - set(overrides)
    assert {name: texts[name] for name in untouched} == {
        name: TopicConfig().texts()[name] for name in untouched
    }


@pytest.mark.parametrize(("overrides", "name"), REFUSED)
def test_a_bad_override_is_refused_with_its_key(overrides, name):
    with pytest.raises(ConfigError) as caught:
        TopicConfig().with_overrides(overrides)
    assert caught.value.key == name
