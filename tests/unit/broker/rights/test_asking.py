"""One request's questions: names, alternatives, and audit lines in Kafka's form."""

import logging

import pytest

from broker.rights.asking import Need
from broker.security.acl.acl_codes import AclOperation, ResourceType
from tests.support.rights_cases import CLUSTER, CREATE, DESCRIBE, TOPIC, grant
from tests.support.rights_rig import RightsRig


def test_a_need_is_named_as_in_the_documentation() -> None:
    need = Need(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE)
    assert str(need) == "TRANSACTIONAL_ID WRITE"


async def test_what_is_refused_is_in_the_log_and_what_is_left_out_is_not(
    rights: RightsRig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await rights.ask("LIST_GROUPS", 4)
    await rights.ask("METADATA", 8, topics=None)
    await rights.ask("OFFSET_FETCH", 9, groups=[])
    assert "is Denied" not in caplog.text
    await rights.ask("METADATA", 8, topics=[{"name": "t"}])
    assert (
        "Principal = User:alice is Denied operation = DESCRIBE from host = 127.0.0.1 on resource ="
        " Topic:LITERAL:t for request = Metadata with resourceRefCount = 1 based on rule"
        " DefaultDeny" in caplog.text
    )


async def test_the_cluster_stands_for_each_topic(rights: RightsRig) -> None:
    rights.allow(grant(CLUSTER, CREATE), grant(TOPIC, DESCRIBE))
    topics = [{"name": "new", "num_partitions": 1, "replication_factor": 1}]
    answer = await rights.ask("CREATE_TOPICS", 7, topics=topics, validate_only=True)
    assert answer.topics[0].error_code == 0
