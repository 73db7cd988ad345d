"""Produced in one dialect, read in the other: values, keys, headers, timestamps, in order."""

import warnings
from typing import Any

import msgpack
import pytest

from tests.support.msgpack_client import MsgpackClient, produce_body
from tests.support.raw_batches import batch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

TIME_MS = 1_700_000_000_000
RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]] = [
    (b"k", b"v", [], TIME_MS),
    (None, b"no key", [("a", b"1"), ("a", b""), ("\u00e9", b"\xff")], TIME_MS + 1),
    (b"no value", None, [], TIME_MS - 5),
    (None, None, [], TIME_MS),
    (b"", b"", [("", b"x")], 0),
    (b"\x00" * 300, bytes(range(256)) * 400, [("n", None)], TIME_MS),
]


def as_map(record: Any) -> dict[str, Any]:
    key, value, headers, timestamp = record
    return {"key": key, "value": value, "headers": headers, "timestamp": timestamp}


def as_answered(records: Any) -> list[dict[str, Any]]:
    return [
        {**as_map(record), "headers": [list(pair) for pair in record[2]], "offset": offset}
        for offset, record in enumerate(records)
    ]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_of_kafkas_client_are_read_as_maps(broker: Any, codec: str | None) -> None:
    # This client sends neither a record without key and value nor a header without a value.
    records = [record for record in RECORDS if record[:2] != (None, None)] * 50
    records = [row for row in records if ("n", None) not in row[2]]
    name = f"from-kafka-{codec}"
    with MsgpackClient(broker.msgpack_port) as client:
        topic_id = client.create(name)
        producer = KafkaProducer(
            bootstrap_servers=broker.address, compression_type=codec, linger_ms=20
        )
        for key, value, headers, timestamp in records:
            producer.send(
                name, value, key=key, headers=headers, timestamp_ms=timestamp, partition=0
            )
        producer.flush(10)
        producer.close()
        assert client.read(topic_id, len(records)) == as_answered(records)


def test_records_sent_as_maps_are_read_by_kafkas_client(broker: Any) -> None:
    records = RECORDS * 50
    with MsgpackClient(broker.msgpack_port) as client:
        topic_id = client.create("from-msgpack")
        for start in range(0, len(records), 7):
            said = client.produce(topic_id, [as_map(row) for row in records[start : start + 7]])
            assert (said["error_code"], said["base_offset"]) == (0, start)
        assert client.read(topic_id, len(records)) == as_answered(records)
    consumer = KafkaConsumer(bootstrap_servers=broker.address, consumer_timeout_ms=3000)
    partition = TopicPartition("from-msgpack", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found: list[Any] = []
    while len(found) < len(records):
        polled = consumer.poll(5000).get(partition, [])
        assert polled, f"{len(found)} of {len(records)} records"
        found += [(r.key, r.value, list(r.headers), r.timestamp) for r in polled]
    consumer.close()
    assert found == records


def test_raw_batches_go_in_and_come_out_as_they_are(broker: Any) -> None:
    with MsgpackClient(broker.msgpack_port) as client:
        topic_id = client.create("raw")
        sent = bytes(batch([b"a", b"b", b"c"]))
        for start in (0, 3):
            said = client.produce(topic_id, sent)
            assert (said["error_code"], said["base_offset"]) == (0, start)
        answer = client.fetch(topic_id, 4, raw=True)
        assert answer["records"][16:] == sent[16:]  # the log sets base offset and leader epoch
        assert "next_offset" not in answer
        answer = client.fetch(topic_id, 4)
        assert [record["value"] for record in answer["records"]] == [b"b", b"c"]
        assert answer["next_offset"] == 6


def test_large_batches_are_read_in_pieces_and_whole(broker: Any) -> None:
    """Batches far larger than one answer may unpack, and a single one larger than that."""
    with MsgpackClient(broker.msgpack_port) as client:
        topic_id = client.create("large")
        values = [bytes([n]) * 900_000 for n in range(6)] + [b"big" * 1_000_000]
        for value in values:
            assert client.produce(topic_id, [{"value": value}])["error_code"] == 0
        assert client.produce(topic_id, [{"value": b"%d" % n} for n in range(40_000)])[
            "base_offset"
        ] == len(values)
        found = [record["value"] for record in client.read(topic_id, len(values) + 40_000)]
        assert found == values + [b"%d" % n for n in range(40_000)]


def test_acks_0_has_no_answer(broker: Any) -> None:
    with MsgpackClient(broker.msgpack_port) as client:
        topic_id = client.create("silent")
        client.send(msgpack.packb(["produce", 99, None, produce_body(topic_id, [{}], acks=0)]))
        assert client.produce(topic_id, [{"value": b"x"}])["base_offset"] == 1


def test_a_missing_timestamp_is_the_brokers_time(broker: Any) -> None:
    with MsgpackClient(broker.msgpack_port) as client:
        topic_id = client.create("timed")
        client.produce(topic_id, [{"value": b"x"}])
        (record,) = client.fetch(topic_id, 0)["records"]
        assert record["timestamp"] > TIME_MS
        answer = client.ask(
            "list_offsets",
            {
                "replica_id": -1,
                "topics": [
                    {"name": "timed", "partitions": [{"partition_index": 0, "timestamp": -1}]}
                ],
            },
        )
        assert answer["topics"][0]["partitions"][0]["offset"] == 1


def test_metadata_names_the_listener_of_the_request(broker: Any) -> None:
    with MsgpackClient(broker.msgpack_port) as client:
        (node,) = client.ask("metadata", {"topics": []})["brokers"]
    assert (node["host"], node["port"]) == ("127.0.0.1", broker.msgpack_port)


def test_a_fetch_waits_for_records(broker: Any) -> None:
    with (
        MsgpackClient(broker.msgpack_port) as client,
        MsgpackClient(broker.msgpack_port) as reader,
    ):
        topic_id = client.create("waited")
        asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic_id": topic_id, "partitions": [asked]}]
        body = {"max_wait_ms": 9_000, "min_bytes": 1, "topics": topics}
        reader.send(msgpack.packb(["fetch", 8, None, body]))
        client.produce(topic_id, [{"value": b"now"}])
        number, answer = reader.receive()
        assert number == 8
        (record,) = answer["responses"][0]["partitions"][0]["records"]
        assert record["value"] == b"now"
