"""The judge of resources objects to each thing that is held, and to each bound that is passed."""

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from broker.lifecycle.environment import system_environment
from broker.network.reading import Hold
from broker.runtime import owners
from broker.runtime.owners import Owner
from broker.server import Broker
from tests.simulation.judges import resources
from tests.simulation.judges.resources import Sampler, at_rest
from tests.support import failures
from tests.support.broker_rig import Rig
from tests.support.classic_party import Party
from tests.support.rig_client import create
from tests.support.whole_broker import api_versions, loaded, port_of, served


@pytest.fixture
async def broker(tmp_path):
    settings = loaded(tmp_path, "queued.max.requests=3", "max.connections=2")
    broker = Broker(settings, system_environment())
    task = await served(broker)
    await asyncio.sleep(0.01)
    yield broker
    broker._signals.stop.set()
    assert await task == 0
    failures.take()  # the broker takes the task of this fixture for one of its own


@pytest.fixture
async def connected(broker):
    """Return a connection of the broker."""
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(broker))
    (processor,) = [one for one in broker._serving.processors if await has(one)]
    (connection,) = processor.connections
    yield connection
    writer.close()
    await writer.wait_closed()
    while processor.connections:
        await asyncio.sleep(0.001)


async def has(processor):
    await asyncio.sleep(0.01)
    return bool(processor.connections)


async def test_a_broker_at_rest_holds_nothing(broker):
    sampler = Sampler(broker)
    sampler.look()
    await api_versions(port_of(broker))
    await asyncio.sleep(0.05)
    sampler.look()
    assert sampler.found == []
    assert at_rest(broker, sampler.known_tasks, descriptors=3) == []


async def test_what_is_left(broker):
    sampler = Sampler(broker)
    services, network = broker._assembly.services, broker._assembly.network
    network.limits.admit("10.0.0.1")
    network.budget.take(7)
    services.record_work._running += 1
    services.logs.home.unflushed_bytes += 5
    services.appends._loading.add(None)
    broker._serving.processors[0]._ready.append(None)
    found = at_rest(broker, sampler.known_tasks, descriptors=900)
    broker._serving.processors[0]._ready.clear()
    services.appends._loading.clear()
    services.logs.home.unflushed_bytes -= 5
    services.record_work._running -= 1
    network.budget.give_back(7)
    network.limits.leave("10.0.0.1")
    assert sorted(found) == sorted(
        [
            "at rest: 1 connections counted against their limit",
            "at rest: 1 addresses of clients",
            "at rest: 7 request bytes",
            "at rest: 1 walks over records",
            "at rest: 5 bytes unflushed",
            "at rest: 1 partitions whose end is loaded",
            "at rest: 1 connections ready",
            f"at rest: 900 descriptors, {len(services.logs.home.files)} of them of logs",
        ]
    )


async def test_files_that_should_have_been_evicted(broker):
    files = broker._assembly.services.logs.home.files
    known = Sampler(broker).known_tasks
    capacity, files.capacity = files.capacity, 0
    sampler = Sampler(broker)
    sampler.look()
    found = at_rest(broker, known)
    files.over_capacity_count += 1
    assert at_rest(broker, known) == []
    files.capacity, files.over_capacity_count = capacity, 0
    assert sampler.found == [f"{len(files)} files are open, the most is 0"]
    assert found == [f"at rest: {len(files)} open files, the most is 0"]


async def test_tasks_and_timers(broker):
    known = Sampler(broker).known_tasks
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(asyncio.sleep(60), name="forgotten")
    timer = owners.later(Owner.PARKED_FETCH, 60, print)
    ticker = owners.later(Owner.TICKER, 60, print)
    found = at_rest(broker, known, loop)
    assert found[0] == "at rest: task 'forgotten', 1 of them"
    assert len(found) == 2
    assert found[1].startswith("at rest: a timer of PARKED_FETCH")
    timer.cancel()
    ticker.cancel()
    task.cancel()
    await asyncio.sleep(0.01)
    assert at_rest(broker, known, loop) == []
    assert at_rest(broker, known + Counter(["retention"]), loop) == [
        "at rest: task 'retention' has ended"
    ]


async def test_bounds_that_are_passed(broker, connected):
    services, network = broker._assembly.services, broker._assembly.network
    sampler = Sampler(broker, read_bytes_max=100)
    network.queue._items.extend([None] * 4)
    connected.slots.extend([Answered()] * 99)
    services.record_work._running = 3
    broker._serving.processors[0].frame_pool.kept_bytes = 1 << 30
    network.limits.count += 2
    network.budget.used_bytes = connected.account.request_bytes = network.budget.limit_bytes + 105
    sampler.look()
    network.budget.used_bytes = connected.account.request_bytes = network.budget.limit_bytes + 104
    again = Sampler(broker, read_bytes_max=100)
    again.look()
    network.budget.used_bytes = connected.account.request_bytes = 0
    network.limits.count -= 2
    broker._serving.processors[0].frame_pool.kept_bytes = 0
    services.record_work._running = 0
    connected.slots.clear()
    network.queue._items.clear()
    limit, most = network.budget.limit_bytes, network.settings.in_flight_max
    assert [one for one in sampler.found if "holds" not in one] == [
        "4 requests are queued, queued.max.requests is 3",
        f"99 requests of a connection in flight, the most is {most}",
        "3 walks over records at once, the most is 2",
        f"{1 << 30} bytes are kept for later frames",
        f"{limit + 105} request bytes, queued.max.request.bytes is {limit}",
        "3 connections, max.connections is 2",
    ]
    assert not any("queued.max.request.bytes" in one for one in again.found), "4 are a size's"


class Answered:
    """A request that is answered."""

    buffers = ()


async def test_answers_of_a_connection(broker, connected):
    share = connected.account._share_bytes
    open_requests = [Unanswered(10**12), Unanswered(share), Unanswered(1)]
    sampler = Sampler(broker)
    connected.slots.extend([*open_requests[:2], Answered()])
    sampler.look()
    connected.slots.append(open_requests[2])
    connected.account.keep(3)
    sampler.look()
    connected.account.let_go(3)
    connected.slots.clear()
    said = [one for one in sampler.found if "answer" in one]
    share_passed = f"{share + 1} bytes may be answered behind a request, a connection's share is"
    assert said == [
        f"{share_passed} {share}",
        "a connection counts 3 answer bytes and holds 0",
    ]


class Unanswered:
    """A request without an answer."""

    buffers = None
    frame_bytes = 0

    def __init__(self, answer_bytes_max):
        self.answer_bytes_max = answer_bytes_max


async def test_unflushed_bytes(broker):
    services = broker._assembly.services
    sampler = Sampler(broker, batch_bytes_max=10)
    log = Log()
    partitions, services.partitions = services.partitions, Logs([Held(log)])
    try:
        services.appends._unflushed_bytes_max, before = 90, services.appends._unflushed_bytes_max
        sampler.look()
        assert sampler.found == []
        log.unflushed_bytes = 101
        sampler.look()
        assert sampler.found == ["101 bytes are unflushed, barnabas.unflushed.bytes.max is 90"]
        log.write_caching = True
        sampler.look()
        log.write_caching = False
        sampler.look()
        assert len(sampler.found) == 1, "what was cached may be above the bound afterwards"
    finally:
        services.appends._unflushed_bytes_max = before
        services.partitions = partitions


class Log:
    """What the judge asks of a log."""

    topic, partition = "t", 0
    write_caching = False
    unflushed_bytes = 100


class Held:
    """A partition."""

    queue = waiters = watchers = ()

    def __init__(self, log):
        self.log = log


class Logs(list):
    """All partitions."""

    def all(self):
        return self


async def test_books_that_are_wrong(broker, connected):
    services, network = broker._assembly.services, broker._assembly.network
    sampler = Sampler(broker)
    sampler.look()
    assert sampler.found == []
    connected.account.request_bytes += 3
    connected.account.answer_bytes += 2
    services.metrics.connections_now += 1
    services.metrics.fetches_parked_now += 1
    services.purgatory._parked.update(dict.fromkeys("ab"))
    services.metrics.record_walks_waiting_now += 1
    network.limits.count -= 1
    sampler.look()
    network.limits.count += 1
    services.metrics.record_walks_waiting_now -= 1
    services.purgatory._parked.clear()
    services.metrics.fetches_parked_now -= 1
    services.metrics.connections_now -= 1
    connected.account.answer_bytes -= 2
    connected.account.request_bytes -= 3
    assert sampler.found == [
        "a connection counts 2 answer bytes and holds 0",
        "a connection counts 3 request bytes and holds 0",
        "connections hold 3 request bytes, the budget counts 0",
        "connections hold 2 answer bytes, 0 are counted",
        "1 connections, 2 are counted",
        "2 fetches are parked, 1 are counted",
        "2 fetches are parked, 0 requests are in flight",
        "0 walks wait, 1 are counted",
        "1 connections, but 0 are counted",
    ]


async def test_half_a_frame_is_on_the_books(broker):
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(broker))
    sampler = Sampler(broker)
    for piece in (b"\0\0", b"\0\x20", b"\0\x12\0", b"\0", b"\0" * 3):
        writer.write(piece)
        await asyncio.sleep(0.01)
        sampler.look()
    assert broker._assembly.network.budget.used_bytes == 11
    assert sampler.found == []
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.01)
    sampler.look()
    assert sampler.found == []


@pytest.mark.parametrize("name", ["request", "login"])
async def test_a_request_of_the_beginning_may_end_and_may_not_last(broker, name):
    task = asyncio.create_task(asyncio.sleep(60), name=name)
    known = Sampler(broker).known_tasks
    assert at_rest(broker, known) == [f"at rest: task '{name}', 1 of them"]
    task.cancel()
    await asyncio.sleep(0.01)
    assert at_rest(broker, known) == []


async def test_a_client_that_has_left_is_heard_when_its_connection_is_read(broker, connected):
    assert not resources.is_busy_by_itself(broker)
    connected.slots.append(Answered())
    assert not resources.is_busy_by_itself(broker)
    connected.reading.hold(Hold.IN_FLIGHT)
    assert resources.is_busy_by_itself(broker)
    connected.slots.clear()
    assert not resources.is_busy_by_itself(broker)
    connected.release(Hold.IN_FLIGHT)
    connected.reading.hold(Hold.THROTTLED)
    assert resources.is_busy_by_itself(broker)
    connected.release(Hold.THROTTLED)
    assert not resources.is_busy_by_itself(broker)


def test_what_groups_do_without_clients():
    party = Party()
    shard = SimpleNamespace(registry=SimpleNamespace(groups={"g": party.group}))
    logs = SimpleNamespace(unflushed_bytes=0)
    partition = SimpleNamespace(flush_scheduled=False)
    services = SimpleNamespace(
        has_groups=True,
        groups=SimpleNamespace(_shards=[shard]),
        logs=logs,
        partitions=SimpleNamespace(all=lambda: [partition]),
    )
    broker: Any = SimpleNamespace(
        _assembly=SimpleNamespace(services=services), _serving=SimpleNamespace(processors=[])
    )
    assert not resources.is_busy_by_itself(broker)
    ids = party.stable("a")
    assert not resources.is_busy_by_itself(broker)
    party.enter("b")
    assert resources.is_busy_by_itself(broker)
    party.join("a", ids["a"])
    assert not resources.is_busy_by_itself(broker)
    logs.unflushed_bytes = 90
    assert resources.is_busy_by_itself(broker)
    logs.unflushed_bytes, partition.flush_scheduled = 0, True
    assert resources.is_busy_by_itself(broker)
    services.has_groups = False
    assert not resources.is_busy_by_itself(broker)


def test_what_a_stop_should_have_answered():
    party, parked = Party(), {}
    shard = SimpleNamespace(registry=SimpleNamespace(groups={"g": party.group}))
    services = SimpleNamespace(
        has_groups=True,
        groups=SimpleNamespace(_shards=[shard]),
        purgatory=SimpleNamespace(_parked=parked),
    )
    broker: Any = SimpleNamespace(_assembly=SimpleNamespace(services=services))
    assert resources.held_by_a_stop(broker) == []
    party.enter("b")
    parked["a fetch"] = None
    assert resources.held_by_a_stop(broker) == [
        "1 fetches are parked during a stop",
        "members wait for their group during a stop",
    ]


async def test_connections_of_an_address(broker):
    sampler = Sampler(broker, per_address_max={"10.0.0.1": 1, "10.0.0.2": 0})
    limits = broker._assembly.network.limits
    limits.admit("10.0.0.1")
    sampler.look()
    assert sampler.found == []
    limits.admit("10.0.0.1")
    sampler.look()
    assert sampler.found == ["2 connections of 10.0.0.1, the most is 1"]
    limits.leave("10.0.0.1")
    limits.leave("10.0.0.1")


async def test_a_request_that_waits_behind_later_ones(broker):
    sampler = Sampler(broker)
    ends = [SimpleNamespace(end_offset=9), SimpleNamespace(end_offset=4)]
    log = SimpleNamespace(topic="t", partition=0, write_caching=False, unflushed_bytes=0)
    for waiter in ends:
        waiter.deadline_ns = 0
    partition = SimpleNamespace(log=log, waiters=ends, queue=(), watchers=())
    partitions = broker._assembly.services.partitions
    broker._assembly.services.partitions = SimpleNamespace(all=lambda: [partition])
    sampler.look()
    ends.reverse()
    sampler.look()
    broker._assembly.services.partitions = partitions
    (found,) = sampler.found
    assert found.endswith("wait for [9, 4], in this order")


async def test_a_request_that_waits_beyond_its_time(broker):
    now_ns = 9_000_000_000
    sampler = Sampler(broker, now_ns=lambda: now_ns)
    waiters = [SimpleNamespace(end_offset=9, deadline_ns=4_000_000_000)]
    log = SimpleNamespace(topic="t", partition=0, write_caching=False, unflushed_bytes=0)
    partition = SimpleNamespace(log=log, waiters=waiters, queue=(), watchers=())
    services = broker._assembly.services
    partitions, services.partitions = services.partitions, SimpleNamespace(all=lambda: [partition])
    sampler.look()
    assert sampler.found == []
    now_ns += 1_000_000_000
    sampler.look()
    services.partitions = partitions
    (found,) = sampler.found
    assert found.endswith(", 6000 ms beyond its time")


async def test_a_durable_log_has_a_clean_file(tmp_path):
    rig = Rig(tmp_path / "data")
    await create(rig, "t", 1)
    broker: Any = SimpleNamespace(_assembly=SimpleNamespace(services=rig.services))
    log = rig.services.partitions.get("t", 0).log
    active = log.segments.active.log_file
    file = rig.services.logs.home.files.get(active.path)
    assert list(resources._files_left(broker, None)) == []
    file.writes += 1
    assert list(resources._files_left(broker, None)) == [
        f"{active.path} counts as dirty, and {log!r} is durable"
    ]
    active._unsynced = file  # as after an append that was undone
    assert list(resources._files_left(broker, None)) == [], "a write has failed since"
    active._unsynced = None
    del file
    await rig.close()
