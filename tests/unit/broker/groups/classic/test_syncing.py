"""SyncGroup: a generation has one assignment, in memory and in the log."""

from protocol.errors import ErrorCode
from tests.support.classic_party import Party


def test_the_first_assignment_of_a_generation_stays_when_its_leader_syncs_again():
    """The log must end with what the members have, or a restart gives partitions to two of them."""
    party = Party()
    a, b = party.enter("a"), party.enter("b")
    party.host.advance(0)
    party.host.holds = True
    assert party.sync("b", b) is None
    assert party.sync("given up", a, assignments={a: b"A", b: b"B"}) is None
    assert party.sync("a", a, assignments={a: b"B", b: b"A"}) is None
    party.host.flush()
    told = {name: party.synced[name].assignment for name in ("a", "b")}
    assert told == {"a": b"A", "b": b"B"}
    _, value = party.host.records[-1]
    assert {member.member_id: member.assignment for member in value.members} == {
        a: b"A",
        b: b"B",
    }


def test_the_leader_of_the_generation_after_a_failed_assignment_assigns_again():
    party = Party()
    a = party.enter("a")
    party.host.advance(0)
    party.host.refuses = ErrorCode.NOT_COORDINATOR
    assert party.sync("a", a, assignments={a: b"A"}) == ErrorCode.NOT_COORDINATOR
    party.join("a", a)
    assert party.sync("a", a, assignments={a: b"B"}) == 0
    assert party.synced["a"].assignment == b"B"
