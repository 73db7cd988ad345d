"""Classic groups by their requests: joins, syncs, heartbeats, leaves, and timeouts."""

import pytest

from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.classic.rebalance import SYNC_MS_MIN
from broker.groups.errors import GroupError
from protocol.errors import ErrorCode
from tests.support.classic_party import REBALANCE_MS, SESSION_MS, Party, protocols

REQUIRED, UNKNOWN, ILLEGAL, INCONSISTENT = 79, 25, 22, 23
FENCED, REBALANCING, TOO_MANY = 82, 27, 81


# -- joining ---------------------------------------------------------------------------------------


def test_a_first_member_gets_an_id_joins_leads_and_gets_its_assignment():
    party = Party()
    assert party.join("a") == REQUIRED
    member_id = party.joined["a"].member_id
    assert member_id == "a-id1"
    assert party.join("a", member_id) is None
    assert party.state == "PreparingRebalance"
    party.host.advance(0)
    answer = party.joined["a"]
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, member_id)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [one.member_id for one in answer.members] == [member_id]
    assert party.sync("a", member_id, assignments={member_id: b"all"}) == 0
    assert party.synced["a"].assignment == b"all"
    assert party.state == "Stable"


@pytest.mark.parametrize(
    ("version", "instance_id", "code"),
    [(3, None, None), (4, None, REQUIRED), (9, None, REQUIRED), (9, "s", None)],
)
def test_an_id_is_required_of_dynamic_members_from_version_4_on(version, instance_id, code):
    party = Party()
    assert party.join("a", version=version, group_instance_id=instance_id) == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": ""}, INCONSISTENT),
        ({"protocols": []}, INCONSISTENT),
        ({"member_id": "nobody"}, UNKNOWN),
        ({"member_id": "nobody", "group_instance_id": "s"}, UNKNOWN),
    ],
)
def test_requests_that_an_empty_group_refuses(fields, code):
    assert Party().join("a", **fields) == code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": "connect"}, INCONSISTENT),
        ({"protocols": protocols("sticky")}, INCONSISTENT),
        ({"protocols": []}, INCONSISTENT),
        ({"member_id": "nobody"}, UNKNOWN),
        ({}, REQUIRED),
    ],
)
def test_requests_that_a_stable_group_refuses(fields, code):
    party = Party()
    party.stable("a")
    assert party.join("b", **fields) == code
    assert party.state == "Stable"


def test_the_common_protocol_that_most_members_prefer_is_chosen():
    party = Party()
    party.enter("a", protocols=protocols("x", "y", "z"))
    party.enter("b", protocols=protocols("z", "y"))
    party.enter("c", protocols=protocols("q", "z", "y"))
    party.host.advance(0)
    assert {name: answer.protocol_name for name, answer in party.joined.items()} == {
        "a": "z",
        "b": "z",
        "c": "z",
    }


def test_a_new_member_makes_the_others_rejoin():
    party = Party()
    ids = party.stable("a")
    b = party.enter("b")
    assert party.state == "PreparingRebalance"
    assert party.heartbeat(ids["a"]) == REBALANCING
    assert party.join("a", ids["a"]) == 0
    assert party.joined["b"].generation_id == party.joined["a"].generation_id == 2
    assert len(party.joined["a"].members) == 2
    assert party.joined["b"].members == []
    assert party.sync("b", b) is None
    assert party.sync("a", ids["a"], assignments={b: b"B"}) == 0
    assert (party.synced["a"].assignment, party.synced["b"].assignment) == (b"", b"B")


@pytest.mark.parametrize(
    ("who", "same", "code", "state"),
    [
        ("a", True, None, "PreparingRebalance"),  # the leader wants a rebalance
        ("b", True, 0, "Stable"),
        ("b", False, None, "PreparingRebalance"),
    ],
)
def test_rejoining_a_stable_group(who, same, code, state):
    party = Party()
    ids = party.stable("a", "b")
    assert party.joined["a"].leader == ids["a"]
    again = protocols("range") if same else protocols("range", topics=("t", "u"))
    assert party.join(who, ids[who], protocols=again) == code
    assert party.state == state


@pytest.mark.parametrize(("same", "code"), [(True, 0), (False, None)])
def test_rejoining_before_the_assignment(same, code):
    party = Party()
    a, b = party.enter("a"), party.enter("b")
    party.host.advance(0)
    assert party.state == "CompletingRebalance"
    again = protocols("range") if same else protocols("range", topics=("u",))
    assert party.join("b", b, protocols=again) == code
    if same:
        assert (party.joined["b"].generation_id, party.joined["b"].members) == (1, [])
        assert party.join("a", a) == 0
        assert len(party.joined["a"].members) == 2


def test_group_max_size():
    party = Party(group_max_size=2)
    ids = party.stable("a", "b")
    assert party.join("c") == TOO_MANY
    assert party.joined["c"].member_id == ""
    assert party.join("a", ids["a"]) is None


def test_a_group_loaded_above_its_max_size_keeps_the_first_members_to_join():
    full = Party()
    full.stable("a", "b", "c")
    party = Party(group_max_size=2)
    key, value = full.host.records[-1]
    party.group = ClassicGroup.from_record(key.group, value, party.host)
    party.group.loaded()
    ids = [member.member_id for member in value.members]
    assert party.state == "PreparingRebalance"
    assert [party.join(one, one) for one in ids] == [None, None, TOO_MANY]
    party.host.advance(REBALANCE_MS)
    assert len(party.joined[ids[0]].members) == 2


# -- time ------------------------------------------------------------------------------------------


def test_each_new_member_extends_the_initial_rebalance_delay():
    party = Party(group_initial_rebalance_delay_ms=3_000)
    party.enter("a", rebalance_timeout_ms=7_000)
    party.host.advance(2_000)
    party.enter("b", rebalance_timeout_ms=7_000)
    party.host.advance(1_500)
    assert "a" not in party.joined or party.joined["a"].error_code == REQUIRED
    party.host.advance(2_500)
    assert party.joined["a"].generation_id == party.joined["b"].generation_id == 1


def test_a_member_that_does_not_rejoin_in_time_is_removed():
    party = Party()
    ids = party.stable("a", "b")
    party.join("a", ids["a"])
    for _ in range(7):
        party.heartbeat(ids["b"])  # it sends heartbeats, but never rejoins
        party.host.advance(REBALANCE_MS // 7 + 1)
    assert party.joined["a"].generation_id == party.group.generation.generation_id
    assert list(party.group.generation.roster.members) == [ids["a"]]
    assert party.heartbeat(ids["b"]) == UNKNOWN


def test_the_group_waits_for_a_static_member_until_its_session_ends():
    party = Party()
    ids = party.stable("a", "s", group_instance_id=None)
    static = party.enter("st", group_instance_id="s", session_timeout_ms=300_000)
    party.join("a", ids["a"])
    party.join("s", ids["s"])
    static = party.joined["st"].member_id
    party.join("a", ids["a"], protocols=protocols("range", topics=("x",)))
    party.join("s", ids["s"])
    party.host.advance(REBALANCE_MS)
    assert static in party.group.generation.roster.members
    assert party.state == "CompletingRebalance"


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout():
    party = Party()
    ids = party.stable("a", "b")
    party.host.advance(SESSION_MS - 1)
    assert party.heartbeat(ids["a"]) == 0
    party.host.advance(1)
    assert party.state == "PreparingRebalance"
    assert party.heartbeat(ids["a"]) == REBALANCING
    assert party.heartbeat(ids["b"]) == UNKNOWN
    assert party.join("a", ids["a"]) == 0


def test_the_last_member_leaves_an_empty_group_in_the_log():
    party = Party()
    party.stable("a")
    party.host.advance(SESSION_MS)
    assert party.state == "Empty"
    key, value = party.host.records[-1]
    assert (key.group, value.generation, value.members) == ("g", 2, [])
    assert (value.protocol, value.protocol_type, value.leader) == (None, "consumer", None)


def test_the_group_waits_for_a_pending_member_until_its_session_ends():
    party = Party()
    ids = party.stable("a")
    assert party.join("b") == REQUIRED
    assert party.join("a", ids["a"]) is None
    party.host.advance(SESSION_MS - 1)
    assert "a" not in party.joined
    party.host.advance(1)
    assert party.joined["a"].generation_id == 2


def test_a_new_member_that_waits_is_removed_after_five_minutes():
    party = Party()
    ids = party.stable("a", rebalance_timeout_ms=900_000, session_timeout_ms=900_000)
    party.enter("b", rebalance_timeout_ms=900_000)
    party.host.advance(299_999)
    party.heartbeat(ids["a"])
    assert "b" not in party.joined or party.joined["b"].error_code == REQUIRED
    party.host.advance(1)
    assert party.joined["b"].error_code == UNKNOWN


def test_a_new_member_stays_that_is_answered_as_its_five_minutes_end():
    party = Party()
    ids = party.stable("a", rebalance_timeout_ms=900_000, session_timeout_ms=100_000)
    b = party.enter("b", rebalance_timeout_ms=900_000)
    for wait_ms in (99_000, 51_000, 50_000):
        party.host.advance(wait_ms)
        assert party.heartbeat(ids["a"]) == REBALANCING
    party.host.advance(100_000)  # both deadlines; without a, all members have joined
    answer = party.joined["b"]
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 2, b)
    assert party.sync("b", b, assignments={b: b"all"}) == 0


def test_members_that_do_not_sync_are_removed():
    party = Party()
    a, b = party.enter("a"), party.enter("b")
    party.host.advance(0)
    party.sync("b", b)
    for _ in range(7):
        party.heartbeat(a)
        party.host.advance(REBALANCE_MS // 7 + 1)
    assert list(party.group.generation.roster.members) == [b]
    assert party.synced["b"].error_code == REBALANCING


def test_heartbeats_set_no_timer():
    party = Party()
    ids = party.stable("a", "b", session_timeout_ms=10_000)
    armed = party.host.alarm_count
    for _ in range(30):
        party.host.advance(1_000)
        assert party.heartbeat(ids["a"]) == party.heartbeat(ids["b"]) == 0
    assert party.host.alarm_count - armed <= 6  # about one per session


# -- static members --------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "skips"), [(9, True), (8, False)])
def test_a_static_leader_that_restarts_takes_its_place_without_a_rebalance(version, skips):
    party = Party()
    ids = party.stable("a", group_instance_id="s")
    written = len(party.host.records)
    assert party.join("new", version=version, group_instance_id="s") == 0
    answer = party.joined["new"]
    assert party.state == "Stable"
    assert answer.member_id != ids["a"]
    assert (answer.generation_id, answer.skip_assignment, len(answer.members)) == (1, skips, skips)
    assert answer.leader == (answer.member_id if skips else ids["a"])
    assert len(party.host.records) == written + 1
    assert party.sync("new", answer.member_id) == 0
    assert party.synced["new"].assignment == b"a"
    assert party.heartbeat(ids["a"], group_instance_id="s") == FENCED
    assert party.sync("old", ids["a"], group_instance_id="s") == FENCED
    assert party.join("old", ids["a"], group_instance_id="s") == FENCED
    assert party.heartbeat(answer.member_id, group_instance_id="s") == 0


def test_a_static_member_takes_over_while_the_old_one_waits():
    party = Party()
    party.stable("a")
    assert party.join("s1", group_instance_id="s") is None
    assert party.join("s2", group_instance_id="s") is None
    assert party.joined["s1"].error_code == FENCED


def test_a_failed_write_of_a_static_member_restores_the_old_one():
    party = Party()
    ids = party.stable("a", group_instance_id="s")
    party.host.holds = True
    assert party.join("new", group_instance_id="s") is None
    party.host.flush(ErrorCode.NOT_COORDINATOR)
    assert party.joined["new"].error_code == ErrorCode.NOT_COORDINATOR
    assert party.heartbeat(ids["a"], group_instance_id="s") == 0
    party.host.refuses = ErrorCode.UNKNOWN_SERVER_ERROR
    assert party.join("new", group_instance_id="s") == ErrorCode.UNKNOWN_SERVER_ERROR
    assert party.heartbeat(ids["a"], group_instance_id="s") == 0


def test_a_static_member_that_takes_over_with_another_protocol_begins_a_rebalance():
    party = Party()
    party.stable("a", group_instance_id="s", protocols=protocols("range", "sticky"))
    changed = protocols("sticky", "range")
    assert party.join("new", group_instance_id="s", protocols=changed) == 0
    assert party.joined["new"].protocol_name == "sticky"
    assert party.group.generation.generation_id == 2


# -- syncing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member_id": "nobody"}, UNKNOWN),
        ({"generation": 7}, ILLEGAL),
        ({"group_instance_id": "s"}, UNKNOWN),
        ({"protocol_type": "connect"}, INCONSISTENT),
        ({"protocol_name": "sticky"}, INCONSISTENT),
        ({"protocol_type": "consumer", "protocol_name": "range"}, 0),
    ],
)
def test_syncs_that_are_refused(fields, code):
    party = Party()
    ids = party.stable("a")
    assert party.sync("x", fields.pop("member_id", ids["a"]), **fields) == code


def test_sync_of_an_empty_group_and_of_one_that_rebalances():
    party = Party()
    assert party.sync("a", "nobody") == UNKNOWN
    ids = party.stable("a")
    party.enter("b")
    assert party.sync("a", ids["a"]) == REBALANCING


def test_assignments_are_answered_once_they_are_durable():
    party = Party()
    a, b = party.enter("a"), party.enter("b")
    party.host.advance(0)
    party.host.holds = True
    assert party.sync("b", b) is None
    assert party.sync("a", a, assignments={a: b"A", b: b"B"}) is None
    assert party.state == "CompletingRebalance"
    party.host.flush()
    assert party.state == "Stable"
    assert (party.synced["a"].assignment, party.synced["b"].assignment) == (b"A", b"B")


@pytest.mark.parametrize("at_once", [True, False])
def test_assignments_that_cannot_be_written_are_dropped(at_once):
    party = Party()
    a, b = party.enter("a"), party.enter("b")
    party.host.advance(0)
    party.sync("b", b)
    if at_once:
        party.host.refuses = ErrorCode.UNKNOWN_SERVER_ERROR
    party.host.holds = True
    party.sync("a", a, assignments={a: b"A", b: b"B"})
    party.host.flush(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert party.synced["a"].error_code == party.synced["b"].error_code == -1
    assert party.state == "PreparingRebalance"
    assert party.synced["b"].assignment == b""


def test_assignments_that_become_durable_in_another_generation_are_dropped():
    party = Party()
    a = party.enter("a")
    party.host.advance(0)
    party.host.holds = True
    party.sync("a", a, assignments={a: b"A"})
    party.enter("b")
    assert party.synced["a"].error_code == REBALANCING
    party.join("a", a)
    party.host.flush()
    assert party.state == "CompletingRebalance"


# -- leaving, heartbeats ---------------------------------------------------------------------------


def test_leaving():
    party = Party()
    ids = party.stable("a", "b", "c")
    assert party.leave(("nobody", None), ("", None), ("", "s")) == [UNKNOWN] * 3
    assert party.state == "Stable"
    assert party.leave((ids["b"], None), (ids["c"], "s")) == [0, UNKNOWN]
    assert party.state == "PreparingRebalance"
    assert party.leave((ids["a"], None)) == [0]
    assert party.joined["c"].error_code == 0
    assert party.leave((ids["c"], None)) == [0]
    assert party.state == "Empty"


def test_a_pending_member_leaves_and_a_static_one_is_removed_by_its_instance_id():
    party = Party()
    party.stable("s", group_instance_id="s")
    assert party.join("p") == REQUIRED
    assert party.leave((party.joined["p"].member_id, None)) == [0]
    assert party.leave(("nobody", "s")) == [FENCED]
    assert party.leave(("", "s")) == [0]
    assert party.state == "Empty"


def test_a_waiting_member_that_is_removed_gets_an_answer():
    party = Party()
    party.stable("a")
    b = party.enter("b")
    party.leave((b, None))
    assert party.joined["b"].error_code == UNKNOWN


@pytest.mark.parametrize(
    ("member", "generation", "instance_id", "code"),
    [
        ("a", 1, None, 0),
        ("a", 0, None, ILLEGAL),
        ("a", 2, None, ILLEGAL),
        ("nobody", 1, None, UNKNOWN),
        ("a", 1, "s", UNKNOWN),
    ],
)
def test_heartbeats_of_a_stable_group(member, generation, instance_id, code):
    party = Party()
    ids = party.stable("a")
    asked = ids.get(member, member)
    assert party.heartbeat(asked, generation, group_instance_id=instance_id) == code


def test_a_join_that_waits_is_answered_when_its_member_joins_again():
    """Its client has given it up, or waits for this answer before the next one."""
    party = Party()
    ids = party.stable("a", "b")
    assert party.join("given up", ids["b"], protocols=protocols("range", topics=("u",))) is None
    assert party.join("b", ids["b"], protocols=protocols("range", topics=("u",))) is None
    given_up = party.joined["given up"]
    assert (given_up.error_code, given_up.member_id) == (REBALANCING, ids["b"])
    assert party.join("a", ids["a"]) == 0
    assert party.joined["b"].error_code == 0


def test_a_sync_that_waits_is_answered_when_its_member_syncs_again():
    party = Party()
    ids = {name: party.enter(name) for name in ("a", "b")}
    party.host.advance(0)
    leader = party.joined["a"].leader
    name = "b" if leader == ids["a"] else "a"
    assert party.sync("given up", ids[name]) is None
    assert party.sync(name, ids[name]) is None
    assert party.synced["given up"].error_code == REBALANCING
    party.sync("leader", leader, assignments={ids[name]: b"share"})
    assert party.synced[name].assignment == b"share"


def test_a_dead_group_refuses_members_and_leaves_no_request_waiting():
    party = Party()
    ids = party.stable("a")
    party.enter("b")
    party.group.removed(ErrorCode.NOT_COORDINATOR)
    assert party.joined["b"].error_code == ErrorCode.NOT_COORDINATOR
    assert party.heartbeat(ids["a"]) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert party.join("c") == party.sync("a", ids["a"]) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(GroupError):
        party.leave((ids["a"], None))
    assert all(timer.cancelled for timer in party.host.timers)


def test_a_rebalance_timeout_of_zero_leaves_the_time_to_sync():
    for wait_ms, code in ((SYNC_MS_MIN - 1, 0), (SYNC_MS_MIN, UNKNOWN)):
        party = Party()
        member_id = party.enter("a", rebalance_timeout_ms=0)
        party.host.advance(0)
        assert party.state == "CompletingRebalance"
        party.host.advance(wait_ms)
        assert party.sync("a", member_id, assignments={member_id: b"x"}) == code
