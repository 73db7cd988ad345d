"""ElectLeaders: why no election is needed. Compared with Kafka 4.3.0."""

import pytest

from broker.metadata.topic_rules import NewTopic
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.broker_rig import Rig

NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def elect(*asked: tuple[str, list[int]], **fields: int) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        topic_partitions=[
            TopicPartitions(topic=name, partitions=numbers) for name, numbers in asked
        ],
        **fields,
    )


ALL = ElectLeadersRequest(topic_partitions=None)
CASES = [
    ("a partition has its leader", elect(("t", [0])), 0, [("t", [(0, NOT_NEEDED)])]),
    ("no such partition", elect(("t", [7, -1])), 0, [("t", [(7, UNKNOWN), (-1, UNKNOWN)])]),
    ("no such topic", elect(("nope", [0])), 0, [("nope", [(0, UNKNOWN)])]),
    ("twice", elect(("t", [0, 0])), 0, [("t", [(0, NOT_NEEDED), (0, NOT_NEEDED)])]),
    ("a topic without partitions", elect(("t", [])), 0, [("t", [])]),
    ("unclean", elect(("t", [1]), election_type=1), 0, [("t", [(1, NOT_NEEDED)])]),
    ("nothing asked", elect(), 0, []),
    ("nothing asked in no time", elect(timeout_ms=0), 0, []),
    ("all", ALL, 0, [("t", [])]),
    ("an unknown kind", elect(("t", [0]), election_type=7), 42, [("t", [(0, 42)])]),
    ("all of an unknown kind", ElectLeadersRequest(topic_partitions=None, election_type=7), 42, []),
    ("no time", elect(("t", [0]), timeout_ms=0), 7, [("t", [(0, 7)])]),
]


@pytest.mark.parametrize(("name", "request_", "error", "results"), CASES, ids=[c[0] for c in CASES])
async def test_answers(rig: Rig, name: str, request_: ElectLeadersRequest, error, results) -> None:
    await rig.services.topics.create([NewTopic(name="t", partition_count=2)])
    answer = await rig.call(request_, 2)
    found = [
        (topic.topic, [(one.partition_id, one.error_code) for one in topic.partition_result])
        for topic in answer.replica_election_results
    ]
    assert (answer.error_code, found) == (error, results), name


@pytest.mark.parametrize(
    ("election_type", "leader", "replicas", "code"),
    [
        (0, 1, [2, 1], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (1, 1, [2, 1], NOT_NEEDED),
        (0, -1, [2], ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (1, -1, [2], ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
async def test_partitions_of_a_larger_cluster(
    rig: Rig, election_type: int, leader: int, replicas: list[int], code: ErrorCode
) -> None:
    """Partitions of other brokers are left as they are, and reported so."""
    await rig.services.topics.create([NewTopic(name="t", partition_count=2)])
    (topic,) = rig.services.topics.all()
    topic.partitions[0].leader, topic.partitions[0].replicas = leader, replicas
    answer = await rig.call(elect(("t", [0]), election_type=election_type), 2)
    ((outcome,),) = [topic.partition_result for topic in answer.replica_election_results]
    assert outcome.error_code == code
    everywhere = await rig.call(
        ElectLeadersRequest(topic_partitions=None, election_type=election_type), 1
    )
    (told,) = everywhere.replica_election_results
    assert [one.partition_id for one in told.partition_result] == [0] * (code != NOT_NEEDED)
