"""JoinGroup: static members that are replaced while a write or a rebalance is under way."""

import pytest

from protocol.errors import ErrorCode
from tests.support.classic_party import SESSION_MS, Party, protocols

REQUIRED, REBALANCING = ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_rebalance_overtakes_the_write_of_a_static_member(code):
    """Its JoinGroup counts for the rebalance, however late the write ends and however it does."""
    party = Party()
    party.stable("a", group_instance_id="s")
    party.host.holds = True
    assert party.join("new", group_instance_id="s") is None
    b = party.enter("b")
    new = party.joined["new"]
    assert (new.error_code, new.generation_id) == (0, 2)
    party.joined.clear()
    party.host.flush(code)
    assert party.joined == {}, "no request is answered twice"
    assert party.heartbeat(new.member_id, 2, group_instance_id="s") == 0
    party.sync("new", new.member_id, group_instance_id="s", assignments={b: b"B"})
    party.host.flush()
    assert party.state == "Stable"


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_static_member_waits_while_a_rebalance_waits_for_others(code):
    party = Party()
    ids = party.stable("a", "b", group_instance_id=None)
    party.leave((ids["b"], None))
    party.join("a", ids["a"])
    party.sync("a", ids["a"])
    party.join("s", group_instance_id="s", protocols=protocols("range", "sticky"))
    party.join("a", ids["a"])
    leader = party.joined["a"].leader
    party.sync("a", leader, assignments={})
    party.host.holds = True
    assert party.join("s2", group_instance_id="s", protocols=protocols("range")) is None
    party.enter("c")
    assert party.state == "PreparingRebalance"
    party.host.flush(code)
    assert "s2" not in party.joined, "it waits for the next generation"
    party.join("a", ids["a"])
    assert party.joined["s2"].error_code == 0
    assert party.heartbeat(party.joined["s2"].member_id, group_instance_id="s") == 0


def test_a_group_that_ends_during_the_write_of_a_static_member_keeps_no_timer():
    for code in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
        party = Party()
        party.stable("a", group_instance_id="s")
        party.host.holds = True
        party.join("new", group_instance_id="s")
        party.group.removed(ErrorCode.NOT_COORDINATOR)
        assert party.joined.pop("new").error_code == ErrorCode.NOT_COORDINATOR
        party.host.flush(code)
        assert party.joined.keys() == {"a"}
        assert all(timer.cancelled for timer in party.host.timers)


def test_the_successor_of_a_new_static_member_waits_for_longer_than_its_session():
    party = Party()
    ids = party.stable("a")
    party.join("s1", group_instance_id="s")
    party.join("s2", group_instance_id="s")
    for _ in range(3):
        party.host.advance(SESSION_MS - 1)
        assert party.heartbeat(ids["a"]) == REBALANCING
    assert "s2" not in party.joined
    party.join("a", ids["a"])
    assert party.joined["s2"].error_code == 0


def test_an_id_that_waits_for_its_dynamic_member_is_of_no_static_one():
    party = Party()
    party.stable("a", group_instance_id="s")
    for instance_id in ("s", "t"):
        assert party.join("b") == REQUIRED
        pending = party.joined["b"].member_id
        assert party.join("b", pending, group_instance_id=instance_id) == -1
        assert party.state == "Stable"


def test_a_rebalance_timeout_of_zero_does_not_ask_for_static_members_without_a_pause():
    party = Party()
    fields = {"rebalance_timeout_ms": 0, "session_timeout_ms": 300_000}
    party.stable("a", group_instance_id="s", **fields)
    host = party.host
    party.group.rebalance.prepare()
    (over,) = (timer for timer in host.timers if timer.due_ns == host.clock.monotonic_ns())
    over.call()
    assert party.state == "PreparingRebalance"
    live = [timer.due_ns for timer in host.timers if not timer.cancelled and timer is not over]
    assert min(live) > host.clock.monotonic_ns()
