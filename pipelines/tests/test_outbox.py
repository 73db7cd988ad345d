"""The sink's tasks with a broker: partitions, codecs, and rerun tasks."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from broker_process import BrokerProcess
from pyspark.sql import Row
from pyspark.sql.types import BinaryType, LongType, StringType, StructType, TimestampType
from topics import PARTITIONS, Topic

from pyspark_barnabas.datasource import COLUMNS
from pyspark_barnabas.options import sink_options
from pyspark_barnabas.sink.outbox import EPOCHS, identity
from pyspark_barnabas.sink.writer import _tables, write_task
from pyspark_barnabas.wire.brokers import ClusterOptions
from pyspark_barnabas.wire.cluster import Cluster, create_topic
from pyspark_barnabas.wire.errors import (
    BrokerRefused,
    BrokerUnreachable,
    RecordsRefused,
    UnknownTopic,
)

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string()), ("headers", HEADERS)])


def rows(name, count):
    """Return rows that differ from each other and from another name's; every fifth has no key."""
    return [
        {
            "key": None if number % 5 == 0 else f"k{number}",
            "value": f"{name}-{number}",
            "headers": [{"key": "h", "value": None}] if number % 3 == 0 else None,
        }
        for number in range(count)
    ]


def write(topic, found, producer=None, schema=SCHEMA, **options):
    given = {"kafka.bootstrap.servers": topic.address, "topic": topic.name, **options}
    table = pa.RecordBatch.from_pylist(found, schema=schema)
    written = write_task(
        sink_options({"kafka.batch.size": "2000", **given}), iter([table[:7], table[7:]]), producer
    )
    return written.sent_count, written.skipped_count


def values(topic):
    return sorted(value.decode() for (value,) in topic.rows())


@pytest.fixture
def life():
    """Return the identities of a new query's task, by micro-batch number."""
    query = uuid.uuid4().hex
    return lambda batch_id, task=0: identity(query, task, batch_id)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_written_is_read(topic, codec):
    found = rows("a", 500)
    assert write(topic, found, **{"kafka.compression.type": codec}) == (500, 0)
    read = topic.rows(("key", "value", "headers"))
    expected = [
        (row["key"] and row["key"].encode(), row["value"].encode(), row["headers"]) for row in found
    ]
    assert sorted(read, key=lambda row: row[1]) == sorted(expected, key=lambda row: row[1])


def test_topic_partition_and_timestamp_may_be_columns(topic, broker):
    with Topic(broker.address) as other:
        schema = pa.schema(
            [
                ("topic", pa.string()),
                ("value", pa.binary()),
                ("partition", pa.int32()),
                ("timestamp", pa.timestamp("us", tz="UTC")),
            ]
        )
        found = [
            {"topic": name, "value": None, "partition": place, "timestamp": 1_000_999}
            for name in (topic.name, other.name)
            for place in (0, 1, 1)
        ]
        table = pa.RecordBatch.from_pylist(found, schema=schema)
        options = sink_options({"kafka.bootstrap.servers": topic.address})
        write_task(options, iter([table]), None)
        for each in (topic, other):
            read = each.rows(("value", "partition", "timestamp"))
            assert [row[:2] for row in read] == [(None, 0), (None, 1), (None, 1)]
            assert {row[2].timestamp() for row in read} == {1.0}


def test_rows_are_put_together_for_a_spark_without_arrow_for_streams():
    """PySpark 4.0 passes rows to a streaming sink; columns that no record has are dropped."""
    schema = (
        StructType()
        .add("key", StringType())
        .add("value", BinaryType())
        .add("id", LongType())
        .add("timestamp", TimestampType())
        .add("headers", COLUMNS["headers"])
    )
    moment = datetime(2026, 11, 21, 12, 0, 1, 5000)
    rows = [
        Row(key=None, value=b"a", id=1, timestamp=moment, headers=[Row(key="h", value=b"x")]),
        Row(key="k", value=None, id=2, timestamp=None, headers=None),
    ]
    (table,) = _tables(schema, iter(rows))
    assert table.to_pylist() == [
        {
            "key": None,
            "value": b"a",
            "timestamp": moment.astimezone(UTC),
            "headers": [{"key": "h", "value": b"x"}],
        },
        {"key": "k", "value": None, "timestamp": None, "headers": None},
    ]


def test_a_task_run_again_writes_nothing_twice(topic, life):
    found = rows("a", 1000)
    assert write(topic, found, life(0)) == (1000, 0)
    assert write(topic, found, life(0)) == (0, 1000)
    assert values(topic) == sorted(row["value"] for row in found)


@pytest.mark.parametrize("done", [1, 7, 333, 999])
def test_a_task_that_had_ended_in_the_middle_goes_on_where_it_was(topic, life, done):
    found = rows("a", 1000)
    write(topic, found[:done], life(3))
    assert write(topic, found, life(3)) == (1000 - done, done)
    assert values(topic) == sorted(row["value"] for row in found)


def test_tasks_that_create_their_topic_at_the_same_time_wait_for_it(broker, life):
    """One of them is told of the topic while the broker is creating it."""
    with ThreadPoolExecutor(4) as tasks:
        for _ in range(10):
            t = SimpleNamespace(address=broker.address, name=f"t-{uuid.uuid4().hex[:8]}")
            done = [tasks.submit(write, t, rows("a", 5), life(0, task)) for task in range(4)]
            assert [task.result() for task in done] == [(5, 0)] * 4


def test_what_was_written_is_found_behind_much_that_others_wrote(topic, life):
    found = rows("a", 100)
    write(topic, found, life(0))
    others = rows("b", 40_000)
    write(topic, others, life(0, task=1), **{"kafka.batch.size": "200000"})
    assert write(topic, found, life(0)) == (0, 100)


def test_what_was_written_is_found_where_the_search_begins_in_the_middle_of_it(topic, life):
    """The first look back reads only a part of the responses that are under way then."""
    large = {"kafka.batch.size": "100000"}
    found = [row | {"key": "k", "value": row["value"] + 1000 * "x"} for row in rows("a", 6000)]
    assert write(topic, found, life(0), **large) == (6000, 0)
    assert write(topic, [found[0]] * 8000, **large) == (8000, 0)
    assert write(topic, found, life(0), **large) == (0, 6000)


def test_a_topic_may_come_up_while_batches_of_another_are_under_way(topic, broker, life):
    schema = pa.schema([("topic", pa.string()), ("value", pa.string())])
    with Topic(broker.address) as other:
        names = [topic.name] * 3000 + [other.name] * 3
        found = [{"topic": name, "value": 1000 * "x"} for name in names]
        table = pa.RecordBatch.from_pylist(found, schema=schema)
        options = sink_options({"kafka.bootstrap.servers": topic.address})
        for producer in (None, life(0)):
            assert write_task(options, iter([table]), producer).sent_count == 3003
        for each, count in ((topic, 6000), (other, 6)):
            assert len(each.rows(("partition",))) == count


def test_the_next_micro_batch_is_another_and_an_older_one_is_refused(topic, life):
    same = rows("a", 50)
    assert write(topic, same, life(0)) == (50, 0)
    assert write(topic, same, life(1)) == (50, 0)
    with pytest.raises(RecordsRefused, match=r"a later micro-batch.*deduplicate=false"):
        write(topic, same, life(0))
    assert len(values(topic)) == 100


def test_other_rows_than_before_are_all_written_and_none_is_lost(topic, life):
    """The rerun micro-batch has other rows: each may be there twice, none may be missing."""
    before, after = rows("a", 400), rows("a", 100) + rows("b", 500)
    write(topic, before, life(0))
    sent, skipped = write(topic, after, life(0))
    assert sent + skipped == len(after)
    assert skipped >= 20
    assert set(values(topic)) == {row["value"] for row in before + after}
    wanted = {row["value"] for row in after}
    counts = [values(topic).count(value) for value in list(wanted)[:50]]
    assert min(counts) >= 1


def test_epochs_begin_anew_with_another_producer(topic, life):
    assert life(5)[1] == 5
    assert life(5)[0] == life(EPOCHS - 1)[0] != life(EPOCHS)[0]
    assert life(EPOCHS)[1] == 0
    found = rows("a", 10)
    for batch_id in (EPOCHS - 1, EPOCHS, EPOCHS + 1):
        assert write(topic, found, life(batch_id)) == (10, 0)


def test_a_task_run_again_after_the_broker_was_killed(tmp_path, life):
    with BrokerProcess(tmp_path / "data", {"num.partitions": "2"}) as own, Topic(own.address) as t:
        found = rows("a", 300)
        write(t, found[:200], life(0))
        own.kill()
        own.start()
        assert write(t, found, life(0)) == (100, 200)
        assert values(t) == sorted(row["value"] for row in found)


@pytest.mark.parametrize(
    ("extra", "given", "error", "words"),
    [
        ({"partition": 9}, {}, RecordsRefused, "partition holds 9, but .* has partitions 0 to 2"),
        ({"partition": -2}, {}, RecordsRefused, "partition holds -2"),
        ({"topic": None}, {"topic": None}, RecordsRefused, "the column topic is null"),
        ({"value": "x" * 2_000_000}, {}, RecordsRefused, "MESSAGE_TOO_LARGE.*max.message.bytes"),
        ({}, {"topic": "no/name"}, BrokerRefused, "INVALID_TOPIC_EXCEPTION"),
        (
            {"headers": [{"key": None, "value": b"x"}]},
            {},
            RecordsRefused,
            "header whose key is null",
        ),
        ({"headers": [None]}, {}, RecordsRefused, "header whose key is null"),
    ],
)
def test_rows_that_cannot_be_written(topic, extra, given, error, words):
    row = {"value": "x", **extra}
    kinds = {
        "value": pa.string(), "partition": pa.int32(), "topic": pa.string(), "headers": HEADERS,
    }  # fmt: skip
    schema = pa.schema([(name, kinds[name]) for name in row])
    options = {"topic": topic.name, **given}
    base = {"kafka.bootstrap.servers": topic.address}
    base |= {name: value for name, value in options.items() if value is not None}
    table = pa.RecordBatch.from_pylist([row], schema=schema)
    with pytest.raises(error, match=words):
        write_task(sink_options(base), iter([table]), None)


@pytest.mark.parametrize("is_rerun", [False, True])
def test_batches_too_large_for_their_topic_are_split(broker, life, is_rerun):
    """Its default size of a batch is larger than that of Spark's sink, which splits as well."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    (host, port) = broker.address.split(":")
    with Cluster(ClusterOptions(((host, int(port)),), "test", 10_000, 10_000)) as cluster:
        create_topic(cluster, name, 2, {"max.message.bytes": "3000"})
    large = {"kafka.batch.size": "100000"}
    with Topic(broker.address, name) as topic:
        found = [row | {"key": f"k{number}"} for number, row in enumerate(rows("a", 1500))]
        producer = life(0) if is_rerun else None
        assert write(topic, found, producer, **large) == (1500, 0)
        if is_rerun:
            assert write(topic, found, producer, **large) == (0, 1500)
        written = [values.decode() for (values,) in topic.rows()]
        assert sorted(written) == sorted(row["value"] for row in found)
        for partition in range(2):
            numbers = [
                int(value.decode().removeprefix("a-"))
                for value, at in topic.rows(("value", "partition"))
                if at == partition
            ]
            assert numbers == sorted(numbers), "the halves keep the order of their records"
        with pytest.raises(RecordsRefused, match="a single record is larger than the topic's max"):
            write(topic, [found[0], found[1] | {"value": 3000 * "x"}], **large)


def test_a_broker_that_goes_away_is_one_clear_error(tmp_path):
    with BrokerProcess(tmp_path / "data") as own, Topic(own.address) as t:
        own.kill()
        words = r"within 200 ms \(kafka.delivery.timeout.ms\): .*kafka.bootstrap.servers="
        with pytest.raises(BrokerUnreachable, match=words):
            write(t, rows("a", 5), **{"kafka.delivery.timeout.ms": "200"})


def test_a_topic_that_no_one_makes_is_named_with_the_sinks_option(tmp_path):
    settings = {"auto.create.topics.enable": "false"}
    with BrokerProcess(tmp_path / "data", settings) as own:
        t = SimpleNamespace(address=own.address, name="nowhere")
        words = r"there is no nowhere on this cluster. Check the options topic and kafka.bootstrap"
        with pytest.raises(UnknownTopic, match=words):
            write(t, rows("a", 5))


def test_producer_ids_do_not_meet_those_that_brokers_give_out(broker):
    host, port = broker.address.split(":")
    with Cluster(ClusterOptions(((host, int(port)),), "t", 9000, 9000)) as cluster:
        assert cluster.new_producer_id()[0] < 1 << 62 <= identity("q", 0, 0)[0] < 1 << 63
    assert PARTITIONS > 1
