"""SyncGroup: the handler. Its rules are tested in broker/groups/test_classic.py."""

import pytest

from protocol.messages.sync_group import SyncGroupRequest
from tests.support.group_rig import member
from tests.support.rig_client import ask


@pytest.mark.parametrize(
    ("version", "fields", "code"),
    [
        (5, {}, 23),
        (5, {"protocol_type": "consumer"}, 23),
        (5, {"protocol_name": "range"}, 23),
        (5, {"protocol_type": "consumer", "protocol_name": "range"}, 0),
        (4, {}, 0),
        (4, {"group_id": ""}, 24),
        (4, {"group_id": "no"}, 25),
        (4, {"member_id": "nobody"}, 25),
    ],
)
async def test_answers(group_rig, version, fields, code):
    member_id, generation = await member(group_rig)
    asked = {"group_id": "g", "member_id": member_id, "generation_id": generation, **fields}
    answer = await ask(group_rig, SyncGroupRequest(**asked), version)
    assert answer.error_code == code
    assert answer.assignment == (b"" if code else b"share")
    told = ("consumer", "range") if version >= 5 and not code else (None, None)
    assert (answer.protocol_type, answer.protocol_name) == told
