"""The party of rude members sends every request that a member can send, and judges answers."""

import asyncio
import random
from types import SimpleNamespace

import pytest

from protocol.errors import ErrorCode
from protocol.kafka.codec import encode_message
from protocol.messages.heartbeat import HeartbeatRequest
from tests.simulation.clients.rude_members import NOBODY, Rude
from tests.simulation.clients.wire import HANDLER_OF


class Told:
    """A caller whose every answer has one code."""

    def __init__(self, code: int) -> None:
        self.rng = random.Random(7)
        self.name = "rude"
        self.code = code
        self.said: set[str] = set()
        self.found: list[str] = []
        self.context = SimpleNamespace(is_finale=False, lives=[1])
        self.record = SimpleNamespace(fail=lambda _who, what: self.found.append(what))
        self.wire = SimpleNamespace(close=lambda: None)

    def version_of(self, cls, lowest=0):
        handler = HANDLER_OF[cls.MESSAGE.api_key]
        return self.rng.randint(max(lowest, handler.min_version), handler.max_version)

    async def topics(self):
        return [SimpleNamespace(name="t")]

    async def rest(self, _ms):
        pass

    async def ask(self, body, version, **_options):
        encode_message(body, version)
        self.said.add(type(body).__name__.removesuffix("Request"))
        return SimpleNamespace(
            error_code=self.code, member_id="m", generation_id=1, leader="", member_epoch=1
        )


def acted(code: int, steps: int = 400) -> Told:
    caller = Told(code)
    party: list[Rude] = []
    party.append(Rude(caller, party, "g", set()))
    asyncio.run(party[0].act(steps))
    return caller


def test_all_group_requests_are_sent_in_all_versions():
    assert acted(ErrorCode.UNKNOWN_MEMBER_ID).said == {
        "ConsumerGroupHeartbeat",
        "Heartbeat",
        "JoinGroup",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetDelete",
        "SyncGroup",
    }


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR])
def test_codes_of_groups_are_expected(code):
    assert acted(code).found == []


def test_other_codes_are_objections():
    found = acted(ErrorCode.CORRUPT_MESSAGE, 20).found
    assert found
    assert all(": codes [" in one for one in found)


def test_a_member_that_is_none_must_not_be_heard():
    found = acted(ErrorCode.NONE).found
    of_nobody = [one for one in found if "of a member that is none" in one]
    assert of_nobody
    assert all(NOBODY in one for one in of_nobody)


def test_a_generation_that_never_was_must_not_be_heard():
    found = acted(ErrorCode.NONE).found
    said = {one.partition(" of no generation")[0] for one in found if "of no generation" in one}
    assert said == {
        "ConsumerGroupHeartbeatRequest",
        "HeartbeatRequest",
        "OffsetCommitRequest",
        "SyncGroupRequest",
    }


def test_a_member_whose_static_id_another_has_must_not_be_heard():
    caller, fenced = Told(ErrorCode.NONE), set()
    first, second = Rude(caller, [], "g", fenced), Rude(caller, [], "g", fenced)
    first.party = second.party = [first, second]
    first.member_id, first.instance_id = "old", "i0"
    second.member_id, second.instance_id = "new", "i0"
    second._take_over("new")
    body = HeartbeatRequest(group_id="g", generation_id=1, member_id="new", group_instance_id="i0")
    asyncio.run(first._ask(body, 3))
    assert caller.found == []
    body.member_id = "old"
    asyncio.run(first._ask(body, 3))
    assert ["HeartbeatRequest of a fenced member" in one for one in caller.found] == [True]
