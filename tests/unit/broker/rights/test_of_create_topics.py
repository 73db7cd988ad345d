"""CreateTopics: configs are in the answer for clients that may describe them."""

from tests.support.rights_cases import CREATE, DESCRIBE_CONFIGS, TOPIC, grant
from tests.support.rights_rig import RightsRig


async def test_configs_need_a_right_of_their_own(rights: RightsRig) -> None:
    rights.allow(
        grant(TOPIC, CREATE, "a"), grant(TOPIC, CREATE, "b"), grant(TOPIC, DESCRIBE_CONFIGS, "b")
    )
    topics = [
        {"name": name, "num_partitions": 2, "replication_factor": 1} for name in ("a", "c", "b")
    ]
    answer = await rights.ask("CREATE_TOPICS", 7, topics=topics)
    found = [
        (one.name, one.error_code, one.topic_config_error_code, one.num_partitions)
        for one in answer.topics
    ]
    assert found == [("a", 0, 29, -1), ("c", 29, 0, -1), ("b", 0, 0, 2)]
    assert [bool(one.configs) for one in answer.topics] == [False, False, True]
    assert rights.rig.services.topics.by_name("c") is None
