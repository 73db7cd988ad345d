"""Rows of configs: value, source and synonyms for every layer, as Kafka 4.3 shows them."""

from collections.abc import Mapping

import pytest

from broker.configs.rows import (
    BrokerLayers,
    ConfigSource,
    Row,
    Synonym,
    broker_rows,
    cluster_rows,
    resource_rows,
    topic_rows,
)
from config.broker_names import broker_names
from config.load import load
from config.resources import CLIENT_METRICS_KEYS, GROUP_KEYS
from config.topic import topic_keys

TOPIC, OWN, CLUSTER, STATIC, DEFAULT = 1, 2, 3, 4, 5
HOURS = [("log.retention.hours", "24", STATIC), ("log.retention.hours", "168", DEFAULT)]


def layers(
    own: Mapping[str, str] | None = None,
    cluster: Mapping[str, str] | None = None,
    static: Mapping[str, str] | None = None,
) -> BrokerLayers:
    return BrokerLayers(own or {}, cluster or {}, static or {})


def of_topic(name: str, own: Mapping[str, str], given: BrokerLayers) -> Row:
    held = load(set_values=[f"{key}={text}" for key, text in given.static.items()])
    held = held.with_dynamic({**given.cluster, **given.own})
    config = held.config.topic_defaults.with_overrides(own)
    return next(row for row in topic_rows(config, own, given) if row.name == name)


@pytest.mark.parametrize(
    ("name", "own", "given", "value", "synonyms"),
    [
        ("segment.bytes", {}, layers(), "1073741824",
         [("log.segment.bytes", "1073741824", DEFAULT)]),
        ("retention.ms", {}, layers(), "604800000", []),
        ("flush.ms", {}, layers(), "9223372036854775807", []),
        ("remote.storage.enable", {}, layers(), "false", []),
        ("retention.ms", {"retention.ms": " 5 "}, layers(), "5", [("retention.ms", "5", TOPIC)]),
        ("retention.ms", {}, layers(static={"log.retention.hours": "24"}), "86400000", []),
        ("retention.ms", {}, layers(cluster={"log.retention.ms": "7"},
                                    static={"log.retention.hours": "24"}), "7",
         [("log.retention.ms", "7", CLUSTER), *HOURS]),
        ("retention.ms", {"retention.ms": "5"}, layers(cluster={"log.retention.ms": "7"},
                                                       static={"log.retention.hours": "24"}), "5",
         [("retention.ms", "5", TOPIC), ("log.retention.ms", "7", CLUSTER), *HOURS]),
        ("segment.bytes", {}, layers({"log.segment.bytes": "4000000"},
                                     {"log.segment.bytes": "3000000"},
                                     {"log.segment.bytes": "2000000"}), "4000000",
         [("log.segment.bytes", "4000000", OWN), ("log.segment.bytes", "3000000", CLUSTER),
          ("log.segment.bytes", "2000000", STATIC), ("log.segment.bytes", "1073741824", DEFAULT)]),
    ],
)  # fmt: skip
def test_a_topics_key(
    name: str,
    own: dict[str, str],
    given: BrokerLayers,
    value: str,
    synonyms: list[tuple[str, str, int]],
) -> None:
    row = of_topic(name, own, given)
    assert row.value == value
    assert row.synonyms == synonyms
    assert row.source == (synonyms[0][2] if synonyms else DEFAULT)
    assert not row.is_read_only
    assert row.documentation


def test_a_topic_shows_every_key_but_the_internal_ones() -> None:
    rows = topic_rows(load().config.topic_defaults, {}, layers())
    assert [row.name for row in rows] == [
        key.name for key in topic_keys().values() if not key.internal
    ]
    assert all(row.kind == topic_keys()[row.name].kind for row in rows)


def test_the_real_source_of_a_value_is_kept_beside_the_one_kafka_shows() -> None:
    rows = topic_rows(
        load(set_values=["log.retention.hours=24"]).config.topic_defaults,
        {},
        layers(static={"log.retention.hours": "24"}),
    )
    row = next(row for row in rows if row.name == "retention.ms")
    assert (row.source, row.effective_source) == (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)


@pytest.mark.parametrize(
    ("name", "given", "value", "source", "synonyms"),
    [
        ("log.retention.ms", layers(static={"log.retention.hours": "24"}), None, DEFAULT, []),
        ("log.retention.hours", layers(static={"log.retention.hours": "24"}), "24", STATIC, HOURS),
        ("log.retention.ms", layers(cluster={"log.retention.ms": "7"}), "7", CLUSTER,
         [("log.retention.ms", "7", CLUSTER), ("log.retention.hours", "168", DEFAULT)]),
        ("num.partitions", layers(), "1", DEFAULT, [("num.partitions", "1", DEFAULT)]),
        ("advertised.listeners", layers(), None, DEFAULT, []),
        ("log.cleaner.threads", layers({"log.cleaner.threads": "2"}), "2", OWN,
         [("log.cleaner.threads", "2", OWN), ("log.cleaner.threads", "1", DEFAULT)]),
        ("ssl.key.password", layers(static={"ssl.key.password": "secret"}), None, STATIC,
         [("ssl.key.password", None, STATIC)]),
        ("foo.bar", layers(cluster={"foo.bar": "secret"}), None, CLUSTER,
         [("foo.bar", None, CLUSTER)]),
    ],
)  # fmt: skip
def test_a_brokers_key(
    name: str,
    given: BrokerLayers,
    value: str | None,
    source: int,
    synonyms: list[tuple[str, str | None, int]],
) -> None:
    row = next(row for row in broker_rows(given) if row.name == name)
    assert (row.value, row.source, row.synonyms) == (value, source, synonyms)
    assert "secret" not in str(row)


def test_a_broker_shows_every_name_but_hidden_ones_only_if_set() -> None:
    shown = {row.name: row for row in broker_rows(layers())}
    assert set(shown) == {name.name for name in broker_names().values() if not name.is_hidden}
    assert shown["node.id"].is_read_only
    assert not shown["log.retention.ms"].is_read_only
    assert shown["log.retention.hours"].is_read_only
    name = "leader.replication.throttled.rate"
    assert name in {row.name for row in broker_rows(layers({name: "100"}))}


def test_unknown_keys_are_treated_as_secrets() -> None:
    row = broker_rows(layers(static={"foo.bar": "x"}))[-1]
    assert (row.name, row.kind, row.is_read_only, row.is_sensitive) == ("foo.bar", 0, True, True)


def test_the_default_of_all_brokers_shows_only_what_is_set_there() -> None:
    given = layers(
        {"log.segment.bytes": "4000000"},
        {"log.segment.bytes": "3000000", "log.retention.ms": "7", "foo.bar": "x"},
        {"num.partitions": "3"},
    )
    assert [(row.name, row.value, row.source, row.synonyms) for row in cluster_rows(given)] == [
        ("foo.bar", None, CLUSTER, [("foo.bar", None, CLUSTER)]),
        ("log.retention.ms", "7", CLUSTER, [("log.retention.ms", "7", CLUSTER)]),
        ("log.segment.bytes", "3000000", CLUSTER, [("log.segment.bytes", "3000000", CLUSTER)]),
    ]


def test_a_groups_keys_take_their_defaults_from_the_broker() -> None:
    name = "consumer.session.timeout.ms"
    given = layers(static={f"group.{name}": "50000"})
    by_name = {
        row.name: row
        for row in resource_rows(GROUP_KEYS.values(), {name: "60000"}, ConfigSource.GROUP, given)
    }
    assert by_name[name].value == "60000"
    assert by_name[name].synonyms == [
        (name, "60000", ConfigSource.GROUP),
        (f"group.{name}", "50000", STATIC),
        (f"group.{name}", "45000", DEFAULT),
    ]
    unset = resource_rows(GROUP_KEYS.values(), {}, ConfigSource.GROUP, given)
    assert {row.name: row.value for row in unset}[name] == "50000"
    assert by_name["share.isolation.level"].synonyms == [
        Synonym("share.isolation.level", "read_uncommitted", ConfigSource.DEFAULT)
    ]


def test_a_subscription_has_no_synonyms_but_its_own() -> None:
    rows = resource_rows(
        CLIENT_METRICS_KEYS.values(), {"match": "a=b"}, ConfigSource.CLIENT_METRICS, layers()
    )
    assert [(row.name, row.value, row.source, len(row.synonyms)) for row in rows] == [
        ("interval.ms", "300000", DEFAULT, 0),
        ("match", "a=b", ConfigSource.CLIENT_METRICS, 1),
        ("metrics", "", DEFAULT, 0),
    ]
