"""The pipeline `latest`: the newest value of every key."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from topics import Topic

from pyspark_barnabas.jobs import cli
from pyspark_barnabas.wire.encode import Record

pytestmark = pytest.mark.spark


def pipeline(spark, *words):
    stdout, stderr = io.StringIO(), io.StringIO()
    words = ["latest", "--quiet", *map(str, words)]
    code = cli.main(words, spark=spark, stdout=stdout, stderr=stderr)
    return code, stdout.getvalue(), stderr.getvalue()


def values(spark, out):
    found = spark.read.parquet(str(out)).select("key", "value", "partition", "offset").collect()
    return {bytes(row.key): (bytes(row.value), row.partition, row.offset) for row in found}


def test_the_newest_value_of_every_key(spark, topic, tmp_path):
    """Timestamps descend within a partition: there the offset decides, elsewhere the time."""
    topic.append(0, [Record(b"a", b"1", 900), Record(b"b", b"1", 800), Record(b"a", b"2", 100)])
    topic.append(0, [Record(b"c", b"1", 50), Record(b"b", None, 60), Record(None, b"x", 70)])
    topic.append(1, [Record(b"a", b"3", 200), Record(b"d", b"1", 5), Record(b"d", b"", 4)])
    topic.append(2, [Record(b"a", b"4", 150), Record(b"b", b"old", 10)])
    out = tmp_path / "out"
    words = ("--bootstrap", topic.address, "--topic", topic.name, "--to", out)
    code, said, told = pipeline(spark, *words)
    assert (code, said) == (1, "")
    assert told == (
        f"barnabas-pipeline: {topic.name}-0 has a record without a key at offset 5, and latest "
        "goes by key: leave such records out with --keyless skip\n"
    )
    code, said, _ = pipeline(spark, *words, "--keyless", "skip", "--overwrite", "--json")
    assert code == 0
    found = json.loads(said)
    assert {name: found[name] for name in ("records", "keyless", "keys", "tombstones", "rows")} == {
        "records": 11, "keyless": 1, "keys": 4, "tombstones": 1, "rows": 3,
    }  # fmt: skip
    assert found["keys_in_several_partitions"] == 2
    newest = {b"a": (b"3", 1, 0), b"c": (b"1", 0, 3), b"d": (b"", 1, 2)}
    assert values(spark, out) == newest
    code, said, told = pipeline(spark, *words)
    refusal = "choose a new directory with --to, or pass --overwrite"
    assert (code, told) == (2, f"barnabas-pipeline: {out} exists: {refusal}\n")
    code, said, _ = pipeline(spark, *words, "--keyless", "skip", "--overwrite")
    assert "11 records of 4 keys; 1 of these are deleted by a tombstone.\n" in said
    assert values(spark, out) == newest


@pytest.mark.thorough
def test_many_batches_of_all_codecs_and_with_headers(spark, broker, tmp_path):
    with Topic(broker.address) as topic:
        for first in range(0, 3000, 100):
            records = [
                Record(b"%d" % (i % 700), b"%d" % i, i, [("h", b"x")])
                for i in range(first, first + 100)
            ]
            topic.append(first // 100 % 3, records, codec=first // 100 % 5)
        out = tmp_path / "out"
        words = ("--bootstrap", broker.address, "--topic", topic.name, "--to", out)
        assert pipeline(spark, *words, "--option", "includeHeaders=true")[0] == 0
    found = values(spark, out)
    assert len(found) == 700
    assert {int(value) for value, _, _ in found.values()} == set(range(2300, 3000))
    assert spark.read.parquet(str(out)).where("size(headers) = 1").count() == 700
    assert len([name for name in os.listdir(out) if name.endswith(".parquet")]) >= 1


def test_an_unknown_topic_is_one_line_and_writes_nothing(spark, broker, tmp_path):
    out = Path(tmp_path / "out")
    code, said, told = pipeline(
        spark, "--bootstrap", broker.address, "--topic", "nowhere", "--to", out
    )
    assert (code, said) == (1, "")
    assert told.startswith("barnabas-pipeline: there is no nowhere on this cluster. Check the opt")
    assert not out.exists()
