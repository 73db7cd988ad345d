"""Requests to a broker: the errors inside its answers."""

import pytest

from client.kafka import admin
from client.kafka.connection import BrokerError, Connection
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.support.scripted_broker import ScriptedBroker


def answer_topics(*topics):
    return lambda _request: MetadataResponse(topics=list(topics))


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ([MetadataResponseTopic(name="x", error_code=3)], r"no topic 'x' at 127"),
        ([MetadataResponseTopic(name="x", error_code=29)], r"TOPIC_AUTHORIZATION_FAILED \(29\)"),
    ],
)
def test_a_refused_topic_is_an_error(topics, words):
    with (
        ScriptedBroker({MetadataRequest: answer_topics(*topics)}) as broker,
        Connection(broker.address, 5) as connection,
        pytest.raises(BrokerError, match=words),
    ):
        admin.topics(connection, ["x"])


def test_topics_are_in_the_requested_order_and_all_topics_by_name():
    found = [MetadataResponseTopic(name=name) for name in ("b", "a")]
    with (
        ScriptedBroker({MetadataRequest: answer_topics(*found)}) as broker,
        Connection(broker.address, 5) as connection,
    ):
        assert [one.name for one in admin.topics(connection, ["b", "a"])] == ["b", "a"]
        assert [one.name for one in admin.topics(connection, [])] == ["a", "b"]
        assert admin.sizes(connection) is None, "the broker does not serve DescribeLogDirs"


def test_a_refused_offset_names_its_partition():
    wrong = ListOffsetsPartitionResponse(partition_index=4, error_code=56)
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[wrong])])
    with (
        ScriptedBroker({ListOffsetsRequest: lambda _request: answer}) as broker,
        Connection(broker.address, 5) as connection,
        pytest.raises(BrokerError, match=r"offsets of t-4: KAFKA_STORAGE_ERROR \(56\)"),
    ):
        admin.offsets(connection, {"t": [4]}, admin.LATEST)
