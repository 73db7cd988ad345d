"""Topics of the configuration: read, created once, and reported where they cannot be."""

import logging

import pytest

from broker.metadata.topic_rules import NewTopic, TopicError
from broker.topics_at_start import create_at_start, wanted
from config.errors import ConfigError
from config.load import load
from protocol.errors import ErrorCode


def new(partitions=-1, replicas=-1, configs=None):
    return NewTopic(
        name="a",
        partition_count=partitions,
        replication_factor=replicas,
        configs=configs or {},
    )


@pytest.mark.parametrize(
    ("entry", "topic"),
    [
        ("a", new()),
        ("a:3", new(3)),
        ("a:3:1", new(3, 1)),
        ("a:3:1:compact", new(3, 1, {"cleanup.policy": "compact"})),
    ],
)
def test_entries_are_read(entry, topic):
    assert wanted(entry) == topic


@pytest.mark.parametrize("entry", ["a:0", "a:b", "a:1:1:compac", "a b", "a:1:1:compact:1", ":1"])
def test_bad_entries_are_refused(entry):
    with pytest.raises(ConfigError, match=r"barnabas\.create\.topics"):
        load(set_values=[f"barnabas.create.topics=good,{entry}"])


class Topics:
    def __init__(self, outcomes):
        self.outcomes = outcomes
        self.asked = []

    async def create(self, new_topics):
        (topic,) = new_topics
        self.asked.append(topic.name)
        return {topic.name: self.outcomes.get(topic.name)}


async def test_what_cannot_be_created_is_reported_and_the_rest_is_created(caplog):
    topics = Topics(
        {
            "there": TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, "exists"),
            "many": TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, "too many"),
        }
    )
    with caplog.at_level(logging.ERROR):
        await create_at_start(["there", "many:1:3", "new"], topics)
    assert topics.asked == ["there", "many", "new"]
    assert [record.getMessage() for record in caplog.records] == [
        "cannot create topic many of barnabas.create.topics: too many"
    ]
