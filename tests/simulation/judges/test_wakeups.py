"""The judge of lost wake-ups objects to each thing that waits for what is there already."""

from types import SimpleNamespace

import pytest

from broker.network.reading import Hold
from broker.runtime.metrics import Metrics
from broker.runtime.request_queue import RequestQueue
from tests.simulation.judges.wakeups import lost


class Connection:
    """What the judge asks of a connection: one that is read, and holds nothing."""

    def __init__(self, holds=Hold.NONE, *, frames=(), slots=(), transport="open"):
        self.reading = SimpleNamespace(
            holds=holds,
            transport=transport,
            held=bool(holds & ~(Hold.BUDGET | Hold.REFUSED)),
        )
        self.frames, self.slots, self.decoding = frames, slots, None


def broker_with(*connections):
    queue = RequestQueue(2, Metrics())
    processor = SimpleNamespace(name="processor-0", _ready=[], connections=connections)
    partitions = SimpleNamespace(_by_key={})
    services = SimpleNamespace(
        partitions=partitions,
        commit=SimpleNamespace(_waiting=[], _due=[], _due_for_lanes=[], is_flushing=False),
        appends=SimpleNamespace(queued=[]),
    )
    network = SimpleNamespace(queue=queue, budget=SimpleNamespace(full=False))
    return SimpleNamespace(
        _assembly=SimpleNamespace(network=network, services=services),
        _serving=SimpleNamespace(processors=[processor]),
    )


def partition_of(topic, *, is_flushed=False, failed=None):
    return SimpleNamespace(
        log=SimpleNamespace(topic=topic, partition=0, failed=failed),
        flush_started_ns=int(is_flushed),
        flush_scheduled=False,
        queue=(),
    )


def test_a_broker_that_rests_has_lost_nothing():
    waits = Hold.IN_FLIGHT | Hold.ANSWERS
    assert lost(broker_with(Connection(), Connection(waits, frames=[b""], slots=[1]))) == []


def test_requests_and_connections_that_wait_for_the_queue():
    broker = broker_with()
    queue = broker._assembly.network.queue
    queue._items.append(None)
    queue.wait_for_room(None)
    broker._serving.processors[0]._ready.append(None)
    assert lost(broker) == [
        "1 requests are queued, and no worker is awake",
        "1 connections wait for room in an empty queue",
        "1 connections are ready, and processor-0 rests",
    ]


@pytest.mark.parametrize(
    ("hold", "what"),
    [
        (Hold.BUDGET, "the budget of requests"),
        (Hold.QUEUE_FULL, "a full queue"),
        (Hold.IN_FLIGHT, "requests in flight"),
        (Hold.ANSWERS, "answers"),
        (Hold.DECODING, "a thread that decodes"),
    ],
)
def test_a_connection_that_is_held_for_no_reason(hold, what):
    said = f"a connection waits for {what}, and nothing is there to wait for"
    assert lost(broker_with(Connection(hold))) == [said]
    assert lost(broker_with(Connection(hold | Hold.CLOSING))) == []
    assert lost(broker_with(Connection(hold, transport=None))) == []


def test_frames_that_nobody_looks_at():
    said = ["a connection has 1 frames, and nothing holds it"]
    assert lost(broker_with(Connection(frames=[b""]))) == said
    assert lost(broker_with(Connection(Hold.REFUSED, frames=[b""]))) == said, "it is only not read"
    assert lost(broker_with(Connection(Hold.UNSENT, frames=[b""]))) == []


def test_a_full_budget_holds_connections():
    broker = broker_with(Connection(Hold.BUDGET))
    broker._assembly.network.budget.full = True
    assert lost(broker) == []


def test_what_waits_for_a_removed_partition():
    broker = broker_with()
    services = broker._assembly.services
    here, gone, log = partition_of("here"), partition_of("gone"), partition_of("__cluster_metadata")
    services.partitions._by_key = {("here", 0): here, ("gone", 0): partition_of("gone")}
    # The end of a transaction may ask for the flush of a log whose topic is being deleted.
    services.commit._waiting += [here, gone, partition_of("gone", is_flushed=True), log]
    services.appends.queued += [here, gone]
    assert lost(broker) == [
        "requests wait for gone-0, which was removed",
        "appends are queued for gone-0, which was removed",
    ]


def test_who_waits_for_a_log_that_has_failed():
    broker = broker_with()
    services = broker._assembly.services
    failed = partition_of("failed", failed=OSError())
    services.partitions._by_key = {("failed", 0): failed}
    services.commit._waiting.append(failed)
    assert lost(broker) == ["requests wait for failed-0, which has failed"]
    failed.flush_scheduled = True
    assert lost(broker) == []
    failed.flush_scheduled = False
    services.commit._due.append(failed)
    assert lost(broker) == ["requests wait for failed-0, which has failed"], "nothing begins it"
    services.commit.is_flushing = True  # as many rounds as may: the end of one begins it
    assert lost(broker) == []


def test_a_batch_that_a_thread_prepares_may_wait_for_a_log_that_has_failed():
    broker = broker_with()
    services = broker._assembly.services
    failed = partition_of("failed", failed=OSError())
    services.partitions._by_key = {("failed", 0): failed}
    services.appends.queued.append(failed)
    failed.queue = [SimpleNamespace(is_ready=False)]
    assert lost(broker) == []
    failed.queue = [SimpleNamespace(is_ready=True)]
    assert lost(broker) == ["appends are queued for failed-0, which has failed"]
