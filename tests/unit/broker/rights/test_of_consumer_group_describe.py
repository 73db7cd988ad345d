"""ConsumerGroupDescribe: a group is refused for a topic of one of its members."""

from tests.support.rights_cases import DESCRIBE, GROUP, TOPIC, grant
from tests.support.rights_rig import RightsRig


async def test_a_group_with_a_hidden_topic_is_refused(rights: RightsRig) -> None:
    joined = await rights.admin(
        "CONSUMER_GROUP_HEARTBEAT",
        1,
        group_id="cg",
        member_id="me",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_names=["t"],
    )
    assert joined.error_code == 0
    ask = {"group_ids": ["cg", "none"], "include_authorized_operations": True}
    rights.allow(grant(GROUP, DESCRIBE, "cg"))
    hidden, missing = (await rights.ask("CONSUMER_GROUP_DESCRIBE", 1, **ask)).groups
    assert (hidden.group_id, hidden.error_code, hidden.members) == ("cg", 29, [])
    assert (missing.group_id, missing.error_code) == ("none", 30)
    rights.allow(grant(GROUP, DESCRIBE), grant(TOPIC, DESCRIBE, "t"))
    seen, missing = (await rights.ask("CONSUMER_GROUP_DESCRIBE", 1, **ask)).groups
    assert (seen.error_code, len(seen.members), seen.authorized_operations) == (0, 1, 1 << 8)
    assert missing.error_code == 69
