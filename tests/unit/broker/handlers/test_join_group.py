"""JoinGroup: the handler. Ids, session timeouts, and answers in old versions."""

import pytest

from protocol.messages.join_group import JoinGroupRequest
from tests.support.classic_party import protocols
from tests.support.group_rig import member
from tests.support.rig_client import ask


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, 24),
        ({"session_timeout_ms": 5_999}, 26),
        ({"session_timeout_ms": 1_800_001}, 26),
        ({"session_timeout_ms": 6_000}, 79),
        ({"member_id": "nobody"}, 25),
        ({"protocols": []}, 23),
    ],
)
@pytest.mark.parametrize("version", [4, 9])
async def test_refusals(group_rig, fields, code, version):
    asked = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
        **fields,
    }
    answer = await ask(group_rig, JoinGroupRequest(**asked), version)
    assert answer.error_code == code
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])


async def test_a_client_is_described_as_kafka_does(group_rig):
    await member(group_rig)
    group = group_rig.services.groups.group("g")
    (described,) = group.describe().members
    assert (described.client_id, described.client_host) == ("test", "/127.0.0.1")
    assert described.member_id.startswith("test-")


async def test_without_a_rebalance_timeout_the_session_timeout_applies(group_rig):
    body = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=7_000,
        protocol_type="consumer",
        protocols=protocols("range"),
    )
    answer = await ask(group_rig, body, 0)
    group = group_rig.services.groups.group("g")
    assert group.generation.roster.members[answer.member_id].rebalance_timeout_ms == 7_000
