"""Settings from a file, the environment and the command line, and their precedence."""

import pytest

from config.errors import ConfigError
from config.known_keys import is_known, known_names
from config.sources import (
    Origin,
    Setting,
    Source,
    closest,
    from_command_line,
    from_environment,
    from_file,
    key_of_variable,
    pick,
    strongest,
    variable_of_key,
)

# The rule of the apache/kafka image: _ is a dot, __ an underscore, ___ a dash.
VARIABLES = [
    ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
    ("BARNABAS_NODE_ID", "node.id"),
    ("KAFKA_A__B", "a_b"),
    ("KAFKA_A___B_C", "a-b.c"),
]
# Variables that are common around brokers in images, shells and clusters, not misspelt keys.
FOREIGN = [
    "KAFKA_HEAP_OPTS",
    "KAFKA_OPTS",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
    "KAFKA_HOME",
    "KAFKA_DEBUG",
    "KAFKA_PORT",
    "KAFKA_SERVICE_HOST",
    "KAFKA_SERVICE_PORT",
    "KAFKA_PORT_9092_TCP_ADDR",
    "KAFKA_CLUSTER_ID",
    "KAFKA_ZOOKEEPER_CONNECT",
    "PATH",
]


@pytest.mark.parametrize(("variable", "key"), VARIABLES)
def test_a_variable_names_a_key(variable, key):
    assert key_of_variable(variable) == key
    assert variable_of_key(key, variable.partition("_")[0] + "_") == variable


def read(environment):
    return from_environment(environment, is_known, known_names())


@pytest.mark.parametrize("variable", FOREIGN)
def test_a_foreign_variable_sets_nothing_and_causes_no_warning(variable):
    assert read({variable: "tcp://10.0.0.1:9092"}) == ([], [])


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("KAFKA_LOG_RETENTION_HOUR", "KAFKA_LOG_RETENTION_HOURS"),
        ("KAFKA_ADVERTISED_LISTENER", "KAFKA_ADVERTISED_LISTENERS"),
        ("BARNABAS_LOG_FROMAT", "BARNABAS_LOG_FORMAT"),
        ("BARNABAS_LOG_DIRECTORIES", "BARNABAS_LOG_DIR"),
    ],
)
def test_a_misspelt_variable_causes_a_warning(variable, hint):
    settings, (warning,) = read({variable: "1"})
    assert settings == []
    assert variable in warning
    assert hint in warning


def test_an_unknown_variable_with_our_prefix_causes_a_warning_even_without_a_similar_key():
    assert len(read({"BARNABAS_QQQQQQ": "1"})[1]) == 1


@pytest.mark.parametrize("variable", ["BARNABAS_LOG_FORMAT", "BARNABAS_BARNABAS_LOG_FORMAT"])
def test_our_own_keys_may_omit_their_first_word(variable):
    ((name, text, origin),), _ = read({variable: "json"})
    assert (name, text) == ("barnabas.log.format", "json")
    assert origin == Origin(Source.ENVIRONMENT, variable)


def test_our_prefix_takes_precedence_over_kafkas():
    environment = {"BARNABAS_NODE_ID": "7", "KAFKA_NODE_ID": "8", "KAFKA_NUM_PARTITIONS": "2"}
    held = strongest(read(environment)[0])
    assert {name: setting.text for name, setting in held.items()} == {
        "node.id": "7",
        "num.partitions": "2",
    }


def test_a_file_is_read_with_line_numbers(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("# head\nnode.id=1\nnum.partitions=2\nnode.id=3\n")
    settings, (warning,) = from_file(str(path))
    assert {(setting.name, setting.text, str(setting.origin)) for setting in settings} == {
        ("node.id", "3", f"{path}:4"),
        ("num.partitions", "2", f"{path}:3"),
    }
    assert f"{path}:4: node.id replaces its value from {path}:2" == warning


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.properties cannot be read: No such file"):
        from_file(str(tmp_path / "nothing.properties"))


def test_the_command_line():
    settings = from_command_line(["a=1", "b = x=y", "a=2", "c="], "/d")
    held = strongest(settings)
    assert {name: setting.text for name, setting in held.items()} == {
        "a": "2",
        "b": " x=y",
        "c": "",
        "log.dirs": "/d",
    }
    assert str(held["log.dirs"].origin) == "--data"


@pytest.mark.parametrize("assignment", ["", "a", "=1", " =1"])
def test_an_assignment_without_key_or_equals_is_refused(assignment):
    with pytest.raises(ConfigError, match="not KEY=VALUE"):
        from_command_line([assignment], None)


def given(name, source):
    return Setting(name, f"{name} by {source.name}", Origin(source, ""))


def test_the_stronger_source_wins_in_any_order():
    settings = [given("a", source) for source in Source]
    assert strongest(settings)["a"].origin.source is Source.DYNAMIC
    assert strongest(reversed(settings))["a"].origin.source is Source.DYNAMIC


@pytest.mark.parametrize(
    ("sources", "picked"),
    [
        ({}, None),
        ({"hours": Source.FILE}, "hours"),
        ({"hours": Source.FILE, "ms": Source.FILE}, "ms"),
        ({"hours": Source.COMMAND_LINE, "ms": Source.FILE}, "hours"),
    ],
)
def test_the_source_decides_between_synonyms_and_then_the_name(sources, picked):
    held = {name: given(name, source) for name, source in sources.items()}
    setting = pick(held, ["ms", "hours"])
    assert (setting.name if setting else None) == picked


@pytest.mark.parametrize(
    ("name", "near"),
    [("num.partition", "num.partitions"), ("log.retenton.ms", "log.retention.ms"), ("zzz", "")],
)
def test_the_closest_name(name, near):
    assert closest(name, known_names()) == near
