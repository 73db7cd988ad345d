"""Subscriptions and assignments of members of the classic protocol, as bytes."""

from __future__ import annotations

import pytest

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.embedded_protocol import (
    assignment_bytes,
    partitions_of,
    read_subscription,
)
from broker.groups.errors import GroupError
from protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
from tests.support.fake_topics import FakeTopics, topic_id


def test_an_assignment_names_the_topics_that_exist() -> None:
    member = ConsumerGroupMember(
        member_id="m",
        assigned={topic_id("b"): {1: 3, 0: 2}, topic_id("a"): {0: 1}, topic_id("gone"): {0: 1}},
    )
    read = decode_assignment(assignment_bytes(member, FakeTopics(a=1, b=2), 0))
    assert [(topic.topic, topic.partitions) for topic in read.assigned_partitions] == [
        ("a", [0]),
        ("b", [0, 1]),
    ]


def test_a_topic_that_is_named_again_has_all_its_partitions() -> None:
    named = [("a", [0]), ("b", []), ("gone", [1]), ("a", [2, 0])]
    topics = FakeTopics(a=3, b=1)
    found = partitions_of([TopicPartition(topic=name, partitions=of) for name, of in named], topics)
    assert found == {topic_id("a"): frozenset({0, 2})}


def test_a_subscription_is_read_or_refused() -> None:
    said = encode_subscription(ConsumerProtocolSubscription(topics=["a"]))
    assert read_subscription(said).topics == ["a"]
    with pytest.raises(GroupError, match="Malformed embedded consumer protocol") as refused:
        read_subscription(b"?")
    assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
