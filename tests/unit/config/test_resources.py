"""Groups and client metrics: the values that Kafka 4.3 refuses and accepts, by trial."""

import pytest

from config.resources import (
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    ResourceConfigError,
    check_client_metrics,
    check_group,
)
from config.values import Kind
from tests.support.kafka_keys import rows

KAFKA = {row.name: row for row in rows("broker")}
NUMBERS = [key for key in GROUP_KEYS.values() if key.kind is Kind.INT]


@pytest.mark.parametrize("key", NUMBERS, ids=lambda key: key.name)
def test_default_and_bounds_of_a_group_are_the_brokers_defaults(key):
    kind, _, rest = key.name.partition(".")
    assert key.broker_name == f"group.{key.name}"
    assert KAFKA[key.broker_name].default == key.default
    for word, bound in (("min", key.lowest), ("max", key.highest)):
        row = KAFKA.get(f"group.{kind}.{word}.{rest.removeprefix('num.')}")
        if row is not None:
            assert row.default == str(bound)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "x"),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "4001"),
        ("share.isolation.level", "foo"),
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:1H"),
        ("share.auto.offset.reset", "by_duration:-PT1H"),
        ("share.auto.offset.reset", "by_duration:P"),
        ("share.auto.offset.reset", "by_duration:PT"),
        ("share.renew.acknowledge.enable", "maybe"),
        ("streams.num.standby.replicas", "3"),
        ("streams.initial.rebalance.delay.ms", "-1"),
        ("retention.ms", "1"),
    ],
)
def test_a_bad_group_setting_is_refused(name, text):
    with pytest.raises(ResourceConfigError, match=name):
        check_group({name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("consumer.session.timeout.ms", "60000"),
        ("share.isolation.level", "read_committed"),
        ("share.auto.offset.reset", "earliest"),
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:P3DT4.5S"),
        ("streams.initial.rebalance.delay.ms", "99999999"),
    ],
)
def test_a_good_group_setting_is_accepted(name, text):
    check_group({name: text})


@pytest.mark.parametrize(
    ("name", "text", "is_bound"),
    [
        ("interval.ms", "99", True),
        ("interval.ms", "3600001", True),
        ("interval.ms", "x", False),
        ("match", "foo=bar", False),
        ("match", "client_id", False),
        ("match", "client_id=[", False),
        ("foo", "1", True),
    ],
)
def test_a_bad_subscription_setting_is_refused(name, text, is_bound):
    with pytest.raises(ResourceConfigError) as refused:
        check_client_metrics({name: text})
    assert refused.value.is_bound is is_bound


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("interval.ms", "100"),
        ("match", ""),
        ("match", "client_id=a.*,client_source_port=9"),
        ("metrics", "a.b,c"),
    ],
)
def test_a_good_subscription_setting_is_accepted(name, text):
    assert name in CLIENT_METRICS_KEYS
    check_client_metrics({name: text})
