"""A Fetch that names a partition several times: answered once, as Apache Kafka 4.3 answers it."""

import time
from typing import Any

import pytest

from client.kafka.connection import Connection
from protocol.errors import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.wire import message_spec
from tests.interop.both_brokers import both_brokers

pytestmark = pytest.mark.interop


def asked(topic: str, *named: tuple[int, int]) -> FetchTopic:
    """(partition, offset) each."""
    return FetchTopic(
        topic=topic,
        partitions=[
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1000)
            for number, offset in named
        ],
    )


CASES = {
    "in one topic": [asked("t", (0, 0), (1, 9), (0, 5), (1, 0), (0, 7))],
    "in two": [asked("t", (0, 0), (1, 9)), asked("t", (1, 0), (0, 5))],
    "with another between": [
        asked("t", (0, 7), (1, 0)),
        asked("u", (0, 0)),
        asked("t", (0, 0), (1, 3)),
    ],
    "that is not there": [asked("t", (7, 0), (7, 0)), asked("no", (0, 0), (0, 1))],
}


def fetched(connection: Connection, request: FetchRequest) -> list[tuple[str, int, int]]:
    """Retry until the topics have a leader; return topic, partition and code of each answer."""
    deadline = time.monotonic() + 30
    while True:
        answer = connection.call(request, FetchResponse)
        found = [
            (topic.topic, one.partition_index, one.error_code)
            for topic in answer.responses
            for one in topic.partitions
        ]
        no_leader = any(code == ErrorCode.NOT_LEADER_OR_FOLLOWER for _, _, code in found)
        if not no_leader or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def test_a_partition_named_again_is_answered_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with both_brokers(tmp_path_factory) as connections:
        found: list[dict[str, Any]] = []
        for connection in connections:
            topics = [
                CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in "tu"
            ]
            made = connection.call(
                CreateTopicsRequest(topics=topics, timeout_ms=10_000), CreateTopicsResponse
            )
            assert [topic.error_code for topic in made.topics] == [0, 0]
            key = message_spec(FetchRequest).api_key
            connection.versions = {**connection.versions, key: (12, 12)}
            answers = {}
            for case, topics in CASES.items():
                request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=topics)
                answers[case] = fetched(connection, request)
            found.append(answers)
    kafkas, ours = found
    for case in CASES:
        assert sorted(ours[case]) == sorted(kafkas[case]), case
        assert len(set(ours[case])) == len(ours[case])
