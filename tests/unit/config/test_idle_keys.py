"""Keys without effect, as Kafka shows them: all match Kafka's own table, and none is missing."""

import pytest

from config.idle_keys import DYNAMIC_ONLY, idle_keys
from config.values import parse
from config.without_effect import REASONS
from tests.support.kafka_keys import default_text, rows

IDLE = idle_keys()
KAFKA = {row.name: row for row in rows("broker")}
# Kafka's internal keys, which it does not show.
INTERNAL = {
    "controller.performance.always.log.threshold.ms",
    "controller.performance.sample.period.ms",
    "group.consumer.regex.refresh.interval.ms",
    "group.share.initialize.retry.interval.ms",
    "group.share.persister.class.name",
    "internal.metadata.delete.delay.millis",
    "internal.metadata.log.segment.bytes",
    "internal.metadata.max.batch.size.in.bytes",
    "remote.log.index.file.cache.ttl.ms",
    "remote.log.manager.task.retry.backoff.max.ms",
    "remote.log.manager.task.retry.backoff.ms",
    "remote.log.manager.task.retry.jitter",
    "server.max.startup.time.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms",
    "share.coordinator.state.topic.prune.interval.ms",
    "unclean.leader.election.interval.ms",
    "unstable.api.versions.enable",
    "unstable.feature.versions.enable",
}


def test_every_key_without_effect_that_kafka_shows_is_listed():
    assert set(IDLE) == set(REASONS) - INTERNAL


@pytest.mark.parametrize("name", sorted(set(IDLE) - set(DYNAMIC_ONLY)))
def test_kind_default_and_update_are_kafkas(name):
    ours, kafkas = IDLE[name], KAFKA[name]
    default = default_text(kafkas)
    assert ours.kind.name == kafkas.kind
    assert ours.default == (default.removeprefix("class ") if default is not None else None)
    assert ours.is_dynamic == (kafkas.last == "cluster-wide")


@pytest.mark.parametrize("name", sorted(IDLE))
def test_a_default_is_a_valid_value(name):
    if IDLE[name].default is not None:
        parse(IDLE[name].kind, IDLE[name].default)
