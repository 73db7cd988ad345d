"""Resources: what a broker holds has its bound at every time, and is given back.

During the run `Sampler.look` compares bounds and books: what the budgets say is held must be what
connections hold, byte by byte. A bound may be passed only by what its key says: the request budget
by the frames that had begun when it filled up, the unflushed bytes by one batch.

At rest, when all clients have gone and some seconds have passed, nothing is held: `at_rest` looks
at counts, bytes, tasks, timers and open files. Tasks are those that ran when the broker began to
serve, and compactions; timers are those of tickers and groups.

The judge reads the broker's parts as they are. A part that is renamed must be renamed here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from broker.at_rest import left_over
from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.coordinator import Coordinator
from broker.network.connection import Connection
from broker.network.connection_account import own_bytes
from broker.network.processor import RECEIVE_BUFFER_BYTES
from broker.network.reading import Hold
from broker.runtime import owners
from broker.runtime.clock import MS_NS
from broker.runtime.owners import Owner
from broker.runtime.record_work import AT_ONCE
from broker.server import Broker
from protocol.framing import KEPT_BYTES_MAX, SIZE_BYTES

# Duties of the broker itself, which may be under way at any time.
RESTLESS: Final = ("compaction", "Task-", "loading groups")
# Tasks of requests: none of them lasts, not even one that ran when the broker began to serve.
PASSING: Final = (
    "request",
    "login",
    "handshake",
    "keys",  # of tokens, which are read for a login
    "change of topics",
    "loading transactions",
    "the end of a transaction",  # that a start goes on with
    "the abort of ",  # of what a producer has left open that begins anew
)
LASTING_TIMERS: Final = (Owner.TICKER, Owner.GROUP_ALARM, Owner.COMPACTION)
INTERNAL: Final = ("__cluster_metadata", "__consumer_offsets")
OTHER_FILES_MAX: Final = 4  # the lock, and what a compaction or a checkpoint has open
FOUND_MAX: Final = 20
LATE_MS_MAX: Final = 5_000  # some fifty looks of the broker at its deadlines


class Sampler:
    """Looks at one broker while it serves. `found` holds the objections.

    `read_bytes_max` is the most that one read from a socket brings, `batch_bytes_max` the largest
    batch that clients send, `per_address_max` the connections that some addresses may have.
    `now_ns` reads the broker's clock, without taking its time.
    """

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop | None = None,
        read_bytes_max: int = RECEIVE_BUFFER_BYTES,
        batch_bytes_max: int = 1 << 20,
        per_address_max: Mapping[str, int] | None = None,
        now_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self.found: list[str] = []
        names = [task.get_name() for task in _tasks(loop)]
        self.known_tasks = Counter(name for name in names if not name.startswith(PASSING))
        self._broker = broker
        self._read_bytes_max = min(read_bytes_max, RECEIVE_BUFFER_BYTES)
        self._batch_bytes_max = batch_bytes_max
        self._per_address_max = dict(per_address_max or {})
        self._now_ns = now_ns
        self._connections_max = 0
        self._cached: set[tuple[str, int]] = set()  # logs that had write.caching

    def look(self) -> None:
        """Note each bound that is passed now, and each book that is wrong."""
        if len(self.found) < FOUND_MAX:
            broker = self._broker
            self.found += _passed(broker)
            self.found += _requests_passed(broker, self._read_bytes_max)
            self.found += _wrong_books(broker)
            self.found += self._unflushed_passed()
            self.found += self._too_many_connections()
            self.found += _late(broker, self._now_ns())

    def _unflushed_passed(self) -> Iterator[str]:
        """Compare what waits for the disk with its bound; the broker's own logs are not gated."""
        services, unflushed = self._broker._assembly.services, 0
        for partition in services.partitions.all():
            log = partition.log
            if log.write_caching:
                self._cached.add((log.topic, log.partition))
            elif log.topic not in INTERNAL and (log.topic, log.partition) not in self._cached:
                unflushed += log.unflushed_bytes
        bound = services.appends._unflushed_bytes_max
        if unflushed > bound + self._batch_bytes_max:
            yield f"{unflushed} bytes are unflushed, barnabas.unflushed.bytes.max is {bound}"

    def _too_many_connections(self) -> Iterator[str]:
        """Count against the largest limit so far: a lower one closes no connection."""
        limits = self._broker._assembly.network.limits
        self._connections_max = max(self._connections_max, limits._max)
        if limits.count > self._connections_max:
            yield f"{limits.count} connections, max.connections is {self._connections_max}"
        for address, most in self._per_address_max.items():
            if limits._by_address[address] > most:
                yield f"{limits._by_address[address]} connections of {address}, the most is {most}"
        count = sum(len(one.connections) for one in self._broker._serving.processors)
        if count > limits.count:
            yield f"{count} connections, but {limits.count} are counted"


def _connections(broker: Broker) -> Iterator[Connection]:
    for processor in broker._serving.processors:
        yield from processor.connections


# -- Bounds -------------------------------------------------------------------------------


def _passed(broker: Broker) -> Iterator[str]:
    """Say which bound is passed."""
    assembly = broker._assembly
    network, services = assembly.network, assembly.services
    queue = network.queue
    if len(queue) > queue._capacity:
        yield f"{len(queue)} requests are queued, queued.max.requests is {queue._capacity}"
    most = network.settings.in_flight_max
    for connection in _connections(broker):
        if len(connection.slots) > most:
            yield f"{len(connection.slots)} requests of a connection in flight, the most is {most}"
        if len(connection.slots) > 1:
            yield from _answers_passed(connection)
    if services.record_work._running > AT_ONCE:
        yield f"{services.record_work._running} walks over records at once, the most is {AT_ONCE}"
    files = services.logs.home.files
    if len(files) > files.capacity and not files.over_capacity_count:
        yield f"{len(files)} files are open, the most is {files.capacity}"
    for processor in broker._serving.processors:
        if processor.frame_pool.kept_bytes > KEPT_BYTES_MAX:
            yield f"{processor.frame_pool.kept_bytes} bytes are kept for later frames"


def _answers_passed(connection: Connection) -> Iterator[str]:
    """Compare what the requests behind the first may be answered with with a connection's share."""
    _, *behind = connection.slots
    reserved = sum(one.answer_bytes_max for one in behind if one.buffers is None)
    share = connection.account._share_bytes
    if reserved > share:
        yield f"{reserved} bytes may be answered behind a request, a connection's share is {share}"


def _requests_passed(broker: Broker, read_bytes_max: int) -> Iterator[str]:
    """Compare the budget of requests with its limit.

    The read that fills it passes it, and each connection may end the frame that it had begun.
    """
    budget = broker._assembly.network.budget
    used, over = budget.used_bytes, budget.used_bytes - budget.limit_bytes
    if over <= read_bytes_max:
        return
    held = 0
    for connection in _connections(broker):
        held += connection.account.request_bytes
        sizes = [connection.reader.announced, *map(len, connection.frames)]
        sizes += [one.frame_bytes for one in connection.slots if one.buffers is None]
        over -= max(sizes) + SIZE_BYTES
    over -= used - held  # of connections that have ended
    if over > read_bytes_max:
        yield f"{used} request bytes, queued.max.request.bytes is {budget.limit_bytes}"


# -- Books --------------------------------------------------------------------------------


def _wrong_books(broker: Broker) -> Iterator[str]:
    """Compare the sums that the broker keeps with what they count."""
    assembly = broker._assembly
    services, metrics = assembly.services, assembly.services.metrics
    requests = answers = unanswered = count = 0
    for connection in _connections(broker):
        account = connection.account
        count += 1
        requests += account.request_bytes
        answers += account.answer_bytes
        unanswered += len(connection.slots)
        kept = _answer_bytes(connection)
        if kept != account.answer_bytes:
            yield f"a connection counts {account.answer_bytes} answer bytes and holds {kept}"
        here = _request_bytes(connection)
        if here != account.request_bytes and connection.reader.refused is None:
            yield f"a connection counts {account.request_bytes} request bytes and holds {here}"
    used = assembly.network.budget.used_bytes
    if requests > used:
        yield f"connections hold {requests} request bytes, the budget counts {used}"
    if answers != services.answers.used_bytes:
        yield f"connections hold {answers} answer bytes, {services.answers.used_bytes} are counted"
    if count != metrics.connections_now:
        yield f"{count} connections, {metrics.connections_now} are counted"
    yield from _wrong_waits(broker, unanswered)


def _request_bytes(connection: Connection) -> int:
    """Return the bytes that a connection holds of requests that are not answered."""
    reader = connection.reader
    begun = reader.buffered_bytes + (SIZE_BYTES if reader._frame is not None else 0)
    frames = sum(len(frame) + SIZE_BYTES for frame in connection.frames)
    return (
        begun
        + frames
        + sum(request.frame_bytes for request in connection.slots if request.buffers is None)
    )


def _answer_bytes(connection: Connection) -> int:
    """Return the bytes of answers that a connection holds and cannot send."""
    waiting = [one.buffers for one in connection.slots if one.buffers is not None]
    return connection.account._unsent_bytes + sum(map(own_bytes, waiting))


def _wrong_waits(broker: Broker, unanswered: int) -> Iterator[str]:
    services = broker._assembly.services
    metrics, parked = services.metrics, services.purgatory._parked
    if len(parked) != metrics.fetches_parked_now:
        yield f"{len(parked)} fetches are parked, {metrics.fetches_parked_now} are counted"
    if len(parked) > unanswered:
        yield f"{len(parked)} fetches are parked, {unanswered} requests are in flight"
    queued = 0
    for partition in services.partitions.all():
        ends = [waiter.end_offset for waiter in partition.waiters]
        if ends != sorted(ends):  # it waits on when its own records are durable
            yield f"requests of {partition.log!r} wait for {ends}, in this order"
        queued += len(partition.queue)
        for fetch in partition.watchers:
            if fetch not in parked:
                yield f"a fetch that is not parked watches {partition.log!r}"
    if queued > metrics.appends_queued_now:
        yield f"{queued} appends are queued, {metrics.appends_queued_now} are counted"
    waiting = sum(map(len, services.record_work._waiting.values()))
    if waiting != metrics.record_walks_waiting_now:
        yield f"{waiting} walks wait, {metrics.record_walks_waiting_now} are counted"


def _late(broker: Broker, now_ns: int) -> Iterator[str]:
    """Say what waits beyond its time (I9). A stop answers it by itself."""
    services = broker._assembly.services
    if services.purgatory._is_stopping:
        return
    for partition in services.partitions.all():
        for waiting in (*partition.waiters, *partition.queue):
            ms = (now_ns - waiting.deadline_ns) / MS_NS
            if ms > LATE_MS_MAX:
                yield f"a request waits for {partition.log!r}, {ms:.0f} ms beyond its time"


# -- Rest ---------------------------------------------------------------------------------


def at_rest(
    broker: Broker,
    known_tasks: Counter[str],
    loop: asyncio.AbstractEventLoop | None = None,
    descriptors: int | None = None,
) -> list[str]:
    """Return what a broker without clients still holds, and should not.

    `descriptors`: how many files the disk has given and not got back.
    """
    assembly, serving = broker._assembly, broker._serving
    services, network = assembly.services, assembly.network
    commit, appends = services.commit, services.appends
    counts = {
        "connections counted against their limit": network.limits.count,
        "addresses of clients": len(network.limits._by_address),
        "connections ready": sum(len(one._ready) for one in serving.processors),
        "answers to be written": len(network.writes._senders),
        "walks over records": services.record_work._running,
        "partitions with waiting requests": len(commit._waiting),
        "partitions with queued appends": len(appends.queued) + len(appends._to_look_at),
        "partitions whose end is loaded": len(appends._loading),
        "bytes unflushed": services.logs.unflushed_bytes,
        "answers made in steps": int(serving.dispatcher._stepper.is_busy),
    }
    found = left_over(assembly, serving.dispatcher, serving.processors)
    found += [f"{count} {what}" for what, count in counts.items() if count]
    found += _files_left(broker, descriptors)
    found += _tasks_left(known_tasks, loop)
    found += _timers_left(loop)
    return [f"at rest: {one}" for one in found]


def held_by_a_stop(broker: Broker) -> list[str]:
    """Return what a stop that is under way should have answered at its beginning."""
    services = broker._assembly.services
    parked = len(services.purgatory._parked)
    found = [f"{parked} fetches are parked during a stop"] if parked else []
    if services.has_groups and _waits_for_members(services.groups):
        found.append("members wait for their group during a stop")
    return found


def is_busy_by_itself(broker: Broker) -> bool:
    """Whether the broker still does what needs no client: whoever looks for rest should look again.

    A JoinGroup or SyncGroup waits for other members, though its client has gone; or a session or
    the retention of offsets has just ended, and the record of it is not durable yet. Or a client
    has left behind more requests than are handled at a time: its connection is not read while they
    wait, so nobody hears of its end. Nor does anybody while it is throttled, since no kernel is
    asked here (`broker.network.hang_ups`). What stays so however often one looks is held.
    """
    services = broker._assembly.services
    for one in _connections(broker):
        if one.reading.holds & Hold.THROTTLED or (one.slots and one.reading.holds):
            return True
    return services.has_groups and (
        _waits_for_members(services.groups)
        or services.logs.unflushed_bytes > 0
        or any(partition.flush_scheduled for partition in services.partitions.all())
    )


def _waits_for_members(groups: Coordinator) -> bool:
    return any(
        member.join_answer is not None or member.sync_answer is not None
        for shard in groups._shards
        for group in shard.registry.groups.values()
        if isinstance(group, ClassicGroup)
        for member in group.generation.roster
    )


def _files_left(broker: Broker, descriptors: int | None) -> Iterator[str]:
    files = broker._assembly.services.logs.home.files
    dirty = sum(file.dirty for file in list(files._files.values()))
    if len(files) > max(files.capacity, dirty) and not files.over_capacity_count:
        yield f"{len(files)} open files, the most is {files.capacity}"
    for partition in broker._assembly.services.partitions.all():
        log = partition.log
        written = log.segments.active.log_file
        file = files.peek(written.path)
        if file is None or not file.dirty or written._unsynced is not None:
            continue  # written to since its last flush began: perhaps by a write that failed
        if log.failed is None and log.durable_offset == log.end_offset:
            yield f"{written.path} counts as dirty, and {log!r} is durable"
    if descriptors is not None and descriptors > len(files) + OTHER_FILES_MAX:
        yield f"{descriptors} descriptors, {len(files)} of them of logs"


def _tasks(loop: asyncio.AbstractEventLoop | None) -> list[asyncio.Task[Any]]:
    return sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())


def _tasks_left(known: Counter[str], loop: asyncio.AbstractEventLoop | None) -> Iterator[str]:
    names = Counter(task.get_name() for task in _tasks(loop))
    for name, count in names.items():
        if count > known[name] and not name.startswith(RESTLESS):
            yield f"task {name!r}, {count} of them"
    for name, count in known.items():
        if count > names[name] and not name.startswith(RESTLESS):
            yield f"task {name!r} has ended"


def _timers_left(loop: asyncio.AbstractEventLoop | None) -> Iterator[str]:
    running = loop or asyncio.get_running_loop()
    handles: Iterable[Any] = getattr(running, "_scheduled", ())
    for handle in handles:
        if handle._cancelled or handle._callback is not owners._step:
            continue
        if handle._args[0] not in LASTING_TIMERS:
            yield f"a timer of {handle._args[0].name}: {handle._args[1]}"
