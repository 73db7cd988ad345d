"""ListPartitionReassignments: only reassignments that another cluster left in the directory."""

import pytest

from broker.metadata.topic_rules import NewTopic
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.broker_rig import Rig


def asking(*topics: tuple[str, list[int]]) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(
        topics=[
            ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in topics
        ]
    )


ALL = ListPartitionReassignmentsRequest()


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (ALL, {"t": [1]}),
        (asking(("t", [0, 1, 9])), {"t": [1]}),
        (asking(("t", [0])), {}),
        (asking(("nope", [0])), {}),
        (asking(), {}),
    ],
)
async def test_reassignments_left_by_another_cluster(rig: Rig, request_, found) -> None:
    await rig.services.topics.create([NewTopic(name="t", partition_count=2)])
    nothing = await rig.call(request_, 0)
    assert (nothing.error_code, nothing.error_message, nothing.topics) == (0, None, [])
    (topic,) = rig.services.topics.all()
    topic.partitions[1].replicas = [1, 2]
    topic.partitions[1].adding_replicas = [2]
    answer = await rig.call(request_, 0)
    assert {
        topic.name: [one.partition_index for one in topic.partitions] for topic in answer.topics
    } == found
    for told in answer.topics:
        (one,) = told.partitions
        assert (one.replicas, one.adding_replicas, one.removing_replicas) == ([1, 2], [2], [])
