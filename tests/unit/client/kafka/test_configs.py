"""Settings over the wire: names, and keys that do not exist."""

import pytest

from client.kafka.configs import (
    BROKER,
    TOPIC,
    Resource,
    Setting,
    check_keys,
    topic_overrides,
    was_set,
)
from client.kafka.connection import BrokerError


def test_a_resource_has_a_readable_name():
    resources = (Resource(TOPIC, "t"), Resource(BROKER, "1"), Resource(BROKER, ""))
    assert [str(one) for one in resources] == ["topic t", "broker 1", "all brokers"]


def test_an_unknown_key_is_refused_with_a_suggestion():
    known = [Setting(name="retention.ms")]
    topic = Resource(TOPIC, "t")
    check_keys(None, ["retention.ms"], known, topic)
    check_keys(None, ["anything"], [], topic)
    with pytest.raises(BrokerError, match=r"Did you mean retention\.ms"):
        check_keys(None, ["retntion.ms"], known, topic)
    with pytest.raises(BrokerError, match="--all"):
        check_keys(None, ["zzz"], known, topic)


def test_a_broker_that_does_not_describe_configs_has_no_overrides():
    class Old:
        def serves(self, _request):
            return False

    assert topic_overrides(Old(), ["t"]) == {}
    assert topic_overrides(Old(), []) == {}


@pytest.mark.parametrize(
    ("name", "value", "source", "expected"),
    [
        ("num.partitions", "3", 4, True),
        ("num.partitions", "3", 2, True),
        ("num.partitions", "1", 5, False),
        ("node.id", "1", 4, False),
        ("min.insync.replicas", "1", 3, False),
        ("min.insync.replicas", "2", 3, True),
        ("min.insync.replicas", "1", 2, True),
    ],
)
def test_settings_of_a_broker_are_shown(name, value, source, expected):
    """Settings from --set, the environment or a file used to be hidden, and defaults shown."""
    setting = Setting(name=name, value=value, config_source=source)
    assert was_set(Resource(BROKER, "1"), setting) is expected
