"""More requests that name very many things, each of which other clients need not wait for."""

from broker.handlers import (
    add_partitions_to_txn,
    delete_groups,
    describe_configs,
    describe_topic_partitions,
    update_features,
)
from broker.runtime.steps import finished
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.many_named import MANY, NAMES, TURNS_MIN, asked, turns_during


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


async def test_update_features_of_many(rig):
    many = [FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=1) for name in NAMES]
    body = UpdateFeaturesRequest(feature_updates=many)
    updates, turns = await turns_during(update_features._updates(body))
    assert list(updates) == NAMES
    assert turns >= TURNS_MIN
    level = rig.services.controller.image.feature_levels["metadata.version"]
    one = FeatureUpdateKey(feature="metadata.version", max_version_level=level, upgrade_type=1)
    body.feature_updates, body.validate_only = [one] * MANY, True
    steps = await update_features.handle(*asked(rig, body, 1))
    assert sum(1 for _ in steps) == MANY


async def test_delete_groups_of_many_names(group_rig):
    await group_rig.services.groups.ensure_log()
    body = DeleteGroupsRequest(groups_names=NAMES)
    names, turns = await turns_during(delete_groups._names(body))
    assert names == NAMES
    assert turns >= TURNS_MIN - 1
    steps = await delete_groups.handle(*asked(group_rig, body, 2))
    assert sum(1 for _ in steps) == MANY


async def test_add_partitions_to_txn_of_many_transactions(group_rig):
    transactions = [
        AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=1, producer_epoch=0, topics=[]
        )
        for name in NAMES
    ]
    body = AddPartitionsToTxnRequest(transactions=transactions)
    _, turns = await turns_during(add_partitions_to_txn.handle(*asked(group_rig, body, 5)))
    assert turns >= TURNS_MIN


async def test_add_partitions_to_txn_of_many_topics_without_partitions(rig):
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[]) for name in NAMES]
    refused, turns = await turns_during(add_partitions_to_txn._refused(rig.services, topics, 5))
    assert not refused
    assert turns >= TURNS_MIN
    wanted, turns = await turns_during(add_partitions_to_txn._by_topic(topics))
    assert list(wanted) == NAMES
    assert turns >= TURNS_MIN
