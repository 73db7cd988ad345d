"""FindCoordinator: keys of each type, and no topic that a client without rights has made."""

from pathlib import Path

import pytest

from broker.metadata.topic_rules import GROUP_TOPIC
from tests.support.rights_cases import CLUSTER, CLUSTER_ACTION, DESCRIBE, GROUP, grant
from tests.support.rights_rig import RightsRig


async def test_keys_are_refused_one_by_one(rights: RightsRig) -> None:
    rights.allow(grant(GROUP, DESCRIBE, "h"))
    ask = {"key_type": 0, "coordinator_keys": ["g", "h", "i"]}
    answer = await rights.ask("FIND_COORDINATOR", 4, **ask)
    found = [(one.key, one.error_code, one.node_id) for one in answer.coordinators]
    assert found == [("g", 30, -1), ("h", 0, 1), ("i", 30, -1)]


@pytest.mark.parametrize("version", [3, 4])
async def test_no_topic_is_made_without_a_right(tmp_path: Path, version: int) -> None:
    rights = RightsRig(tmp_path / "data")
    answer = await rights.ask("FIND_COORDINATOR", version, key="g", coordinator_keys=["g"])
    assert (answer.coordinators[0] if version > 3 else answer).error_code == 30
    assert rights.rig.services.topics.by_name(GROUP_TOPIC) is None
    assert await rights.rig.close()


async def test_share_groups_are_for_brokers(rights: RightsRig) -> None:
    ask = {"key_type": 2, "coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAA:0"]}
    assert (await rights.ask("FIND_COORDINATOR", 6, **ask)).coordinators[0].error_code == 31
    rights.allow(grant(CLUSTER, CLUSTER_ACTION))
    assert (await rights.ask("FIND_COORDINATOR", 6, **ask)).coordinators[0].error_code == 42


async def test_an_unknown_type_is_left_to_the_handler(rights: RightsRig) -> None:
    answer = await rights.ask("FIND_COORDINATOR", 4, key_type=9, coordinator_keys=["g"])
    assert answer.coordinators[0].error_code == 42
