"""More requests that name very many things, each of which other clients need not wait for."""

from broker.handlers import (
    describe_configs,
    describe_topic_partitions,
)
from broker.runtime.steps import finished
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.support.many_named import MANY, NAMES, asked


async def test_describe_topic_partitions_of_many_names(rig):
    """They are read, sorted and answered in steps, whether the cursor is good or not."""
    topics = [TopicRequest(name=name) for name in NAMES]
    body = DescribeTopicPartitionsRequest(topics=topics)
    per_step = describe_topic_partitions.NAMES_PER_STEP
    ordered = sorted(NAMES)
    for cursor, expected in (
        (None, ordered),
        (Cursor(topic_name=ordered[MANY // 2], partition_index=0), ordered[MANY // 2 :]),
        (Cursor(topic_name="n", partition_index=0), NAMES),  # which is none of them: refused
    ):
        body.cursor = cursor
        steps = sum(1 for _ in describe_topic_partitions.handle(*asked(rig, body, 0)))
        assert steps >= 2 * MANY + (MANY // per_step if expected is not NAMES else 0)
        response = finished(describe_topic_partitions.handle(*asked(rig, body, 0)))
        assert [topic.name for topic in response.topics] == expected


async def test_describe_configs_of_many_keys(rig):
    resource = DescribeConfigsResource(
        resource_type=2, resource_name="nope", configuration_keys=NAMES
    )
    body = DescribeConfigsRequest(resources=[resource])
    steps = sum(1 for _ in describe_configs.handle(*asked(rig, body, 4)))
    assert steps >= MANY // describe_configs.KEYS_PER_STEP
