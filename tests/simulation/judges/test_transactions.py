"""The judge of transactions objects to torn, early, lost and fenced ones; a disk may excuse it."""

from types import SimpleNamespace

from tests.simulation.group_events import Commit
from tests.simulation.judges.transactions import (
    DRIFT_MIN,
    GRACE_MS,
    MS,
    LateWatch,
    judge,
    not_committed,
    settle,
)
from tests.simulation.record import Record
from tests.simulation.transaction_events import ABORTED_CODE
from tests.support.transaction_history import (
    CommittedRead,
    Instance,
    Outcome,
    Transaction,
    Written,
)

A, B = ("ledger", 0), ("ledger", 1)


def transaction(outcome, *, epoch=3, acks=-1, is_asked=True):
    one = Transaction("producer", "t", 7, epoch, 10, outcome=outcome)
    one.written = [Written(A, [b"a"], acks, 20, 0), Written(B, [b"b"], acks, 21, 5)]
    one.commit_asked_ns = 30 if is_asked else None
    one.done_asked_ns = 30 if outcome is Outcome.COMMITTED else None
    return one


def instance(epoch, answered_ns, who="producer", *, is_init=True, is_again=False):
    return Instance(who, "t", 7, epoch, answered_ns - 1, answered_ns, is_init, is_again)


def at(seen):
    return {key: dict.fromkeys(sorted(values), 0) for key, values in seen.items()}


def found(one, seen, *, may_lose=False, **more):
    record = Record(transactions=[one], **more)
    return judge(record, at(seen), may_lose=may_lose)


def test_what_is_whole_has_no_objection():
    both, none = {A: {b"a", b"x"}, B: {b"b"}}, {A: {b"x"}, B: set()}
    assert found(transaction(Outcome.COMMITTED), both) == []
    assert found(transaction(Outcome.UNKNOWN), both) == []
    assert found(transaction(Outcome.UNKNOWN), none) == []
    assert found(transaction(Outcome.ABORTED), none) == []
    assert found(transaction(Outcome.OPEN), none) == []


def test_a_torn_one():
    (said,) = found(transaction(Outcome.UNKNOWN), {A: {b"a"}, B: set()})
    assert said.endswith("torn: ledger-0 at 0 is seen, ledger-1 at 5 is not")


def test_a_committed_one_that_is_not_seen():
    (said,) = found(transaction(Outcome.COMMITTED), {A: {b"a"}, B: set()})
    assert said.endswith("answered as committed, and ledger-1 at 5 is not seen")


def test_what_is_not_committed_is_not_seen():
    for outcome in (Outcome.ABORTED, Outcome.OPEN):
        (said,) = found(transaction(outcome), {A: set(), B: {b"b"}})
        assert said.endswith(f"{outcome}, and ledger-1 at 5 is seen")


def test_a_batch_that_nobody_waited_for_may_be_lost_with_the_power():
    torn = {A: {b"a"}, B: set()}
    assert found(transaction(Outcome.COMMITTED, acks=1), torn, may_lose=True) == []
    assert found(transaction(Outcome.COMMITTED, acks=1), torn) != []
    assert found(transaction(Outcome.COMMITTED), torn, may_lose=True) != []
    assert found(transaction(Outcome.COMMITTED), torn, may_lose=True, volatile={B}) == []


def test_who_commits_what_it_has_taken_makes_it_durable_first():
    one = transaction(Outcome.COMMITTED, acks=1)
    for one.life, other, is_lost in ((2, 2, True), (2, 1, False), (None, None, False)):
        for written in one.written:
            written.life = other
        assert bool(found(one, {A: {b"a"}, B: set()}, may_lose=True)) == is_lost


def test_no_other_broker_was_asked_to_commit():
    """Then the one that was asked has made all durable before it decided."""
    one, torn = transaction(Outcome.UNKNOWN, acks=1), {A: {b"a"}, B: set()}
    for lives, is_lost in (({2}, True), ({2, 3}, False), ({2, None}, False), (set(), False)):
        one.commit_lives = lives
        for written in one.written:
            written.life = 2
        assert bool(found(one, torn, may_lose=True)) == is_lost


def test_what_was_deleted_need_not_be_seen():
    torn = {A: {b"a"}, B: set()}
    for limit, is_missed in ((5, True), (6, False)):
        said = found(transaction(Outcome.COMMITTED), torn, trims={B: [limit]})
        assert bool(said) == is_missed
    assert found(transaction(Outcome.ABORTED), torn, trims={A: [9], B: [9]}) != []


def test_what_a_later_record_replaces_need_not_be_seen():
    one = transaction(Outcome.COMMITTED)
    one.written[1].values = [b"k:1"]
    for other, is_missed in ((b"k:2", False), (b"j:2", True)):
        seen = {A: {b"a": 0}, B: {other: 9}}
        record = Record(transactions=[one], compacted={B})
        assert bool(judge(record, seen, may_lose=False)) == is_missed
        assert judge(Record(transactions=[one]), seen, may_lose=False) != []
    record = Record(transactions=[one], compacted={B})
    assert judge(record, {A: {b"a": 0}, B: {b"k:2": 4}}, may_lose=False) != []  # it is an older one


def test_what_compaction_removes_whatever_its_key():
    one = transaction(Outcome.ABORTED)
    other = transaction(Outcome.UNKNOWN)
    other.written = [Written(A, [b"x", b"y"], -1, 20, 0)]
    done = transaction(Outcome.COMMITTED)
    done.written = [Written(A, [b"z"], -1, 20, 0)]
    removed, maybe = not_committed(Record(transactions=[one, other, done]), {A: {b"y": 1}, B: {}})
    assert removed == {(A, b"a"), (B, b"b"), (A, b"x")}
    assert maybe == {b"x"}


def test_a_partition_that_was_not_read_is_not_judged():
    assert found(transaction(Outcome.COMMITTED), {A: {b"a"}}) == []


def test_a_record_that_is_seen_too_early():
    one, both = transaction(Outcome.COMMITTED), {A: {b"a"}, B: {b"b"}}
    reads = [CommittedRead(29, "reader", A, [b"a", b"another's"])]
    (said,) = found(one, both, committed_reads=reads)
    assert "whose commit was not asked for" in said
    assert found(one, both, committed_reads=[reads[0]._replace(at_ns=31)]) == []


def test_a_record_that_was_seen_and_is_not_committed():
    reads = [CommittedRead(40, "reader", A, [b"a"])]
    (said,) = found(transaction(Outcome.UNKNOWN), {A: set(), B: set()}, committed_reads=reads)
    assert said.endswith("which is not committed")


def test_a_fenced_producer_commits_nothing():
    both = {A: {b"a"}, B: {b"b"}}
    (said,) = found(transaction(Outcome.COMMITTED), both, instances=[instance(4, 25)])
    assert said.endswith("committed after producer was answered epoch 4")
    (said,) = found(transaction(Outcome.UNKNOWN), both, instances=[instance(4, 20)])
    what = "ledger-1 at 5 was written after producer was answered epoch 4, and is committed"
    assert said == f"producer, epoch 3 of t: {what}"
    for other in (instance(4, 31), instance(3, 15), instance(4, 25, is_init=False)):
        assert found(transaction(Outcome.COMMITTED), both, instances=[other]) == []


def test_an_epoch_that_two_producers_have():
    one = transaction(Outcome.OPEN, is_asked=False)
    again = instance(3, 9, is_again=True)
    assert found(one, {}, instances=[instance(3, 5), again, instance(4, 6, "other")]) == []
    (said,) = found(one, {}, instances=[instance(3, 5), instance(3, 9, "other")])
    assert said == "producer and other are both producer 7, epoch 3"
    assert found(one, {}, instances=[instance(3, 5), instance(3, 9)]) != []


def commit():
    return Commit(
        who="producer", group="g", began_ns=5, topic="t", partition=0, offset=9, metadata=""
    )


def test_offsets_share_the_end_of_their_records():
    for seen, code in ((b"a", 0), (b"x", ABORTED_CODE)):
        one = transaction(Outcome.UNKNOWN)
        one.offsets = [commit()]
        settle(Record(transactions=[one]), at({A: {seen}}), may_lose=False)
        assert one.offsets[0].code == code
    one = transaction(Outcome.OPEN)
    one.offsets = [commit()]
    settle(Record(transactions=[one]), {}, may_lose=False)
    assert one.offsets[0].code == ABORTED_CODE


def test_a_transaction_that_is_open_for_too_long():
    config = SimpleNamespace(transaction_abort_timed_out_transaction_cleanup_interval_ms=200)
    one = SimpleNamespace(
        transactional_id="t", producer_id=7, epoch=3, started_ms=1, timeout_ms=500
    )
    store = SimpleNamespace(open=[one])
    services = SimpleNamespace(
        config=config, has_transactions=True, transactions=SimpleNamespace(store=store)
    )
    broker = SimpleNamespace(_assembly=SimpleNamespace(services=services))
    watch = LateWatch(broker, 0)
    bound_ns = int((900 / DRIFT_MIN + GRACE_MS) * MS)
    watch.look(5)
    watch.look(5 + bound_ns)
    assert watch.found == []
    one.started_ms = 2  # the next one
    watch.look(6 + bound_ns)
    watch.look(8 + 2 * bound_ns)
    assert [said[:20] for said in watch.found] == ["t, epoch 3 is open f"]
