"""The broker's keys for groups: defaults and bounds that work together."""

import pytest

from config.broker import BrokerConfig
from config.errors import ConfigError
from config.load import load


def test_the_default_session_timeouts_of_kafkas_clients_are_allowed():
    config = BrokerConfig()
    assert config.group_min_session_timeout_ms <= 10_000  # librdkafka's oldest default
    assert config.group_max_session_timeout_ms >= 45_000  # Kafka's consumers, KIP-735


@pytest.mark.parametrize(
    "given",
    [
        "group.max.size=0",
        "offsets.commit.timeout.ms=0",
        "offsets.retention.minutes=0",
        "offsets.topic.num.partitions=0",
        "offsets.topic.segment.bytes=0",
        "offsets.topic.compression.codec=5",
        "offsets.topic.compression.codec=gzip",
    ],
)
def test_a_value_outside_its_bounds_is_refused(given):
    with pytest.raises(ConfigError, match=given.partition("=")[0]):
        load(file=None, environment={}, set_values=[given], data_dir="d")
