"""The pipeline `report`: its figures for known records."""

from __future__ import annotations

import io
import json

import pytest
from test_group_lag import commit
from topics import Topic

from pyspark_barnabas.jobs import cli
from pyspark_barnabas.jobs.report import exactly
from pyspark_barnabas.offsets import Range
from pyspark_barnabas.wire.encode import Record

MINUTE = 60_000


def pipeline(spark, *words):
    stdout, stderr = io.StringIO(), io.StringIO()
    words = ["report", "--quiet", *map(str, words)]
    code = cli.main(words, spark=spark, stdout=stdout, stderr=stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def fill(topic):
    """900 records in two of three partitions, a hundred a minute; a third have key `hot`."""
    for number in range(9):
        made = [
            Record(None if i == 7 else b"hot" if i % 3 == 0 else b"%d-%d" % (number, i),
                   b"value " * 20, number * MINUTE + i)
            for i in range(100)
        ]  # fmt: skip
        topic.append(number % 2, made, codec=number % 5)


@pytest.mark.spark
def test_the_figures_are_those_of_the_records(spark, broker, tmp_path, monkeypatch):
    with Topic(broker.address) as topic:
        fill(topic)
        commit(topic.cluster, monkeypatch, f"g-{topic.name}", topic.name, {0: 450, 1: 400})
        page = tmp_path / "page.html"
        words = ("--bootstrap", broker.address, "--topic", topic.name, "--to", page)
        code, said, _ = pipeline(spark, *words, "--json")
        assert code == 0
        found = json.loads(said)
    assert (found["records"], found["batches"], found["source"]) == (900, 9, broker.address)
    assert [row["records"] for row in found["partitions"]] == [500, 400, 0]
    assert found["times"]["records"] == [100] * 9
    assert sum(found["times"]["bytes"]) == found["bytes"]
    assert {row["codec"] for row in found["codecs"]} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert found["compression_ratio"] > 2
    keys = found["keys"]
    assert (keys["records"], keys["without_key"], keys["distinct"]) == (900, 9, 1 + 9 * 65)
    assert keys["top"][0] == {
        "topic": topic.name, "key": "hot", "records": 306, "share": 0.34,
    }  # fmt: skip
    assert [group for group in found["groups"] if topic.name in group["group"]] == [
        {"group": f"g-{topic.name}", "topic": topic.name, "lag": 50, "partitions": 2, "lag_max": 50}
    ]
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.spark
def test_a_person_reads_what_fits_on_a_screen(spark, topic, tmp_path):
    fill(topic)
    page = tmp_path / "page.html"
    words = ("--bootstrap", topic.address, "--topic", topic.name, "--to", page)
    late = ("startingTimestamp=60000", "startingOffsetsByTimestampStrategy=latest")
    options = [word for text in late for word in ("--option", text)]
    code, said, _ = pipeline(spark, *words, "--no-keys", *options)
    assert code == 0
    lines = said.splitlines()
    assert lines[0].startswith("800 records in 8 batches, ")
    assert lines[1] == (
        "From 1970-01-01 00:01 UTC to 1970-01-01 00:08 UTC; at most 100 records in one minute."
    )
    assert [line.split()[:2] for line in lines[4:7]] == [
        [f"{topic.name}-0", "400"], [f"{topic.name}-1", "400"], [f"{topic.name}-2", "0"],
    ]  # fmt: skip
    assert "key" not in said
    assert f"Wrote {page}" in lines


def test_ranges_become_options_of_the_same_source():
    kept = {"kafka.bootstrap.servers": "a:1", "failOnDataLoss": "false"}
    given = kept | {"subscribe": "a,b", "startingTimestamp": "5"}
    assert exactly(given, [Range("a", 0, 3, 9), Range("b", 1, 0, 2)]) == kept | {
        "assign": '{"a": [0], "b": [1]}',
        "startingOffsets": '{"a": {"0": 3}, "b": {"1": 0}}',
        "endingOffsets": '{"a": {"0": 9}, "b": {"1": 2}}',
    }  # fmt: skip
