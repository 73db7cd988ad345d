"""Topics that the configuration names (`barnabas.create.topics`): created as the broker starts.

    orders, clicks:6, state:1:1:compact        NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]]

A topic that exists stays as it is. One that cannot be created is reported, and the broker starts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.metadata.topic_rules import BROKER_DEFAULT, NewTopic, TopicError
from broker.topics import Topics
from config.checks import TopicAtStart
from protocol.errors import ErrorCode
from storage.errors import LogFailed

logger = logging.getLogger("barnabas.topics")


def wanted(entry: str) -> NewTopic:
    """Return the topic that an entry of the list names."""
    topic = TopicAtStart(*entry.split(":"))
    return NewTopic(
        name=topic.name,
        partition_count=int(topic.partitions or BROKER_DEFAULT),
        replication_factor=int(topic.replicas or BROKER_DEFAULT),
        configs={"cleanup.policy": topic.cleanup_policy} if topic.cleanup_policy else {},
    )


async def create_at_start(entries: Iterable[str], topics: Topics) -> None:
    """Create the topics that do not exist yet."""
    for topic in map(wanted, entries):
        try:
            outcome = (await topics.create([topic]))[topic.name]
        except (TopicError, LogFailed) as error:
            logger.error(
                "cannot create topic %(topic)s of barnabas.create.topics: %(error)s",
                {"topic": topic.name, "error": error},
            )
            continue
        if isinstance(outcome, TopicError) and outcome.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            logger.error(
                "cannot create topic %(topic)s of barnabas.create.topics: %(error)s",
                {"topic": topic.name, "error": outcome},
            )
