"""DeleteGroups: which groups can be deleted; deleted groups stay deleted."""

from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.support.broker_rig import Rig
from tests.support.group_rig import commit, committed, find, member
from tests.support.rig_client import ask, crash, create


async def test_groups_are_deleted_with_their_offsets_and_stay_deleted(tmp_path):
    rig = Rig(tmp_path, offsets_topic_num_partitions="1")
    await create(rig)
    await find(rig)
    await commit(rig, ("t", 0, 1), group_id="a")
    await commit(rig, ("t", 0, 2), group_id="b")
    await member(rig)
    names = ["a", "g", "no", "a"]
    answer = await ask(rig, DeleteGroupsRequest(groups_names=names), 2)
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("a", 0),
        ("g", 68),
        ("no", 69),
    ]
    await crash(rig)
    again = Rig(tmp_path)
    await again.loading
    assert await committed(again, group="a") == {}
    assert await committed(again, group="b") == {("t", 0): 2}
    assert {group.group_id for group in again.services.groups.groups()} == {"b", "g"}
    await again.close()


async def test_a_failed_tombstone_keeps_the_group(tmp_path, monkeypatch):
    rig = Rig(tmp_path, offsets_topic_num_partitions="1")
    await create(rig)
    await find(rig)
    await commit(rig, ("t", 0, 1), group_id="a")
    log = rig.services.groups.log.partition(0).log
    log.update_config(log.config.with_overrides({"max.message.bytes": "1"}))
    answer = await ask(rig, DeleteGroupsRequest(groups_names=["a"]), 2)
    assert answer.results[0].error_code == 16
    assert await committed(rig, group="a") == {("t", 0): 1}
    await rig.close()
