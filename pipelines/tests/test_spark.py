"""The format in a real Spark session: found by name, read, streamed, written, restarted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyspark_barnabas.columns import arrow_schema
from pyspark_barnabas.datasource import COLUMNS
from pyspark_barnabas.wire.encode import Record

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
    assert arrow_schema(list(COLUMNS)).equals(to_arrow_schema(schema, timezone="UTC"))


def test_a_batch_is_read_with_all_columns_or_with_few(spark, topic):
    fill(topic, 300)
    frame = load(spark, topic, includeHeaders="true")
    assert frame.columns == list(COLUMNS)
    assert numbers(frame) == list(range(300))
    assert frame.where("headers is not null").count() == 150
    assert frame.groupBy("key").count().count() == 7
    few = load(spark, topic, "offset long, partition int")
    assert few.selectExpr("max(offset)", "count(*)").collect()[0][:] == (99, 300)
    assert load(spark, topic, endingOffsets=json.dumps({topic.name: dict.fromkeys("012", 0)})
                ).count() == 0  # fmt: skip


@pytest.mark.parametrize(
    ("options", "schema", "words"),
    [
        ({"subscribe": "nowhere"}, None, "there is no nowhere on this cluster"),
        ({"startingOffsets": "{"}, None, "startingOffsets is '{', which is not JSON"),
        ({"kafka.security.protocol": "TLS"}, None, "kafka.security.protocol is TLS"),
        ({"path": "/data"}, None, "path is not supported: files are read .* serve --read-only"),
        ({}, "offset string", "the schema has offset string; a topic has key binary"),
    ],
)
def test_an_error_reaches_the_user_with_its_words(spark, topic, options, schema, words):
    with pytest.raises(Exception, match=words) as found:
        load(spark, topic, schema, **options).count()
    require_plain(found.value, words)


def require_plain(error, words):
    """Check that Spark's text begins with the cause and has no Python trace."""
    text = str(error)
    assert re.match(rf"[\[\]\w\s:]*pyspark_barnabas.wire.errors.*{words}", text), text
    assert "Traceback" not in text


def test_an_error_of_a_task_is_as_plain(spark, topic):
    topic.append(0, [Record(b"k", b"v", 1000, [("h", b"x")] * 9)])
    frame = load(spark, topic, includeHeaders="true", batchHeadersMax="8")
    rows = spark.sql("select 'x' value, array(named_struct('key', null, 'value', null)) headers")
    rows = rows.selectExpr("value", "cast(headers as array<struct<key:string,value:binary>>)")
    sink = rows.write.format("barnabas").mode("append").options(**to(topic))
    for call, words in [
        (frame.collect, "BatchTooLarge: .*batchHeadersMax"),
        (sink.save, "RecordsRefused: .*a header whose key is null"),
    ]:
        with pytest.raises(Exception, match=words) as found:
            call()
        require_plain(found.value, words)


def to(topic):
    return {"kafka.bootstrap.servers": topic.address, "topic": topic.name}


def test_rows_are_appended_and_spark_refuses_the_mode_that_is_its_own(spark, topic):
    """As docs/pyspark.md says; if Spark ever asks the source, that page is out of date."""
    frame = spark.range(3).selectExpr("cast(id as string) value")
    frame.write.format("barnabas").mode("append").options(**to(topic)).save()
    assert load(spark, topic).count() == 3
    with pytest.raises(Exception, match=r"UNSUPPORTED_DATA_SOURCE_SAVE_MODE.*Append"):
        frame.write.format("barnabas").options(**to(topic)).save()
    with pytest.raises(Exception, match=r"a log is only appended to, use mode\(.append.\)"):
        frame.write.format("barnabas").mode("overwrite").options(**to(topic)).save()


def test_a_frame_reads_what_it_was_planned_with_and_a_table_with_options_what_there_is(
    spark, topic, tmp_path
):
    """As docs/pyspark.md says."""
    given = ", ".join(f"`{name}` = '{value}'" for name, value in topic.options().items())
    spark.sql("create table barnabas_table using barnabas")
    try:
        fill(topic, 30)
        frame = load(spark, topic)
        counts = [frame.count()]
        fill(topic, 30, first=30)
        counts += [frame.count(), load(spark, topic).count()]
        found = f"select count(*) from barnabas_table with ({given})"
        counts.append(spark.sql(found).first()[0])
        fill(topic, 30, first=60)
        counts.append(spark.sql(found).first()[0])
        assert counts == [30, 30, 60, 60, 90]
        with pytest.raises(Exception, match=r"BadOption: no option is given.*TEMPORARY VIEW"):
            spark.sql("select * from barnabas_table").collect()
    finally:
        spark.sql("drop table barnabas_table")


def test_rows_of_a_wrong_type_are_refused_before_anything_is_written(spark, topic):
    frame = spark.range(3)
    for query, words in [
        (frame.selectExpr("id value"), "the column value is bigint, expected BinaryType or String"),
        (frame, "the column value is missing; there are id"),
        (frame.selectExpr("'x' value", "id headers"), "the column headers is bigint"),
    ]:
        with pytest.raises(Exception, match=words):
            (
                query.write.format("barnabas").mode("append")
                .options(**topic.options(topic=topic.name)).save()
            )  # fmt: skip
    assert load(spark, topic).count() == 0


def copy(spark, source, target, directory, sink=None, **options):
    """Copy a topic by a stream up to its current end; return the rows of each micro-batch."""
    query = (
        spark.readStream.format("barnabas")
        .options(**source.options(startingOffsets="earliest", includeHeaders="true", **options))
        .load()
        .select("key", "value", "headers", "timestamp")
        .writeStream.format("barnabas")
        .options(**target.options(topic=target.name), **(sink or {}))
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


def test_a_stream_with_exactly_once_is_seen_whole_and_goes_on_after_a_restart(
    spark, topic, broker, tmp_path
):
    from topics import Topic

    fill(topic, 300)
    sink = {"exactlyOnce": "true"}
    columns = ("key", "value", "headers", "timestamp")
    with Topic(broker.address) as target:
        steps = copy(spark, topic, target, tmp_path, sink, maxOffsetsPerTrigger="150")
        assert (sum(steps), len(steps)) == (300, 2)
        fill(topic, 60, first=300)
        assert copy(spark, topic, target, tmp_path, sink) == [60]
        found = target.rows(columns, kafka_isolation_level="read_committed")
        assert sorted(found, key=repr) == sorted(topic.rows(columns), key=repr)
        again = spark.read.format("barnabas").options(**target.options()).load()
        with pytest.raises(Exception, match="BadOption: exactlyOnce is for streams") as refused:
            (
                again.select("value").write.format("barnabas").mode("append")
                .options(**to(target), **sink).save()
            )  # fmt: skip
        require_plain(refused.value, "exactlyOnce is for streams")


def test_a_batch_that_was_decided_when_its_driver_died_is_written_once(
    spark, topic, broker, tmp_path
):
    """Spark's note that the batch is complete is gone, so it runs it again."""
    from topics import Topic

    fill(topic, 300)
    sink = {"exactlyOnce": "true"}
    with Topic(broker.address) as target:
        copy(spark, topic, target, tmp_path, sink)
        (tmp_path / "commits" / "0").unlink()
        (tmp_path / "commits" / ".0.crc").unlink(missing_ok=True)
        copy(spark, topic, target, tmp_path, sink)
        assert len(target.rows()) == 600  # what an uncommitted reader sees
        found = target.rows(kafka_isolation_level="read_committed")
        assert sorted(found) == sorted(topic.rows())
