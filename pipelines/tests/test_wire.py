"""Reading from a broker process, and everything that can go wrong."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from broker_process import BrokerProcess
from pyspark.sql.datasource import InputPartition
from topics import Topic

from pyspark_barnabas.options import source_options
from pyspark_barnabas.source.reader import WireReader
from pyspark_barnabas.wire.brokers import ClusterOptions
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.errors import (
    BatchTooLarge,
    BrokerRefused,
    BrokerUnreachable,
    CorruptBatch,
    DataLost,
    UnknownTopic,
)
from pyspark_barnabas.wire.fetcher import Fetcher, FetchPlan
from pyspark_barnabas.wire.protocol import LATEST


def records(count, size=20, first=0):
    return [
        Record(b"k%d" % i, b"%d" % i + b"." * size, 1000 + i) for i in range(first, first + count)
    ]


def test_all_records_come_once_and_in_order_whatever_the_fetch_size(topic):
    for codec in range(5):
        topic.append(0, records(300, first=300 * codec), codec=codec)
    topic.append(1, records(5, first=9000))
    expected = [(b"%d" % i + b"." * 20,) for i in [*range(1500), *range(9000, 9005)]]
    for size in ("1", "5000", "1000000"):
        assert topic.rows(kafka_max_partition_fetch_bytes=size) == expected


def test_a_batch_larger_than_the_fetch_is_read(topic):
    topic.append(0, records(3, size=300_000))
    assert len(topic.rows(kafka_max_partition_fetch_bytes="1000")) == 3


def test_a_topic_that_grows_while_it_is_read_ends_where_it_was_planned(topic):
    topic.append(0, records(10))
    reader = WireReader(["offset"], source_options(topic.options(), streaming=False))
    (partition,) = reader.partitions()
    topic.append(0, records(10))
    assert sum(table.num_rows for table in reader.read(partition)) == 10


def test_a_reader_that_has_seen_enough_leaves_no_response_to_others(topic):
    for first in range(0, 500, 10):
        topic.append(0, records(10, first=first))
    at = (topic.name, 0)
    for _ in Fetcher(topic.cluster, FetchPlan(10_000, bytes=1000), *at, 0, 500):
        assert topic.cluster.list_offsets({at: LATEST}) == {at: 500}  # the next fetch is under way
        break
    assert topic.cluster.list_offsets({at: LATEST}) == {at: 500}
    read = Fetcher(topic.cluster, FetchPlan(10_000, bytes=1000), *at, 0, 500)
    assert sum(batch.record_count for _, batches in read for batch in batches) == 500


def test_an_empty_topic_has_no_rows(topic):
    """With no partitions Spark calls `read` with an empty one."""
    reader = WireReader(["offset"], source_options(topic.options(), streaming=False))
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_an_unknown_topic_is_named_with_its_option(broker, topic):
    topic.name = "nowhere"
    with pytest.raises(UnknownTopic, match=r"there is no nowhere on this cluster.*subscribe"):
        topic.rows()


def test_a_topic_is_not_made_by_reading(topic):
    name = topic.name = "still-nowhere"
    with pytest.raises(UnknownTopic):
        topic.rows()
    assert name not in topic.cluster.all_topics()


def test_a_broker_that_comes_back_is_waited_for(tmp_path, topic):
    """Killed after planning and again during the read: nothing twice, nothing missing."""
    with BrokerProcess(tmp_path / "data") as own, Topic(own.address) as mine:
        for first in range(0, 3000, 100):
            mine.append(0, records(100, first=first))
        options = mine.options(kafka_max_partition_fetch_bytes="3000")
        reader = WireReader(["offset"], source_options(options, streaming=False))
        (partition,) = reader.partitions()
        own.kill()
        starter = threading.Timer(0.5, own.start)
        starter.start()
        found = []
        for number, table in enumerate(reader.read(partition)):
            found += table["offset"].to_pylist()
            if number == 3:
                own.kill()
                own.start()
        starter.join()
        assert found == list(range(3000))


def test_a_broker_that_stays_away_is_one_clear_error(tmp_path):
    with BrokerProcess(tmp_path / "data") as own, Topic(own.address) as mine:
        for first in range(0, 3000, 100):
            mine.append(0, records(100, first=first))
        options = mine.options(
            **{"kafka.max.partition.fetch.bytes": "3000", "kafka.default.api.timeout.ms": "300"}
        )
        reader = WireReader(["offset"], source_options(options, streaming=False))
        (partition,) = reader.partitions()
        tables = reader.read(partition)
        next(tables)
        own.kill()
        words = "reading .* did not succeed within 300 ms .*refused.*kafka.bootstrap.servers="
        with pytest.raises(BrokerUnreachable, match=words):
            list(tables)


def test_records_deleted_between_plan_and_read(broker, topic):
    for first in range(0, 300, 100):
        topic.append(0, records(100, first=first))
    readers = [
        WireReader(["offset"], source_options(topic.options(failOnDataLoss=fail), streaming=False))
        for fail in ("true", "false")
    ]
    plans = [reader.partitions()[0] for reader in readers]
    plans[0].range = plans[1].range = type(plans[0].range)(topic.name, 0, 400, 500)
    with pytest.raises(DataLost, match=r"now begins at offset 0 and has no offset 400.*failOnData"):
        list(readers[0].read(plans[0]))
    assert list(readers[1].read(plans[1])) == []


def test_a_topic_created_again_between_plan_and_read_is_lost_data(topic):
    """A DataFrame keeps its planned ranges."""
    topic.append(0, records(10))
    reader = WireReader(["offset"], source_options(topic.options(), streaming=False))
    (partition,) = reader.partitions()
    assert sum(table.num_rows for table in reader.read(partition)) == 10
    topic.recreate()
    topic.append(0, records(20))
    with pytest.raises(DataLost, match=rf"topic {topic.name} was deleted and created again"):
        list(reader.read(partition))


def test_damage_is_told_with_topic_offset_and_cure(tmp_path):
    with BrokerProcess(tmp_path / "data") as own, Topic(own.address) as mine:
        mine.append(0, records(10))
        mine.append(0, records(10))
        own.stop()
        (log,) = (own.data / f"{mine.name}-0").glob("*.log")
        damaged = bytearray(log.read_bytes())
        damaged[-5] ^= 1
        log.write_bytes(damaged)
        own.start()
        # Barnabas finds the damage first and does not serve the batch; older brokers would.
        options = {"kafka.default.api.timeout.ms": "300"}
        with pytest.raises((CorruptBatch, BrokerRefused, BrokerUnreachable), match=mine.name):
            mine.rows(**options)


def test_a_directory_is_read_through_a_read_only_broker(tmp_path):
    """As docs/pyspark.md says; damage fails with its offset and can be read around."""
    with BrokerProcess(tmp_path / "data") as own, Topic(own.address) as mine:
        for _ in range(3):
            mine.append(0, records(10))
        rows = mine.rows()
        own.stop()
        (log,) = (own.data / f"{mine.name}-0").glob("*.log")
        whole = log.read_bytes()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 1  # in the second batch of three
        with BrokerProcess(own.data, {"barnabas.read.only": "true"}) as served:
            mine.address = served.address
            assert mine.rows() == rows
        log.write_bytes(damaged)
        with BrokerProcess(own.data, {"barnabas.read.only": "true"}) as served:
            mine.address = served.address
            short = {"kafka.default.api.timeout.ms": "300"}
            with pytest.raises(BrokerUnreachable, match=r"-0 from offset 10 .*KAFKA_STORAGE_ERR"):
                mine.rows(**short)
            behind = json.dumps({mine.name: {"0": 20}})
            assert mine.rows(startingOffsets=behind) == rows[20:]
        assert log.read_bytes() == damaged


def test_a_batch_too_large_names_its_option_and_no_damage(topic):
    topic.append(0, [Record(b"k", b"v", 1, [("h", b"x")] * 30)])
    assert len(topic.rows(("headers",), batchHeadersMax="30")) == 1
    with pytest.raises(
        BatchTooLarge, match=r"^record batch .*-0, offset 0: .*raise .*batchHeadersMax"
    ):
        topic.rows(("headers",), batchHeadersMax="29")
    assert len(topic.rows(("value",), batchHeadersMax="29")) == 1


def serve_once(answer):
    """Listen, take one request, send `answer`, close; return the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        with listener:
            for _ in range(3):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            BrokerUnreachable,
            "that this is the port of a Kafka",
        ),
        (b"\0\0\0\x04\0\0\0\x09", BrokerUnreachable, "for request 9, not for 1"),
        (b"", BrokerUnreachable, "closed the connection"),
        (b"\0\0\0\x0a\0\0\0\x01\0\0\0\0\0\0", BrokerRefused, "serves Produce in versions 0 to -1"),
        (b"\0\0\0\x0a\0\0\0\x01\0\0\x7f\0\0\0", BrokerRefused, "does not parse"),
    ],
)
def test_what_is_no_broker(answer, error, words):
    port = serve_once(answer)
    cluster = Cluster(ClusterOptions((("127.0.0.1", port),), "test", 2000, 10))
    with cluster, pytest.raises(error, match=words):
        cluster.all_topics()


def test_the_second_bootstrap_server_serves_when_the_first_is_down(broker, topic):
    topic.append(0, records(2))
    topic.address = f"127.0.0.1:1,{broker.address}"
    assert len(topic.rows()) == 2
