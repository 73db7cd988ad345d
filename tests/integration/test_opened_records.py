"""Batches that are slow to unpack: bounded, answered in order, without delay for other clients.

A few KiB of zstd hold a million records, or a record of four million headers. No clock measures
the delay: one client sends such a batch, another sends small requests one after the other, and
several of those must be answered before the first client is. If the event loop unpacked the
batch, its answer would come before the second small one.
"""

import contextlib
import functools
import select
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zstandard

from tests.support.broker_process import BrokerProcess, free_port
from tests.support.msgpack_client import MsgpackClient, produce_body
from tests.support.raw_batches import batch, record, varint
from tests.support.raw_client import Closed

ZSTD = 4
MANY = 1_000_000
HEADERS = 4 * 1024 * 1024
TIMEOUT_S = 120.0  # for a machine that is busy with other work
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD = 10, 32, 87
SMALL_ANSWER_BYTES = 64 * 1024
GROWTH_BYTES_MAX = 400 << 20  # an unpacked batch may have 128 MiB, and is copied


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    port = free_port()
    data: Path = tmp_path_factory.mktemp("opened") / "data"
    plain = free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},MSGPACK://127.0.0.1:{port}"
    settings = {
        "listeners": listeners,
        "barnabas.unflushed.bytes.max": str(1 << 20),
        "barnabas.requests.per.connection.max": "1000",
    }
    with BrokerProcess(data, settings, port=plain) as running:
        running.msgpack_port = port  # type: ignore[attr-defined]
        yield running
        assert running.stop() == 0, running.output()


def connect(broker: Any) -> MsgpackClient:
    return MsgpackClient(broker.msgpack_port, TIMEOUT_S)


def packed(values: int, body: bytes, **fields: Any) -> bytes:
    body = zstandard.ZstdCompressor().compress(body)
    return batch([None] * values, body=body, attributes=ZSTD, **fields)


@functools.cache
def many(key: bytes | None) -> bytes:
    """Return the bytes of a million records that differ in their offsets."""
    inner = b"\0\0%s" + varint(-1 if key is None else len(key)) + (key or b"") + b"\0\0"
    return b"".join([sized(inner % varint(n)) for n in range(MANY)])


def sized(inner: bytes) -> bytes:
    return varint(len(inner)) + inner


def bomb() -> bytes:
    """One record of four million headers, in less than a KiB."""
    headers = varint(HEADERS) + b"\0\0" * HEADERS
    made = packed(1, record(b"value", key=b"key", headers=headers))
    assert len(made) < 1024
    return made


def ask_while_others_are_served(broker: Any, api: str, body: Any) -> Any:
    """Return the answer; another client must get several before it."""
    with connect(broker) as slow, connect(broker) as quick:
        quick.ask("metadata", {"topics": []})
        slow.send(msgpack.packb([api, 1, "slow", body]))
        for number in range(4):
            quick.ask("metadata", {"topics": []})
            is_answered = bool(select.select([slow.socket], [], [], 0)[0])
            assert not is_answered, f"the loop did nothing else before ping {number}"
        head = slow.stream.read(4)
        (size,) = struct.unpack(">I", head)
        data = slow.stream.read(size)
        assert size < SMALL_ANSWER_BYTES
        return msgpack.unpackb(data)[1]


def request(topic_id: bytes, records: bytes, acks: int = -1) -> Any:
    """Return the body of a produce request with a long timeout."""
    return {**produce_body(topic_id, records, acks=acks), "timeout_ms": int(TIMEOUT_S * 1000)}


def produced(answer: Any) -> Any:
    return answer["responses"][0]["partition_responses"][0]


def test_an_ordinary_batch_for_a_compacted_topic_is_checked_beside_the_loop(
    broker: Any,
) -> None:
    with connect(broker) as client:
        topic_id = client.create("keyed", cleanup_policy="compact")
        body = request(topic_id, packed(MANY, many(b"")), acks=1)
        answer = produced(ask_while_others_are_served(broker, "produce", body))
        assert (answer["error_code"], answer["base_offset"]) == (0, 0)
        assert client.produce(topic_id, [{"key": "k", "value": "v"}])["base_offset"] == MANY


def test_a_million_records_without_keys_are_refused_beside_the_loop_and_a_hundred_named(
    broker: Any,
) -> None:
    with connect(broker) as client:
        topic_id = client.create("unkeyed", cleanup_policy="compact")
    body = request(topic_id, packed(MANY, many(None)), acks=1)
    answer = produced(ask_while_others_are_served(broker, "produce", body))
    assert answer["error_code"] == INVALID_RECORD
    assert [one["batch_index"] for one in answer["record_errors"]] == list(range(100))
    assert f"due to {MANY} record errors in total" in answer["error_message"]


def test_mistimed_records_of_a_normal_topic_are_named_beside_the_loop(broker: Any) -> None:
    count = 500_000
    now_ms = int(time.time() * 1000)
    body = record(b"") * count
    mistimed = packed(count, body, timestamp=now_ms - 10**9)
    with connect(broker) as client:
        topic_id = client.create("timed", message_timestamp_before_max_ms="1000")
    produce = request(topic_id, mistimed, acks=1)
    answer = produced(ask_while_others_are_served(broker, "produce", produce))
    assert answer["error_code"] == INVALID_TIMESTAMP
    assert [one["batch_index"] for one in answer["record_errors"]] == list(range(100))
    assert f"{count} records of the batch" in answer["error_message"]


def test_four_million_headers_are_refused_or_passed_over_and_cost_little(broker: Any) -> None:
    resident_bytes = broker.resident_bytes()
    with connect(broker) as client:
        compacted = client.create("bombed-compacted", cleanup_policy="compact")
        answer = client.produce(compacted, bomb())
        assert answer["error_code"] == MESSAGE_TOO_LARGE
        assert f"{HEADERS} headers in a batch" in answer["error_message"]

        topic_id = client.create("bombed")
        assert client.produce(topic_id, [{"value": "before"}])["error_code"] == 0
        assert client.produce(topic_id, bomb())["error_code"] == 0, "it is not opened"
        assert client.produce(topic_id, [{"value": "behind"}])["error_code"] == 0
        first = client.fetch(topic_id, 0)
        assert [one["value"] for one in first["records"]] == [b"before"]
        assert (first["error_code"], first["next_offset"]) == (0, 1)
        refused = client.fetch(topic_id, 1)
        assert (refused["error_code"], refused["records"]) == (MESSAGE_TOO_LARGE, [])
        assert [one["value"] for one in client.fetch(topic_id, 2)["records"]] == [b"behind"]
        raw = client.fetch(topic_id, 1, raw=True, max_bytes=1)["records"]
        assert len(raw) < 1024

        asked = {"partition_index": 0, "timestamp": int(time.time() * 1000) - 3_600_000}
        topics = [{"name": "bombed", "partitions": [asked]}]
        found = client.ask("list_offsets", {"replica_id": -1, "topics": topics})
        assert found["topics"][0]["partitions"][0]["offset"] == 0
        asked["timestamp"] = -3
        found = client.ask("list_offsets", {"replica_id": -1, "topics": topics})
        assert found["topics"][0]["partitions"][0]["error_code"] == 0
    assert broker.resident_bytes() - resident_bytes < GROWTH_BYTES_MAX


def test_records_become_maps_beside_the_loop(broker: Any) -> None:
    """Each fetch unpacks the batch again and skips the half million records before its offset."""
    with connect(broker) as client:
        topic_id = client.create("maps")
        count = 250_000
        body = b"".join(record(b"x" * 40, offset_delta=n) for n in range(count))
        assert client.produce(topic_id, packed(count, body))["base_offset"] == 0
    asked = {"partition": 0, "fetch_offset": count - 5, "partition_max_bytes": 1 << 20}
    topics = [{"topic_id": topic_id, "partitions": [asked]}]
    fetch = {"max_wait_ms": 0, "min_bytes": 1, "topics": topics}
    answer = ask_while_others_are_served(broker, "fetch", fetch)
    (found,) = answer["responses"][0]["partitions"]
    assert [one["offset"] for one in found["records"]] == list(range(count - 5, count))


def test_a_slow_batch_and_fast_ones_of_a_producer_stay_in_order(
    broker: Any,
) -> None:
    """Idempotent and pipelined; every other batch takes a thread."""
    ids = {"producer_id": 4711, "producer_epoch": 0}
    sequence = 0
    requests = []
    slow = packed(MANY, many(b""), **ids, base_sequence=0)
    with connect(broker) as client:
        topic_id = client.create("ordered", cleanup_policy="compact")
        for number in range(9):
            if number == 0:
                records, count = slow, MANY
            elif number % 2:
                records = batch([b"v"], body=record(b"v", key=b"k"), **ids, base_sequence=sequence)
                count = 1
            else:
                records = packed(1, record(b"v", key=b"k"), **ids, base_sequence=sequence)
                count = 1
            requests.append((request(topic_id, records), sequence))
            sequence += count
        for number, (body, _) in enumerate(requests):
            client.send(msgpack.packb(["produce", number, "ordered", body]))
        for number, (_, offset) in enumerate(requests):
            correlation_id, answer = client.receive()
            one = produced(answer)
            assert (correlation_id, one["error_code"], one["base_offset"]) == (number, 0, offset)


def test_produces_behind_a_slow_one_to_a_write_caching_topic_are_all_answered(broker: Any) -> None:
    """Each append advances such a log at once, and each advance once drained within the drain."""
    with connect(broker) as client:
        configs = {"compression_type": "gzip", "max_message_bytes": str(16 << 20)}
        topic_id = client.create("cached-packed", write_caching="true", **configs)
        slow = packed(MANY, many(b""))
        requests = [slow, *([batch([b"fast"])] * 400)]
        for number, records in enumerate(requests):
            client.send(msgpack.packb(["produce", number, "cached", request(topic_id, records)]))
        for number in range(len(requests)):
            correlation_id, answer = client.receive()
            one = produced(answer)
            expected = 0 if number == 0 else MANY + number - 1
            assert (correlation_id, one["error_code"], one["base_offset"]) == (
                number, 0, expected
            )  # fmt: skip


def test_write_caching_records_delay_no_other_producer(broker: Any) -> None:
    """Far more data than barnabas.unflushed.bytes.max, which is a MiB here."""
    with connect(broker) as client:
        cached = client.create("cached", write_caching="true", flush_messages=str(10**9))
        synced = client.create("synced")
        for _ in range(8):
            assert client.produce(cached, batch([bytes(900_000)]))["error_code"] == 0
        for offset in range(3):
            answer = client.produce(synced, [{"value": "v"}])
            assert (answer["error_code"], answer["base_offset"]) == (0, offset)


def test_a_batch_that_was_checked_is_stored_as_it_was_sent(broker: Any) -> None:
    with connect(broker) as client:
        topic_id = client.create("kept", cleanup_policy="compact")
        sent = packed(2, record(b"a", key=b"k") + record(b"b", key=b"l", offset_delta=1))
        assert client.produce(topic_id, sent)["base_offset"] == 0
        found = client.fetch(topic_id, 0, raw=True)["records"]
        assert found[17:] == sent[17:], "all that the CRC covers"
        assert [one["key"] for one in client.fetch(topic_id, 0)["records"]] == [b"k", b"l"]


def test_a_stop_does_not_wait_for_all_that_is_still_to_be_opened(tmp_path: Path) -> None:
    """Each of these batches takes a thread a second or more; each is refused, or cut off."""
    plain, maps = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{plain},MSGPACK://127.0.0.1:{maps}"
    with (
        BrokerProcess(tmp_path / "data", {"listeners": listeners}, port=plain) as running,
        MsgpackClient(maps, TIMEOUT_S) as client,
    ):
        topic_id = client.create("many", partitions=40, cleanup_policy="compact")
        slow = packed(MANY, many(b""))
        for number in range(40):
            body = {**produce_body(topic_id, slow, number), "timeout_ms": 10**6}
            client.send(msgpack.packb(["produce", number, "many", body]))
        with MsgpackClient(maps, TIMEOUT_S) as other:
            other.ask("metadata", {"topics": []})
            assert running.stop() == 0, running.output()
        assert "does not answer" not in running.output()
        codes = set()
        with contextlib.suppress(Closed, ConnectionError):
            while True:
                codes.add(produced(client.receive()[1])["error_code"])
        assert codes <= {0, REQUEST_TIMED_OUT}, codes
