"""The judge of liveness objects to silence, to partitions that refuse, and to a stop that lags."""

from types import SimpleNamespace

import pytest

from protocol.api_keys import ApiKey
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.simulation.clients.topics import Topic
from tests.simulation.clients.wire import Disconnected
from tests.simulation.group_events import Removed
from tests.simulation.judges.liveness import (
    BOUND_MS,
    STOPPED,
    Spans,
    open_deletions,
    overdue,
    owed,
    prove,
    stopped,
    unwoken,
)
from tests.simulation.record import Asked, LongPoll, Record
from tests.simulation.world import MS, TimedOut, World
from tests.support.history_checker import INFO, OK, Send

SOUND = SimpleNamespace(error_code=0, groups=[SimpleNamespace(group_id="g")])


def asked(sent_ms, wait_ms=0):
    return Asked(sent_ms * MS, "fetcher 1", 1, 9, 1, "Fetch 12", wait_ms)


def test_a_request_is_answered_in_time():
    record = Record()
    record.unanswered["fetcher 1", 9] = asked(1_000, 500)
    last_ms = 1_000 + 500 + BOUND_MS
    assert overdue(record, last_ms * MS, 0) == []
    (found,) = overdue(record, (last_ms + 1) * MS, 0)
    assert found.startswith("not answered at ")
    assert "9 Fetch 12 of fetcher 1" in found
    assert overdue(record, (last_ms + 1) * MS, healed_ns=2_000 * MS) == []
    assert len(overdue(record, (last_ms + 1_001) * MS, healed_ns=2_000 * MS)) == 1


def test_a_client_that_left_had_waited_in_vain():
    record = Record()
    record.gave_up.append((asked(1_000), (1_000 + BOUND_MS) * MS))
    assert overdue(record, 10**15, 0) == []
    record.gave_up.append((asked(1_000), (1_001 + BOUND_MS) * MS))
    (found,) = overdue(record, 10**15, 0)
    assert found.startswith("not answered when its client left")


def test_an_answer_is_owed_to_a_client_that_waits_while_the_machine_is_well():
    record, full = Record(), Spans()
    record.owed.append((asked(1_000, 500), 3_500 * MS))
    assert owed(record, 2_000, full) == []
    (found,) = owed(record, 1_999, full)
    assert found.startswith("not answered when its client left")
    full.begin(1_000 * MS)
    full.end(1_001 * MS)
    assert owed(record, 1_999, full) == []
    record.owed.append((asked(1_000)._replace(api_key=ApiKey.JOIN_GROUP), 90_000 * MS))
    assert owed(record, 1_999, full) == []


class Broken:
    """A connection with a script of answers to Produce: codes, or exceptions."""

    def __init__(self, codes, listed=SOUND, described=SOUND):
        self.record = Record()
        self.codes = dict(codes)
        self.answers = {ListGroupsRequest: listed, DescribeGroupsRequest: described}
        self.calls = 0

    async def open(self):
        """Nothing is to be done."""

    def close(self):
        """Nothing is to be done."""

    async def call(self, body, version, timeout_ms, what):
        self.calls += 1
        answer = self.answers.get(type(body))
        if answer is not None:
            return answer
        script = self.codes[what]
        code = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(code, Exception):
            raise code
        part = SimpleNamespace(error_code=code, base_offset=77)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[part])])


def proved(wire, topics, **options):
    world = World("proof")
    proofs = []

    async def act():
        proofs.append(await prove(world, wire, topics, lambda: 5, **options))

    actor = world.spawn("judge", act())
    world.run_until(lambda: actor.ended.is_set)
    assert world.defects == []
    return proofs[0]


def topic(name="t", count=1, **flags):
    return Topic(name, {}, count, topic_id=b"1" * 16, **flags)


def test_healthy_partitions_take_a_batch():
    wire = Broken({"proof of t-0": [0], "proof of t-1": [7, Disconnected("x"), 0]})
    proof = proved(wire, [topic(count=2), Topic("never", {}, 3)])
    assert proof.found == []
    assert proof.taken == {("t", 0): 77, ("t", 1): 77}
    assert [op.outcome for op in wire.record.ops] == [OK, INFO, INFO, OK]
    values = [send.value for op in wire.record.ops for send in op.sends]
    assert len({(op.sends[0].key, op.sends[0].value) for op in wire.record.ops}) == 4, values


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (56, "56"),
        (7, "7"),
        (Disconnected("refused"), "disconnected: refused"),
        (TimedOut(), "no answer within 60000 ms"),
    ],
)
def test_a_partition_that_refuses(answer, text):
    wire = Broken({"proof of t-0": [answer]})
    assert proved(wire, [topic()]).found == [f"t-0 takes no batch: {text}"]
    assert proved(wire, [topic()], damaged={"t-0"}).found == []
    assert len(proved(wire, [topic()], damaged={"t-1"}).found) == 1


def test_a_topic_that_is_gone_is_no_objection():
    for code in (3, 100):
        wire = Broken({"proof of t-0": [code]})
        assert proved(wire, [topic(may_be_gone=True)]).found == []
        assert proved(wire, [topic()]).found == [f"t-0 takes no batch: {code}"]


def test_a_topic_may_go_whose_deletion_was_asked_for_and_not_answered():
    def removed(began_ns, code):
        return Removed(who="d", group="", began_ns=began_ns, topic=f"t{began_ns}", code=code)

    events = [removed(1, None), removed(2, None), removed(3, 0), removed(4, 7), removed(5, 3)]
    assert open_deletions(events, 2) == {"t2", "t4"}
    proof = proved(Broken({"proof of t-0": [0]}), [topic(may_be_gone=True)])
    (key,) = proof.taken
    assert proof.unread({}, {"t"}) == []
    assert proof.unread({}, {"u"}) == [f"{key} was not read back"]


def test_groups_answer():
    failing = SimpleNamespace(error_code=16, groups=[])
    assert proved(Broken({}, listed=failing), []).found == ["groups do not answer: code 16"]
    assert proved(Broken({}, listed=failing), [], has_groups=False).found == []
    assert proved(Broken({}, listed=failing), [], damaged={"__consumer_offsets-1"}).found == []
    assert proved(Broken({}, described=failing), []).found == ["1 groups are listed, 0 described"]


def test_a_batch_that_was_taken_is_read_back():
    proof = proved(Broken({"proof of t-0": [0]}), [topic()])
    log = SimpleNamespace(start_offset=0, batches=[SimpleNamespace(last_offset=77)])
    assert proof.unread({("t", 0): log}) == []
    assert proof.unread({}) == ["('t', 0) was not read back"]
    assert proof.unread({}, {"t"}) == ["('t', 0) was not read back"], "nobody may delete it"
    log.batches[0].last_offset = 76
    assert proof.unread({("t", 0): log}) == ["('t', 0) took a batch at 77 and does not serve it"]
    log.start_offset = 78
    assert proof.unread({("t", 0): log}) == [], "retention has removed it"


def test_a_stop_is_clean_and_says_so():
    assert stopped("stopped", 0, 900, 1_000, ["a", STOPPED]) == []
    assert stopped("stopped", 1, 900, 1_000, [STOPPED]) == [
        "the stop ended as 'stopped' with exit code 1"
    ]
    assert stopped("left", 130, 900, 1_000, [STOPPED])[0].startswith("the stop ended as 'left'")
    assert stopped("stopped", 0, 1_001, 1_000, [STOPPED]) == [
        "the stop took 1001 ms, barnabas.shutdown.deadline.ms 1000"
    ]
    assert stopped("stopped", 0, 1, 1_000, []) == [f"the broker did not say {STOPPED!r}"]


def test_a_fetch_that_waits_is_answered_soon_after_there_is_something():
    record = Record()
    key = ("t", 0)
    record.sent(1, OK, [Send(key, b"v", 7)], (0, 100 * MS))
    record.sent(1, INFO, [Send(key, b"w", None)], (0, 100 * MS))
    for places in ([(key, 8)], [(("t", 1), 0)], []):
        record.long_polls.append(LongPoll("idle", 0, 9_000 * MS, places))
    record.long_polls.append(LongPoll("soon", 0, 1_100 * MS, [(key, 7)]))
    record.long_polls.append(LongPoll("later", 5_000 * MS, 6_000 * MS, [(key, 7)]))
    assert unwoken(record, 1_000) == []
    record.long_polls.append(LongPoll("late", 0, 1_101 * MS, [(("t", 1), 0), (key, 7)]))
    assert unwoken(record, 1_000) == [
        "late waited for ('t', 0) from 7 at 0 ns, 1001 ms longer than it had to"
    ]
    assert unwoken(record, 1_000, {key}) == []
    full = Spans()
    full.begin(50 * MS)
    full.begin(60 * MS)
    full.end(100 * MS)
    full.end(160 * MS)
    assert len(unwoken(record, 1_000, full=full)) == 1, "it was over when the records were there"
    full.begin(500 * MS)
    assert len(unwoken(record, 1_000, full=full)) == 1
    full.end(501 * MS)
    assert unwoken(record, 1_000, full=full) == []
