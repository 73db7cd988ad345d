"""Options as Spark's source takes them, and the text of every refusal."""

from __future__ import annotations

import pytest

from pyspark_barnabas.options import (
    include_headers,
    sink_options,
    source_options,
)
from pyspark_barnabas.wire.errors import BadOption
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST

BASE = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}


def batch(**options):
    return source_options(BASE | options, streaming=False)


def test_names_are_compared_without_case():
    options = source_options(
        {"KAFKA.Bootstrap.Servers": "a:1, [::1]:2", "subscribePATTERN": "x.*"}, streaming=True
    )
    assert options.cluster.bootstrap == (("a", 1), ("::1", 2))
    assert options.subscription.pattern == "x.*"


def test_defaults_are_sparks():
    found = batch()
    assert (found.starting.everywhere, found.ending.everywhere) == (EARLIEST, LATEST)
    assert (found.fail_on_data_loss, found.isolation) == (True, 0)
    stream = source_options(BASE, streaming=True)
    assert stream.starting.everywhere == LATEST
    assert include_headers({}) is False
    assert include_headers({"includeheaders": "TRUE"}) is True


def test_a_time_goes_before_times_and_these_before_offsets():
    three = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"t": {"0": 6}}',
        "startingOffsets": '{"t": {"0": 7}}',
    }
    kinds = []
    for name in list(three):
        kinds.append(batch(**three).starting.kind)
        del three[name]
    assert kinds == ["time", "times", "offsets"]
    assert batch(startingOffsets='{"t": {"1": -2, "0": 7}}').starting.each == (
        (("t", 0), 7),
        (("t", 1), -2),
    )


def test_offsets_are_taken_as_a_streams_progress_shows_them():
    text = '{"t": {"0": 7}, "@topicIds": {"t": "-vv8_f7_AAAAAAAAAAAAAA"}}'
    assert batch(startingOffsets=text).starting.each == ((("t", 0), 7),)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing: give host:port"),
        ({"kafka.bootstrap.servers": "a"}, "kafka.bootstrap.servers holds 'a', expected host:port"),
        ({"kafka.bootstrap.servers": "a:99999"}, "expected host:port"),
        ({"assign": "{}"}, "assign and subscribe given, expected exactly one"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"startingOffsets": "latest"}, r"startingOffsets cannot be latest \(-1\) in a batch"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "startingOffsets cannot be latest"),
        ({"endingOffsets": "Earliest"}, r"endingOffsets cannot be earliest \(-2\) in a batch"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets cannot be earliest"),
        ({"startingOffsets": "{"}, "startingOffsets is '{', which is not JSON"),
        ({"startingOffsets": "[1]"}, "startingOffsets is not of the form"),
        ({"startingOffsets": '{"t": {"0": 1.7}}'}, "startingOffsets is not of the form"),
        ({"startingOffsets": '{"t": {"0": "1"}}'}, "startingOffsets is not of the form"),
        ({"startingOffsets": '{"t": {"0": Infinity}}'}, "startingOffsets is not of the form"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "startingOffsets holds -3"),
        ({"startingTimestamp": "-1"}, "startingTimestamp is '-1', expected a whole number"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss is 'yes', expected one of true, false"),
        ({"minPartitions": "0"}, "minPartitions is '0', expected a whole number of at least 1"),
        ({"kafka.isolation.level": "strict"}, "kafka.isolation.level is 'strict'"),
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol is TLS, expected one of"),
        ({"kafka.ssl.truststore.location": "x"}, "kafka.ssl.truststore.location is given, but"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "is given, but kafka.security.protocol is PLAINTEXT"),
        ({"kafka.auto.offset.reset": "latest"}, "not supported: use startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "Spark keeps the offsets"),
        (
            {"kafka.partitioner.class": "x"},
            "partitioner.class is not supported: .* partition",
        ),
        ({"startingOffset": "latest"}, "no option startingOffset: did you mean startingOffsets"),
    ],
)
def test_a_refusal_names_the_option_and_the_cure(options, words):
    with pytest.raises(BadOption, match=words):
        batch(**options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(BadOption, match=f"{name} cannot be used here: a stream has no end"):
        source_options(BASE | {name: "5"}, streaming=True)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ({"assign": "{}"}, "assign names no partition"),
        ({"assign": '{"t": 5}'}, "assign names no partition, expected JSON"),
        ({"assign": '{"t": "12"}'}, "assign names no partition, expected JSON"),
        ({"assign": '{"t": [0, 0.5]}'}, "assign names no partition, expected JSON"),
        ({"assign": '{"t": [0, true]}'}, "assign names no partition, expected JSON"),
        ({"subscribePattern": "("}, r"subscribePattern '\(' is no regular expression"),
        ({"subscribePattern": ""}, "subscribePattern is empty"),
        ({}, "no topic given, expected exactly one"),
    ],
)
def test_a_strategy_that_names_nothing(strategy, words):
    with pytest.raises(BadOption, match=words):
        source_options({"kafka.bootstrap.servers": "a:1", **strategy}, streaming=False)


def test_tuning_of_the_java_client_is_let_pass():
    batch(**{"kafka.fetch.min.bytes": "1", "kafka.group.id": "x", "groupIdPrefix": "y"})


def test_without_any_option_it_is_said_what_works_in_sql():
    """Spark drops the OPTIONS of CREATE TABLE and passes none to the source."""
    for read in (lambda: source_options({}, streaming=False), lambda: sink_options({})):
        with pytest.raises(BadOption, match=r"CREATE TABLE .* WITH \(.*CREATE TEMPORARY VIEW"):
            read()


def stream(**options):
    return source_options(BASE | options, streaming=True)


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [("5", 5), ("5ms", 5), ("30s", 30_000), ("15m", 900_000), (" 2 H", 7_200_000), ("2000us", 2)],
)
def test_limits_of_a_trigger_are_as_spark_writes_them(text, delay_ms):
    assert stream(maxTriggerDelay=text).trigger_delay_ms_max == delay_ms
    assert stream().trigger_delay_ms_max == 15 * 60_000
    found = stream(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5")
    assert (found.offsets_per_trigger_min, found.offsets_per_trigger_max) == (5, 5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxTriggerDelay": "5 weeks"}, "maxTriggerDelay is '5 weeks', expected a duration"),
        ({"maxTriggerDelay": "-5s"}, "maxTriggerDelay is '-5s'"),
        ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "is 6, above max.*, 5"),
    ],
)
def test_limits_of_a_trigger_are_checked_for_a_stream_only(options, words):
    with pytest.raises(BadOption, match=words):
        stream(**options)
    assert batch(**options).offsets_per_trigger_min is None


def test_a_sink_is_told_topic_codec_and_size():
    found = sink_options(BASE | {"topic": "t", "kafka.compression.type": "LZ4"})
    assert (found.topic, found.codec, found.acks, found.deduplicate) == ("t", 3, -1, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.acks": "1"}, "kafka.acks is 1, but"),
        ({"kafka.compression.type": "brotli"}, "kafka.compression.type is 'brotli', expected one"),
        ({"kafka.transactional.id": "x"}, "kafka.transactional.id cannot be used here"),
        ({"exactlyOnce": "yes"}, "exactlyOnce is 'yes', expected one of true, false"),
        ({"exactlyOnce": "true", "deduplicate": "true"}, "deduplicate cannot be used here"),
        ({"kafka.transaction.timeout.ms": "9"}, "belongs to exactlyOnce=true, which is not given"),
        ({"decisionTopic": "d"}, "decisionTopic cannot be used here"),
        (
            {"kafka.partitioner.class": "x"},
            "partitioner.class is not supported: .* partition",
        ),
        ({"kafka.partitioner.ignore.keys": "true"}, "but equal keys share a partition"),
        ({"Topics": "t"}, r"there is no option Topics: did you mean topic\?"),
        ({"kafka.key.serializer": "x"}, "kafka.key.serializer is not supported"),
    ],
)
def test_a_sink_refuses(options, words):
    with pytest.raises(BadOption, match=words):
        sink_options(BASE | options)


def test_a_sink_is_told_how_to_write_exactly_once():
    found = sink_options(BASE | {"exactlyOnce": "True"})
    assert (found.exactly_once, found.transaction_timeout_ms) == (True, 900_000)
    assert found.decision_topic == "barnabas-sink-decisions"
    assert not sink_options(BASE).exactly_once
    named = {"exactlyOnce": "true", "decisionTopic": "d", "kafka.transaction.timeout.ms": "5"}
    found = sink_options(BASE | named)
    assert (found.decision_topic, found.transaction_timeout_ms) == ("d", 5)


@pytest.mark.parametrize("name", ["path", "paths"])
def test_files_are_reached_through_a_broker(name):
    """Spark adds these options for load(PATH) and save(PATH)."""
    words = f"{name} is not supported: files are read .* `barnabas serve --read-only` serves"
    for read in (batch, stream, lambda **more: sink_options(BASE | more)):
        with pytest.raises(BadOption, match=words):
            read(**{name: "/data"})
