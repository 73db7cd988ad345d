"""The generated pages list every key, and the sample sets none."""

import pytest

from config.broker import BrokerConfig
from config.known_keys import known_names
from config.load import load
from config.properties import parse_properties
from config.render import main, page, sample
from config.resources import CLIENT_METRICS_KEYS, GROUP_KEYS
from config.topic import topic_keys
from tests.support.kafka_keys import rows


def test_the_page_names_every_known_key():
    text = page()
    names = known_names() | set(topic_keys()) | {row.name for row in rows("broker")}
    names |= set(GROUP_KEYS) | set(CLIENT_METRICS_KEYS)
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


def test_the_page_marks_defaults_that_differ_from_kafkas():
    both = "PLAINTEXT://127.0.0.1:9092,MSGPACK://127.0.0.1:9094"
    assert f"| `{both}` (Kafka: PLAINTEXT://:9092) |" in page()


def test_every_row_of_a_table_has_the_columns_of_its_header():
    lines = page().splitlines()
    tables = [line for line in lines if line.startswith("|")]
    cells = 0
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("|"):
            count = line.replace("\\|", "").count("|")
            assert not before.startswith("|") or count == cells, line
            cells = count
    assert len(tables) > 60


def test_the_unchanged_sample_sets_nothing(tmp_path):
    path = tmp_path / "server.properties"
    main(["sample", str(path)])
    loaded = load(file=str(path))
    assert loaded.config == BrokerConfig()
    assert loaded.settings == {}


def test_the_uncommented_sample_sets_the_defaults(tmp_path):
    lines = [line.removeprefix("#") for line in sample().splitlines() if "=" in line]
    given = [line for line in lines if not line.startswith(" ") and not line.endswith("=")]
    path = tmp_path / "server.properties"
    path.write_text("\n".join(given))
    loaded = load(file=str(path))
    assert len(parse_properties(path.read_text())) == len(given) > 50
    assert loaded.config == BrokerConfig()
    assert loaded.warnings == ()


def test_an_unknown_page_is_refused(tmp_path):
    with pytest.raises(KeyError):
        main(["nothing", str(tmp_path / "x")])
