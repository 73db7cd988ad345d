"""Whole configurations: precedence of sources, refusals, and warnings."""

import pytest

from config.errors import ConfigError
from config.keys import HOUR_MS, MINUTE_MS
from config.load import load
from config.sources import COMMAND_VARIABLES, Source

# The keys of the server.properties that Kafka 4.3 ships, with one directory instead of two.
KAFKAS_OWN = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "server.properties"
        path.write_text(text)
        return str(path)

    return written


def test_no_settings_give_the_defaults():
    loaded = load()
    assert loaded.config.data_directory == "data"
    assert loaded.config.topic_defaults.retention_ms == 7 * 24 * HOUR_MS
    assert (loaded.warnings, loaded.without_effect) == ((), ())
    assert loaded.origin("log.retention.hours").source is Source.DEFAULT


def test_a_kafkas_file_works_without_a_warning(write):
    loaded = load(file=write(KAFKAS_OWN))
    assert loaded.warnings == ()
    assert [str(listener) for listener in loaded.config.served_listeners] == ["PLAINTEXT://:9092"]
    assert loaded.config.num_recovery_threads_per_data_dir == 1
    assert "controller.quorum.bootstrap.servers" in loaded.without_effect
    assert "num.partitions" not in loaded.without_effect


SOURCES = [
    ("num.partitions=2", {}, [], 2, Source.FILE),
    ("num.partitions=2", {"KAFKA_NUM_PARTITIONS": "3"}, [], 3, Source.ENVIRONMENT),
    (
        "num.partitions=2",
        {"KAFKA_NUM_PARTITIONS": "3"},
        ["num.partitions=4"],
        4,
        Source.COMMAND_LINE,
    ),
    ("", {}, ["num.partitions=4", "num.partitions=5"], 5, Source.COMMAND_LINE),
]


@pytest.mark.parametrize(("file", "environment", "sets", "value", "source"), SOURCES)
def test_the_stronger_source_wins_and_is_remembered(write, file, environment, sets, value, source):
    loaded = load(file=write(file), environment=environment, set_values=sets)
    assert loaded.config.num_partitions == value
    assert loaded.origin("num.partitions").source is source


RETENTION = [
    ("log.retention.hours=1", {}, [], HOUR_MS),
    ("log.retention.hours=1\nlog.retention.minutes=2", {}, [], 2 * MINUTE_MS),
    ("log.retention.ms=3\nlog.retention.hours=1\nlog.retention.minutes=2", {}, [], 3),
    ("log.retention.ms=3", {"KAFKA_LOG_RETENTION_HOURS": "1"}, [], HOUR_MS),
    ("log.retention.ms=3", {"KAFKA_LOG_RETENTION_HOURS": "1"}, ["log.retention.minutes=-1"], -1),
]


@pytest.mark.parametrize(("file", "environment", "sets", "retention_ms"), RETENTION)
def test_synonyms_are_ordered_by_source_and_then_by_rank(
    write, file, environment, sets, retention_ms
):
    loaded = load(file=write(file), environment=environment, set_values=sets)
    assert loaded.config.topic_defaults.retention_ms == retention_ms


@pytest.mark.parametrize(
    ("file", "data_dir", "directory"),
    [
        ("", None, "data"),
        ("log.dir=/a", None, "/a"),
        ("log.dir=/a\nlog.dirs=/b", None, "/b"),
        ("log.dir=/a\nlog.dirs=/b", "/c", "/c"),
    ],
)
def test_the_data_directory(write, file, data_dir, directory):
    assert load(file=write(file), data_dir=data_dir).config.data_directory == directory


def test_an_unknown_key_on_the_command_line_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions\?.*from --set"):
        load(set_values=["num.partition=3"])


def test_an_unknown_key_in_a_file_causes_a_warning(write):
    loaded = load(file=write("num.partition=3"))
    assert [one for one in loaded.warnings if "did you mean num.partitions?" in one] != []


def test_the_commands_own_variables_are_no_misspelt_keys():
    assert load(environment=dict.fromkeys(COMMAND_VARIABLES, "127.0.0.1:9092")).warnings == ()


def test_topics_get_their_defaults_from_the_brokers_keys():
    names = [
        "write.caching=true",
        "internal.segment.bytes=77",
        "message.max.bytes=5",
        "log.preallocate=true",
        "log.cleanup.policy=compact",
        "log.flush.scheduler.interval.ms=9",
    ]
    loaded = load(set_values=names)
    topic = loaded.config.topic_defaults
    assert topic.write_caching is True
    assert topic.internal_segment_bytes == 77
    assert topic.max_message_bytes == 5
    assert topic.preallocate is True
    assert topic.cleanup_policy == ("compact",)
    assert topic.flush_ms == loaded.config.log_flush_scheduler_interval_ms == 9
    assert loaded.without_effect == ("log.preallocate",)


REFUSED = [
    ("log.segment.bytes=1000", "log.segment.bytes", "1000", "1048576 or more"),
    ("num.partitions=many", "num.partitions", "many", "1 or more"),
    ("log.retention.hours=0", "log.retention.hours", "0", "1 or more, or -1 for no limit"),
    ("log.dirs=/a,/b", "log.dirs", "/a,/b", "exactly one directory"),
    ("log.dir=/a,/b", "log.dir", "/a,/b", "exactly one directory"),
    ("listeners=SASL_TLS://:1", "listeners", "SASL_TLS://:1", "PLAINTEXT"),
    ("queued.max.request.bytes=5", "queued.max.request.bytes", "5", "-1, 0, or"),
    ("node.id=1\nbroker.id=2", "broker.id", "2", "the same number"),
    (
        "log.cleaner.max.compaction.lag.ms=1\nlog.cleaner.min.compaction.lag.ms=2",
        "log.cleaner.min.compaction.lag.ms",
        "2",
        "",
    ),
]


@pytest.mark.parametrize(("text", "key", "value", "allowed"), REFUSED)
def test_a_bad_value_is_refused_with_key_value_place_and_allowed_values(
    write, text, key, value, allowed
):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        load(file=path)
    error = caught.value
    line = text.count("\n") + 1
    assert (error.key, error.value, error.source) == (key, value, f"{path}:{line}")
    assert allowed in error.allowed


WARNED = [
    ("log.retenton.ms=5", "did you mean log.retention.ms?"),
    ("retention.ms=5", "it is a topic's key; the broker's is log.retention.ms"),
    ("remote.storage.enable=false", "no key of the broker gives its default"),
    ("zzzz=5", "zzzz is unknown and ignored"),
    ("ssl.engine.factory.class=a", "has no effect: delegation tokens, Kerberos and Java"),
    ("sasl.jaas.config=a", "has no effect: name the listener and the mechanism"),
]


@pytest.mark.parametrize(("text", "warning"), WARNED)
def test_an_unusual_setting_causes_a_warning_but_starts(write, text, warning):
    loaded = load(file=write(text))
    assert len(loaded.warnings) == 1
    assert warning in loaded.warnings[0]


def test_a_dynamic_value_applies_and_keeps_the_static_one():
    loaded = load(set_values=["log.retention.hours=1", "message.max.bytes=5"])
    changed = loaded.with_dynamic({"log.retention.ms": "9", "message.max.bytes": "6"})
    restored = changed.with_dynamic({})
    assert changed.config.topic_defaults.retention_ms == 9
    assert changed.config.topic_defaults.max_message_bytes == 6
    assert changed.origin("log.retention.hours").source is Source.DYNAMIC
    assert restored.config == loaded.config
    assert restored.origin("message.max.bytes").source is Source.COMMAND_LINE


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"log.retention.hours": "1"}, "cannot be changed"),
        ({"node.id": "2"}, "cannot be changed"),
        ({"retention.ms": "1"}, "unknown broker config name"),
        ({"log.segment.bytes": "5"}, "not allowed"),
    ],
)
def test_a_bad_dynamic_value_is_refused(values, reason):
    with pytest.raises(ConfigError, match=reason):
        load().with_dynamic(values)


def test_unusable_recorded_values_are_skipped_with_the_reason():
    values = {
        "log.retention.ms": "9",
        "num.partitions": "3",
        "log.segment.bytes": "x",
        "foo.bar": "1",
        "background.threads": "5",
        "message.max.bytes": "6",
    }
    loaded, reasons = load().with_usable_dynamic(values)
    assert loaded.config.topic_defaults.retention_ms == 9
    assert loaded.config.topic_defaults.max_message_bytes == 6
    assert [reason.partition("=")[0] for reason in reasons] == [
        "num.partitions",
        "log.segment.bytes",
        "foo.bar",
    ]
    assert loaded.with_usable_dynamic({}) == (load(), [])


TLS = ["listeners=SSL://127.0.0.1:1", "ssl.certificate=c.pem", "ssl.key=k.pem"]
RECORDED = {
    "listener.name.ssl.ssl.client.auth": "required",
    "listener.name.ssl.ssl.truststore.location": "t.pem",
    "max.connections": "many",
}


def test_an_unusable_recorded_value_does_not_open_a_listener() -> None:
    loaded, reasons = load(set_values=TLS).with_usable_dynamic(RECORDED)
    assert len(reasons) == 1
    assert loaded.config.tls["SSL"].client_auth == "required"
    assert loaded.config.tls["SSL"].truststore_location == "t.pem"


def test_a_recorded_wish_for_certificates_that_cannot_be_met_is_an_error() -> None:
    del (values := dict(RECORDED))["listener.name.ssl.ssl.truststore.location"]
    with pytest.raises(ConfigError, match=r"client\.auth was set while .* nothing is trusted"):
        load(set_values=TLS).with_usable_dynamic(values)


def test_what_a_file_changes_is_told_apart_by_when_it_takes_effect(write) -> None:
    before = load(file=write("message.max.bytes=1\nnum.io.threads=8\nx.y=1\nlog.retention.ms=5\n"))
    other = load(file=write("\nmessage.max.bytes=4\nnum.io.threads=9\nx.y=2\n"))
    assert before.changed(other) == (["log.retention.ms", "message.max.bytes"], ["num.io.threads"])
    after = before.with_static(other, before.changed(other)[0])
    assert (after.config.topic_defaults.max_message_bytes, after.config.num_io_threads) == (4, 8)
    assert after.config.topic_defaults.retention_ms == load().config.topic_defaults.retention_ms
    assert after.changed(other) == ([], ["num.io.threads"])
    assert str(after.static["message.max.bytes"].origin).endswith(":2")


def test_a_file_read_again_leaves_values_set_at_run_time(write) -> None:
    before = load(file=write("message.max.bytes=1\n")).with_dynamic({"message.max.bytes": "7"})
    other = load(file=write("message.max.bytes=4\n"))
    after = before.with_static(other, ["message.max.bytes"])
    assert after.config.topic_defaults.max_message_bytes == 7
    assert after.with_dynamic({}).config.topic_defaults.max_message_bytes == 4


def test_changes_that_do_not_fit_what_stays_are_refused(write) -> None:
    before = load(file=write(""))
    other = load(
        file=write("max.connections.per.ip=0\nmax.connections.per.ip.overrides=127.0.0.1:3\n")
    )
    with pytest.raises(ConfigError, match="no client could connect"):
        before.with_static(other, ["max.connections.per.ip"])
