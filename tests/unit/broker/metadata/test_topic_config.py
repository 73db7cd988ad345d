"""Configs of topics: strict from clients, lenient from the log."""

import pytest

from broker.metadata.image import TopicInfo
from broker.metadata.topic_config import TopicConfigs, checked_topic_config, usable_topic_config
from broker.metadata.topic_rules import TopicError
from config.topic import TopicConfig
from protocol.errors import ErrorCode

DEFAULTS = TopicConfig(retention_ms=5)


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"nosuch": "1"}, "Unknown topic config name: nosuch"),
        ({"retention.ms": "abc"}, "Invalid value abc for configuration retention.ms: "),
        ({"retention.ms": ""}, "Invalid value  for configuration retention.ms: "),
        ({"retention.ms": "-5"}, "Invalid value -5 for configuration retention.ms: "),
        ({"segment.bytes": "5"}, "Invalid value 5 for configuration segment.bytes: "),
        ({"cleanup.policy": "nope"}, "Invalid value nope for configuration cleanup.policy: "),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"a": None, "b": "1", "c": None}, "Null value not supported for topic configs: a,c"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "Invalid value "),
    ],
)
def test_refused(configs, text):
    with pytest.raises(TopicError) as caught:
        checked_topic_config(DEFAULTS, configs)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert caught.value.message.startswith(text)


@pytest.mark.parametrize(
    "configs",
    [{}, {"retention.ms": "-1", "cleanup.policy": "delete, compact"}, {"write.caching": "true"}],
)
def test_accepted_as_given(configs):
    assert checked_topic_config(DEFAULTS, configs) == configs


def test_recorded_values_are_used_if_they_are_valid():
    config, refused = usable_topic_config(
        DEFAULTS,
        {
            "retention.ms": "7",
            "remote.storage.enable": "true",
            "new.key": "1",
            "segment.bytes": "x",
        },
    )
    assert config.retention_ms == 7
    assert config.segment_bytes == DEFAULTS.segment_bytes
    assert len(refused) == 3
    assert any("new.key" in reason for reason in refused)


def test_valid_recorded_values_are_not_reported():
    assert usable_topic_config(DEFAULTS, {}) == (DEFAULTS, [])
    config, refused = usable_topic_config(DEFAULTS, {"retention.ms": "9"})
    assert (config.retention_ms, refused) == (9, [])


def test_changed_defaults_apply_to_every_topic_without_its_own_value():
    configs = TopicConfigs(TopicConfig(retention_ms=5))
    own, plain, odd = (
        TopicInfo(name, bytes(16), configs=values)
        for name, values in (("own", {"retention.ms": "7"}), ("plain", {}), ("odd", {"x": "1"}))
    )
    assert [configs.of(topic).retention_ms for topic in (own, plain, odd)] == [7, 5, 5]
    configs.defaults = TopicConfig(retention_ms=9)
    assert [configs.of(topic).retention_ms for topic in (own, plain, odd)] == [7, 9, 9]
    assert [len(configs.unusable(topic)) for topic in (own, plain, odd)] == [0, 0, 1]
    assert configs.checked({"retention.ms": "3"}) == {"retention.ms": "3"}
