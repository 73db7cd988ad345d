"""A classic group as the coordinator, administrators and the next start see it."""

import pytest

from broker.groups.classic import generation
from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.errors import GroupError
from protocol.consumer_protocol import decode_subscribed_topics
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.offset_commit import OffsetCommitRequest
from tests.support.classic_party import REBALANCE_MS, SESSION_MS, Party, protocols
from tests.support.group_host import FakeHost

UNKNOWN, ILLEGAL, REBALANCING = 25, 22, 27

COMMITS = [
    ("Empty", "", -1, None, 0),
    ("Empty", "a", -1, None, 0),
    ("Empty", "a", 0, None, UNKNOWN),
    ("Stable", "", -1, None, UNKNOWN),
    ("Stable", "a", 1, None, 0),
    ("Stable", "a", -1, None, ILLEGAL),
    ("Stable", "a", 0, None, ILLEGAL),
    ("Stable", "x", 1, None, UNKNOWN),
    ("Stable", "a", 1, "s", UNKNOWN),
    ("PreparingRebalance", "a", 1, None, 0),
    ("CompletingRebalance", "a", 1, None, REBALANCING),
    ("CompletingRebalance", "a", 0, None, ILLEGAL),
    ("Dead", "", -1, None, 15),
]


@pytest.mark.parametrize(("state", "member", "generation", "instance_id", "code"), COMMITS)
def test_which_members_may_commit(state, member, generation, instance_id, code):
    party = Party()
    ids: dict[str, str] = {}
    if state in ("Stable", "PreparingRebalance"):
        ids = party.stable("a")
    if state == "PreparingRebalance":
        party.enter("b")
    if state == "CompletingRebalance":
        ids = {"a": party.enter("a")}
        party.host.advance(0)
    if state == "Dead":
        party.group.removed(ErrorCode.NOT_COORDINATOR)
    assert party.state == state
    got = 0
    try:
        body = OffsetCommitRequest(
            group_id="g",
            member_id=ids.get(member, member),
            group_instance_id=instance_id,
            generation_id_or_member_epoch=generation,
        )
        party.group.check_commit(body, [], 9)
    except GroupError as error:
        got = error.code
    assert got == code


def test_a_commit_keeps_a_member_alive():
    party = Party()
    ids = party.stable("a")
    party.host.advance(SESSION_MS - 1)
    party.group.committed(ids["a"])
    party.group.committed("nobody")
    party.host.advance(SESSION_MS - 1)
    assert party.state == "Stable"


def test_subscriptions_of_consumers_and_of_others():
    party = Party()
    party.stable("a", "b", protocols=protocols("range", topics=("t", "u")))
    assert [party.group.is_subscribed_to(name) for name in ("t", "u", "v")] == [True, True, False]
    broken = Party()
    broken.stable("a", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"?")])
    assert broken.group.is_subscribed_to("anything")
    others = Party()
    others.stable("a", protocol_type="connect", protocols=[JoinGroupRequestProtocol(name="x")])
    assert not others.group.is_subscribed_to("t")


def test_when_offsets_expire():
    party = Party()
    assert party.group.expiry() == (None,)
    party.stable("a")
    assert party.group.expiry() == (None,)
    party.enter("b")
    assert party.group.expiry() is None
    party.host.advance(REBALANCE_MS + SESSION_MS)
    party.host.advance(REBALANCE_MS + SESSION_MS)
    assert party.state == "Empty"
    expiry = party.group.expiry()
    assert expiry is not None
    assert expiry.since_ms == party.group.generation.state_since_ms
    connect = Party()
    connect.stable("a", protocol_type="connect", protocols=[JoinGroupRequestProtocol(name="x")])
    assert connect.group.expiry() is None


@pytest.mark.parametrize(
    ("kind", "delete", "offset_delete"),
    [(None, 0, 0), ("consumer", 68, 0), ("connect", 68, 68)],
)
def test_which_deletions_are_allowed(kind, delete, offset_delete):
    party = Party()
    if kind:
        party.stable("a", protocol_type=kind)
    codes = []
    for check in (party.group.check_delete, party.group.check_offset_delete):
        try:
            check()
            codes.append(0)
        except GroupError as error:
            codes.append(error.code)
    assert codes == [delete, offset_delete]


def test_a_stable_generation_continues_from_its_record():
    party = Party()
    ids = party.stable("a", "b", group_instance_id=None)
    key, value = party.host.records[-1]
    again = Party()
    again.group = ClassicGroup.from_record(key.group, value, again.host)
    assert not again.host.timers  # sessions begin once the log is loaded
    again.group.loaded()
    assert again.state == "Stable"
    assert [again.heartbeat(one, 1) for one in ids.values()] == [0, 0]
    assert again.sync("a", ids["a"], 1) == 0
    assert again.synced["a"].assignment == b"a"
    assert again.group.describe() == party.group.describe()
    again.host.advance(SESSION_MS)
    assert again.state == "Empty"


def test_describe():
    party = Party()
    described = party.group.describe()
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "", [])
    party.stable("a")
    (member,) = party.group.describe().members
    assert (member.client_id, member.client_host) == ("a", "/127.0.0.1")
    assert member.member_metadata
    assert member.member_assignment == b"a"
    party.enter("b")
    described = party.group.describe()
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [one.member_metadata for one in described.members] == [b"", b""]


def test_the_records_of_a_new_group_and_of_a_dead_one():
    group = ClassicGroup("g", FakeHost())
    key, value = group.generation.first_record()
    assert (key.group, value.generation, value.protocol_type, value.members) == ("g", 0, "", [])
    assert [value for _, value in group.tombstones()] == [None]


def test_a_subscription_that_many_members_have_is_read_once(monkeypatch):
    read = []

    def decode(data: bytes) -> list[str]:
        read.append(data)
        return decode_subscribed_topics(data)

    monkeypatch.setattr(generation, "decode_subscribed_topics", decode)
    party = Party()
    same = protocols("range", topics=("t", "u"))
    for name in ("a", "b", "c"):
        party.enter(name, protocols=same, version=3)
    party.enter("d", protocols=protocols("range", topics=("v",)), version=3)
    read.clear()
    party.group.generation.begin_next(0)
    assert len(read) == 2
    assert all(map(party.group.is_subscribed_to, ("t", "u", "v")))
