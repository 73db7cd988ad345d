"""What pipelines ask a cluster about topics themselves, with a running broker."""

from __future__ import annotations

import uuid

import pytest

from pyspark_barnabas.wire.cluster import cluster_id, create_topic, topic_configs
from pyspark_barnabas.wire.errors import BrokerRefused


def test_a_topic_is_made_with_partitions_and_configs(topic):
    cluster = topic.cluster
    name = f"t-{uuid.uuid4().hex[:8]}"
    create_topic(cluster, name, 5, {"retention.ms": "-1", "message.timestamp.type": "CreateTime"})
    assert cluster.topics([name]) == {name: [0, 1, 2, 3, 4]}
    wanted = ["retention.ms", "message.timestamp.type", "no.such.config"]
    assert topic_configs(cluster, name, wanted) == {
        "retention.ms": "-1",
        "message.timestamp.type": "CreateTime",
    }
    with pytest.raises(BrokerRefused, match=f"creating the topic {name}.*"):
        create_topic(cluster, name, 5, {})
    with pytest.raises(BrokerRefused, match=r"creating the topic a/b"):
        create_topic(cluster, "a/b", 1, {})


def test_a_cluster_has_one_id(topic):
    assert len(cluster_id(topic.cluster)) == 22
    assert cluster_id(topic.cluster) == cluster_id(topic.cluster)
