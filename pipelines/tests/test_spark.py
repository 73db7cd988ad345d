"""The format in a real session of Spark: found by its name, read, streamed, written, restarted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from files import copy_directory

from pyspark_barnabas.datasource import COLUMNS
from pyspark_barnabas.encode import Record
from pyspark_barnabas.offline import damage_schema

pytestmark = pytest.mark.spark
PIPELINES = Path(__file__).parents[1]


def load(spark, topic, schema=None, **options):
    reader = spark.read.format("barnabas").options(**topic.options(**options))
    return (reader.schema(schema) if schema else reader).load()


def fill(topic, count, first=0):
    records = [
        Record(b"k%d" % (i % 7), b"%d" % i, 1000 + i, [("h", b"x")] if i % 2 else [])
        for i in range(first, first + count)
    ]
    for partition in range(3):
        topic.append(partition, records[partition::3], codec=partition)


def numbers(frame):
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_the_columns_are_what_spark_expects_of_arrow(spark):
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType()
    for name, kind in COLUMNS.items():
        schema = schema.add(name, kind)
    assert damage_schema(list(COLUMNS)).equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_batch_is_read_with_all_columns_or_with_few(spark, topic):
    fill(topic, 300)
    frame = load(spark, topic, includeHeaders="true")
    assert frame.columns == [name for name in COLUMNS if name != "damage"]
    assert numbers(frame) == list(range(300))
    assert frame.where("headers is not null").count() == 150
    assert frame.groupBy("key").count().count() == 7
    few = load(spark, topic, "offset long, partition int")
    assert few.selectExpr("max(offset)", "count(*)").collect()[0][:] == (99, 300)
    assert load(spark, topic, endingOffsets=json.dumps({topic.name: dict.fromkeys("012", 0)})
                ).count() == 0  # fmt: skip


def test_a_directory_is_read_without_its_broker(spark, topic, broker, tmp_path):
    fill(topic, 300)
    copy = tmp_path / "copy"
    copy_directory(broker.data, copy)
    reader = spark.read.format("barnabas").option("subscribe", topic.name)
    wire = load(spark, topic, includeHeaders="true")
    files = reader.option("includeHeaders", "true").load(str(copy))
    assert files.schema == wire.schema
    assert sorted(files.collect(), key=repr) == sorted(wire.collect(), key=repr)
    path = copy / f"{topic.name}-1" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-3] + b"xyz")
    with pytest.raises(Exception, match=f"DamagedLog.*{path} at position 0: checksum.*onDamage"):
        files.count()
    rows = reader.option("onDamage", "rows").load(str(copy))
    assert numbers(rows.where("damage is null")) == [n for n in range(300) if n % 3 != 1]
    (told,) = rows.where("damage is not null").collect()
    assert (told.topic, told.partition, told.offset, told.value) == (topic.name, 1, 0, None)
    assert told.damage.file == str(path)
    assert reader.option("onDamage", "skip").load(str(copy)).count() == 200


def test_a_directory_is_not_streamed_and_not_written(spark, topic, tmp_path):
    stream = spark.readStream.format("barnabas").option("subscribe", "t").load(str(tmp_path))
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match=r"path cannot be used here: .* stream from its broker"):
        query.start().awaitTermination()
    with pytest.raises(Exception, match=r"path cannot be used here: .* is only read"):
        spark.range(1).selectExpr("'x' value").write.format("barnabas").mode("append").options(
            **topic.options(topic=topic.name)
        ).save(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "schema", "words"),
    [
        ({"subscribe": "nowhere"}, None, "there is no nowhere on this cluster"),
        ({"startingOffsets": "{"}, None, "startingOffsets is '{', which is no JSON"),
        ({"kafka.security.protocol": "SSL"}, None, "kafka.security.protocol is SSL"),
        ({}, "offset string", "the schema has offset string; a topic has key binary"),
    ],
)
def test_an_error_reaches_the_user_with_its_words(spark, topic, options, schema, words):
    with pytest.raises(Exception, match=words):
        load(spark, topic, schema, **options).count()


def test_rows_of_a_wrong_type_are_refused_before_anything_is_written(spark, topic):
    frame = spark.range(3)
    for query, words in [
        (frame.selectExpr("id value"), "the column value is bigint, wanted BinaryType or String"),
        (frame, "the column value is missing; there are id"),
        (frame.selectExpr("'x' value", "id headers"), "the column headers is bigint"),
    ]:
        with pytest.raises(Exception, match=words):
            (
                query.write.format("barnabas").mode("append")
                .options(**topic.options(topic=topic.name)).save()
            )  # fmt: skip
    assert load(spark, topic).count() == 0


def copy(spark, source, target, directory, **options):
    """Copy a topic by a stream that ends at what there is; return the rows of each micro-batch."""
    query = (
        spark.readStream.format("barnabas")
        .options(**source.options(startingOffsets="earliest", includeHeaders="true", **options))
        .load()
        .select("key", "value", "headers", "timestamp")
        .writeStream.format("barnabas")
        .options(**target.options(topic=target.name))
        .option("checkpointLocation", str(directory))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(progress.json)["numInputRows"] for progress in query.recentProgress]


def test_a_stream_copies_a_topic_and_goes_on_after_a_restart(spark, topic, broker, tmp_path):
    from topics import Topic

    fill(topic, 300)
    with Topic(broker.address) as target:
        assert copy(spark, topic, target, tmp_path) == [300]
        fill(topic, 60, first=300)
        assert copy(spark, topic, target, tmp_path) == [60]
        columns = ("key", "value", "headers", "timestamp")
        assert sorted(target.rows(columns), key=repr) == sorted(topic.rows(columns), key=repr)
