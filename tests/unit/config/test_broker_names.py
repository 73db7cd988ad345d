"""The names of the broker's configuration, compared with Kafka's table."""

import pytest

from config.broker_names import broker_alternatives, broker_names, documentation_of
from config.errors import ConfigError
from config.topic import topic_keys
from tests.support.kafka_keys import default_text, rows
from tests.unit.config.test_idle_keys import INTERNAL

NAMES = broker_names()
KAFKA = {row.name: row for row in rows("broker")}
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
# Kafka can change these at run time.
FIXED_HERE = {
    "config.providers",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
}


def test_every_name_that_kafka_shows_is_listed_in_order():
    assert set(KAFKA) - set(NAMES) == INTERNAL
    assert list(NAMES) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted(set(NAMES) & set(KAFKA)))
def test_kind_default_and_update_are_kafkas(name):
    ours, kafkas = NAMES[name], KAFKA[name]
    default = default_text(kafkas)
    wanted = default.removeprefix("class ") if default is not None else None
    assert ours.kind.name == kafkas.kind
    assert (ours.default == wanted) == (name not in OTHER_DEFAULTS)
    assert ours.is_dynamic == (kafkas.last == "cluster-wide" and name not in FIXED_HERE)
    assert ours.documentation


@pytest.mark.parametrize(
    ("name", "alternatives"),
    [
        ("log.retention.ms", ("log.retention.ms", "log.retention.minutes", "log.retention.hours")),
        ("log.retention.hours", ("log.retention.ms", "log.retention.minutes",
                                 "log.retention.hours")),
        ("log.segment.bytes", ("log.segment.bytes",)),
        ("num.partitions", ("num.partitions",)),
        ("ssl.protocol", ("ssl.protocol",)),
    ],
)  # fmt: skip
def test_synonyms_list_each_other_by_precedence(name, alternatives):
    assert NAMES[name].alternatives == alternatives


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("log.retention.ms", " 7 ", "7"),
        ("auto.create.topics.enable", "TRUE", "true"),
        ("log.retention.ms", "nonsense", "nonsense"),
        ("ssl.key.password", "secret", None),
        ("sasl.jaas.config", "secret", None),
        ("log.dirs", "a, b", "a,b"),
    ],
)
def test_a_value_is_shown_as_kafka_shows_it(name, text, shown):
    assert NAMES[name].shown(text) == shown


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("log.retention.ms", "x", ConfigError),
        ("log.retention.hours", "0", ConfigError),
        ("max.connections", "-1", ConfigError),
        ("max.connections", "0", ConfigError),
        ("background.threads", "x", ValueError),
        ("leader.replication.throttled.rate", "x", ValueError),
    ],
)
def test_a_bad_value_is_refused(name, text, error):
    with pytest.raises(error):
        NAMES[name].check(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [("log.retention.ms", "-1"), ("log.retention.hours", "1"), ("background.threads", "3")],
)
def test_a_good_value_is_accepted(name, text):
    NAMES[name].check(text)


def test_internal_keys_and_keys_that_kafka_has_only_at_run_time_are_hidden():
    hidden = {name.name for name in NAMES.values() if name.is_hidden}
    assert hidden == {
        "follower.replication.throttled.rate",
        "internal.segment.bytes",
        "leader.replication.throttled.rate",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }


def test_documentation_says_why_a_key_has_no_effect():
    preallocate = topic_keys()["preallocate"]
    assert documentation_of(preallocate).endswith(f"{preallocate.no_effect}.")
    assert documentation_of(topic_keys()["retention.ms"]) == topic_keys()["retention.ms"].doc
    assert "without effect" in NAMES["log.cleaner.io.buffer.size"].documentation


def test_a_topic_key_lists_its_broker_keys():
    assert broker_alternatives(topic_keys()["flush.ms"]) == (
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    )
    assert broker_alternatives(topic_keys()["remote.storage.enable"]) == ()
