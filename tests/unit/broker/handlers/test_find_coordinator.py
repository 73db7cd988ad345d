"""FindCoordinator: this broker for groups and transactions, and the refusals of other types."""

import pytest

from broker.metadata.topic_rules import GROUP_TOPIC, TRANSACTION_TOPIC
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask

HERE = (1, "127.0.0.1", 9092)
NOWHERE = (-1, "", -1)


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path, offsets_topic_num_partitions="1", transaction_state_log_num_partitions="1")
    yield made
    await made.close()


@pytest.mark.parametrize(
    ("version", "key_type", "code", "where"),
    [
        (0, 0, 0, HERE),
        (3, 0, 0, HERE),
        (3, 1, 0, HERE),
        (3, 2, 42, NOWHERE),
        (3, 9, 42, NOWHERE),
        (4, 0, 0, HERE),
        (6, 0, 0, HERE),
        (6, 1, 0, HERE),
        (6, 2, 42, NOWHERE),
    ],
)
async def test_the_coordinator_of_each_key_type(rig, version, key_type, code, where):
    body = FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["g"])
    answer = await ask(rig, body, version)
    if version >= 4:
        (answer,) = answer.coordinators
        assert answer.key == "g"
    assert answer.error_code == code
    assert (answer.node_id, answer.host, answer.port) == where
    by_name = rig.services.topics.by_name
    assert (by_name(GROUP_TOPIC) is not None) == (code == 0 and key_type == 0)
    assert (by_name(TRANSACTION_TOPIC) is not None) == (code == 0 and key_type == 1)


async def test_many_keys(rig):
    answer = await ask(rig, FindCoordinatorRequest(coordinator_keys=["a", "", "b"]), 4)
    assert [one.key for one in answer.coordinators] == ["a", "", "b"]


async def test_the_offsets_topic_cannot_be_created(rig, monkeypatch):
    monkeypatch.setattr(rig.services.groups.log, "_config", BadConfig())
    answer = await ask(rig, FindCoordinatorRequest(key="g"), 3)
    assert (answer.error_code, answer.node_id) == (15, -1)


class BadConfig:
    offsets_topic_num_partitions = 1_000_000
    offsets_topic_segment_bytes = 1
