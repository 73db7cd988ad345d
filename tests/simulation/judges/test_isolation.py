"""The judge of isolation objects to errors away from their fault, and to lost connections."""

import pytest

from broker.runtime.metrics import Metrics
from tests.simulation.judges.isolation import Harm, Served, connections, judge
from tests.simulation.record import Refusal

UNKNOWN, CORRUPT, STORAGE, TIMED_OUT = -1, 2, 56, 7


def refusal(code, at_ns=50, api="fetch", topic="t", partition=0):
    return Refusal(at_ns, "client", api, topic, partition, code)


def harmed(*names, at_ns=40):
    harm = Harm()
    harm.look((), at_ns)
    harm.look(names, at_ns + 5)
    return harm


def test_an_error_of_the_disk_needs_a_failure_of_that_partition():
    for code in (CORRUPT, STORAGE):
        assert judge([refusal(code)], harmed("t-0")) == []
        for harm in (Harm(), harmed("t-1"), harmed("other-0"), harmed(""), harmed("t-0", at_ns=60)):
            (found,) = judge([refusal(code)], harm)
            assert found.startswith("fetch of t-0: ")
            assert found.endswith(" at 50 ns, its disk is sound")


def test_the_failure_ends_with_the_next_start():
    harm = harmed("t-0", "t-1")
    harm.started_anew(60, still={"t-1"})
    assert judge([refusal(STORAGE, 55)], harm) == []
    assert len(judge([refusal(STORAGE, 70)], harm)) == 1
    assert judge([refusal(STORAGE, 70, partition=1)], harm) == []
    harm.look({"t-0"}, 80)
    assert judge([refusal(STORAGE, 75)], harm) == []


def test_an_answer_may_be_under_way_while_the_next_broker_starts():
    harm = harmed("t-0")
    harm.started_anew(60)
    late = refusal(STORAGE, 70)
    assert judge([late._replace(since_ns=50)], harm) == []
    assert len(judge([late._replace(since_ns=65)], harm)) == 1


def test_a_topic_fails_with_what_it_needs():
    created = refusal(STORAGE, api="create", partition=-1)
    for name in ("t-3", "", "__cluster_metadata-0"):
        assert judge([created], harmed(name)) == []
    for name in ("other-3", "tt-3"):
        (found,) = judge([created], harmed(name))
        assert found.startswith("create of t: KAFKA_STORAGE_ERROR")
    assert judge([refusal(STORAGE, api="delete records")], harmed("")) == []


def test_an_unforeseen_error_is_never_explained():
    (found,) = judge([refusal(UNKNOWN)], harmed("t-0", "", "__cluster_metadata-0"))
    assert found == "fetch of t-0: UNKNOWN_SERVER_ERROR at 50 ns"


def test_other_codes_are_not_of_the_disk():
    assert judge([refusal(TIMED_OUT), refusal(CORRUPT, api="produce")], Harm()) == []


def test_many_objections_are_counted():
    found = judge([refusal(STORAGE, at) for at in range(30)], Harm())
    assert len(found) == 9
    assert found[-1] == "and 22 more"


@pytest.mark.parametrize(
    "name",
    ["connections_closed_idle", "protocol_errors", "connections_refused"],
)
def test_a_connection_ends_for_a_counted_reason(name):
    ended = [(50, "client 3", "end of stream")]
    metrics = Metrics()
    (found,) = connections(ended, [Served(10, 90, metrics)])
    assert found.startswith(
        "1 connections were ended, 0 are counted; the last was that of client 3"
    )
    setattr(metrics, name, 1)
    assert connections(ended, [Served(10, 90, metrics)]) == []
    assert len(connections([*ended, *ended], [Served(10, 90, metrics)])) == 1


def test_a_connection_ends_with_its_broker():
    ended = [(50, "client 3", "end of stream")]
    assert connections(ended, [Served(10, 50, Metrics()), Served(60, 90, Metrics())]) == []
    assert len(connections(ended, [Served(10, 51, Metrics())])) == 1
