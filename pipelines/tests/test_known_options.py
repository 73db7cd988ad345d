"""Names of options: unknown ones with the nearest known one, and those without effect."""

from __future__ import annotations

import logging

import pytest

from pyspark_barnabas import known_options
from pyspark_barnabas.known_options import require_known, warn_without_effect, without_effect
from pyspark_barnabas.wire.errors import BadOption


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("startingoffset", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("failOnDataloss ", "failOnDataLoss"),
        ("subscribed", "subscribe"),
        ("topics", "topic"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("kafka.bootstap.servers", "kafka.bootstrap.servers"),
        ("kafka.isolation_level", "kafka.isolation.level"),
        ("kafka.compresion.type", "kafka.compression.type"),
    ],
)
def test_a_mistyped_name_is_refused_with_the_one_that_was_meant(name, meant):
    with pytest.raises(BadOption, match=rf"^there is no option {name}: did you mean {meant}\?$"):
        require_known([name])


def test_a_name_like_no_other_is_refused_with_where_they_are_listed():
    with pytest.raises(BadOption, match=r"no option inferSchema: docs/pyspark.md lists them"):
        require_known(["subscribe", "inferSchema"])


def test_known_names_are_let_pass_whatever_their_case():
    require_known(["SUBSCRIBE", "queryname", "checkpointLocation", "kafka.ssl.anything", "path"])
    require_known(["groupIdPrefix", "kafka.group.id", "kafka.linger.ms"])


@pytest.mark.parametrize(
    ("use", "ignored"),
    [
        ("a batch read", ["deduplicate", "kafka.acks", "maxOffsetsPerTrigger", "topic"]),
        ("a stream", ["deduplicate", "kafka.acks", "topic"]),
        ("a batch write", ["deduplicate", "maxOffsetsPerTrigger", "subscribe"]),
        ("a streaming write", ["maxOffsetsPerTrigger", "subscribe"]),
    ],
)
def test_what_does_nothing_depends_on_the_use(use, ignored):
    given = ["kafka.bootstrap.servers", "subscribe", "TOPIC", "kafka.ACKS", "checkpointLocation",
             "maxOffsetsPerTrigger", "deduplicate"]  # fmt: skip
    assert without_effect(given, use) == ignored


@pytest.mark.parametrize("use", ["a batch read", "a stream", "a batch write", "a streaming write"])
def test_options_of_tls_and_logins_have_an_effect_in_every_use(use):
    given = ["kafka.security.protocol", "kafka.ssl.truststore.location", "kafka.SASL.jaas.config"]
    assert without_effect(given, use) == []


def test_what_does_nothing_is_named_once(caplog, monkeypatch):
    monkeypatch.setattr(known_options, "_warned", set())
    given = ["kafka.bootstrap.servers", "kafka.group.id", "groupidprefix", "subscribe"]
    for _ in range(2):
        warn_without_effect(given, "a stream")
    warn_without_effect(["subscribe"], "a stream")
    assert caplog.record_tuples == [
        (
            "pyspark_barnabas.known_options",
            logging.WARNING,
            'format("barnabas"): without effect in a stream: groupIdPrefix, kafka.group.id',
        )
    ]
