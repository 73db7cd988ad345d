"""The party of rude members sends every request that a member can send, and judges answers."""

import asyncio
import random
from types import SimpleNamespace

import pytest

from protocol.errors import ErrorCode
from protocol.kafka.codec import encode_message
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
        self.context = SimpleNamespace(is_finale=False)
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
    party.append(Rude(caller, party, "g"))
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
    assert found
    assert all("of a member that is none" in one and NOBODY in one for one in found)
