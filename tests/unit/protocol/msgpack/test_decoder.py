"""Every request class from a map: defaults, refusals, and all values of msgpack."""

import dataclasses
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.handlers import HANDLERS
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import ProduceRequest
from protocol.msgpack.decoder import decoder
from protocol.msgpack.encoder import encoder
from protocol.msgpack.reader import BodyError, Reader
from tests.support.message_fields import messages
from tests.support.thorough import examples


def decode(cls: type[Any], body: Any, elements_max: int = 1000) -> Any:
    read = decoder(cls, cls.MESSAGE.version_max, Reader.view, ())
    return read(Reader(memoryview(msgpack.packb(body)), elements_max))[0]


@pytest.mark.parametrize("row", HANDLERS, ids=lambda row: row.api_key.name)
@given(data=st.data())
@settings(max_examples=examples(10))
def test_every_message_survives_a_round_trip_through_its_map(row: Any, data: st.DataObject) -> None:
    for cls in (row.request, row.response):
        version = cls.MESSAGE.version_max
        message = data.draw(messages(cls, version))
        assert decode(cls, encoder(cls, version)(message)) == message


def test_missing_fields_take_their_defaults() -> None:
    assert decode(MetadataRequest, {}) == MetadataRequest()
    body = {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1}]}
    (topic,) = decode(CreateTopicsRequest, body).topics
    assert (topic.assignments, topic.configs) == ([], [])


def test_null_is_accepted_if_the_version_allows_it() -> None:
    assert decode(MetadataRequest, {"topics": None}).topics is None
    asked = decode(MetadataRequest, {"topics": [{"name": None, "topic_id": b"u" * 16}]})
    assert asked.topics == [MetadataRequestTopic(name=None, topic_id=b"u" * 16)]
    assert decode(FetchRequest, {"max_wait_ms": 0, "min_bytes": 0, "cluster_id": None})


TOPIC = {"topic_id": b"u" * 16, "partition_data": []}
REFUSED = [
    ({"acks": 1}, "field 'timeout_ms' is missing"),
    ({"acks": 1, "timeout_ms": 1, "name": "t"}, "unknown field 'name'"),
    ({"acks": 1, "timeout_ms": 1, "x" * 999: 1}, "unknown field"),
    ({"acks": 1, "timeout_ms": 1, 7: 1}, "found an integer, expected the name of a field"),
    (
        {"acks": 40_000, "timeout_ms": 1},
        "acks: found 40000, expected an integer from -32768 to 32767",
    ),
    ({"acks": True, "timeout_ms": 1}, "acks: found a boolean, expected an integer"),
    ({"acks": 1.0, "timeout_ms": 1}, "acks: found a float, expected an integer"),
    ({"acks": None, "timeout_ms": 1}, "acks: found nil, expected an integer"),
    ({"acks": 1, "timeout_ms": 2**31}, "timeout_ms: found 2147483648, expected"),
    ({"acks": 1, "timeout_ms": 1, "topic_data": {}}, "topic_data: found a map, expected an array"),
    ({"acks": 1, "timeout_ms": 1, "topic_data": None}, "topic_data: found nil, expected an array"),
    ({"acks": 1, "timeout_ms": 1, "topic_data": [1]}, "topic_data: found an integer, expected"),
    (
        {"acks": 1, "timeout_ms": 1, "topic_data": [{"topic_id": b"short"}]},
        "topic_data.topic_id: found 5 bytes, expected a uuid of 16",
    ),
    (
        {"acks": 1, "timeout_ms": 1, "topic_data": [{**TOPIC, "name": "t"}]},
        "topic_data: unknown field 'name'",
    ),
    ({"acks": 1, "timeout_ms": 1, "topic_data": [TOPIC] * 2000}, "topic_data: 2000 elements more"),
    ([], "found an array, expected a map"),
    (None, "found nil, expected a map"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_a_value_that_does_not_fit_is_refused_with_its_place(body: Any, reason: str) -> None:
    with pytest.raises(BodyError) as caught:
        decode(ProduceRequest, body)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_repeated_field_is_refused() -> None:
    packed = b"\x83" + (msgpack.packb("acks") + b"\x01") * 2 + msgpack.packb("timeout_ms") + b"\x01"
    read = decoder(ProduceRequest, 13, Reader.view, ())
    with pytest.raises(BodyError, match="field 'acks' stands twice"):
        read(Reader(memoryview(packed), 10))


def test_fields_of_the_dialect_itself_are_returned_separately() -> None:
    read = decoder(FetchRequest, 18, Reader.view, (("raw", Reader.boolean),))
    body = {"max_wait_ms": 1, "min_bytes": 2, "raw": True}
    message, extras = read(Reader(memoryview(msgpack.packb(body)), 10))
    assert (message.min_bytes, extras) == (2, {"raw": True})
    with pytest.raises(BodyError, match="unknown field 'raw'"):
        decode(FetchRequest, body)


def test_nesting_follows_the_message() -> None:
    deep = b"\x91" * 100_000 + b"\x01"
    packed = b"\x81" + msgpack.packb("topic_data") + deep
    with pytest.raises(BodyError, match=r"topic_data: found an array, expected a map"):
        decoder(ProduceRequest, 13, Reader.view, ())(Reader(memoryview(packed), 1000))


def test_records_are_read_by_the_function_given() -> None:
    partition = {"index": 0, "records": b"batches"}
    body = {"acks": 1, "timeout_ms": 1, "topic_data": [{**TOPIC, "partition_data": [partition]}]}
    records = decode(ProduceRequest, body).topic_data[0].partition_data[0].records
    assert bytes(records) == b"batches"
    assert dataclasses.is_dataclass(ProduceRequest)
