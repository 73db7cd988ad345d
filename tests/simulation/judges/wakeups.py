"""Lost wake-ups: when the loop has nothing left to do, nobody waits for what is there already.

A wake-up that is lost shows late, or never if the next event brings another. So this judge looks at
the moments at which the broker's loop rests: no callback is ready, so whatever was to be told has
been told. Then

    requests      none is queued: a worker would have taken it
    room          no connection waits for room in the queue, which is empty
    frames        a connection has whole frames only if something holds it
    holds         each reason that holds a connection is one: the budget is full, the queue is, an
                  answer is missing, a thread decodes
    the gone      nobody waits for a log that has failed, or for a partition that was removed

A connection that is being closed is left out: its frames are dropped with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.network.reading import Hold

if TYPE_CHECKING:
    from broker.network.connection import Connection
    from broker.network.processor import Network
    from broker.partitions.group_commit import GroupCommit
    from broker.partitions.partition import Partition
    from broker.server import Broker

METADATA: Final = "__cluster_metadata"


def lost(broker: Broker) -> list[str]:
    """Return what waits in vain in a broker whose loop rests."""
    assembly = broker._assembly
    network, services = assembly.network, assembly.services
    found: list[str] = []
    if len(network.queue):
        found.append(f"{len(network.queue)} requests are queued, and no worker is awake")
    if network.queue.waiter_count:
        found.append(f"{network.queue.waiter_count} connections wait for room in an empty queue")
    for processor in broker._serving.processors:
        if processor._ready:
            found.append(
                f"{len(processor._ready)} connections are ready, and {processor.name} rests"
            )
        for connection in processor.connections:
            found += _held(connection, network)
    served = services.partitions._by_key
    for what, waiting, is_told_later in (
        ("requests wait", services.commit._waiting, partial(_is_flushed, services.commit)),
        ("appends are queued", services.appends.queued, _is_prepared),
    ):
        for partition in waiting:
            log = partition.log
            if log.topic == METADATA:  # clients do not find it
                continue
            if is_told_later(partition):
                continue
            if log.failed is not None:  # its end was to be told to all
                found.append(f"{what} for {log.topic}-{log.partition}, which has failed")
                continue
            if served.get((log.topic, log.partition)) is not partition:
                found.append(f"{what} for {log.topic}-{log.partition}, which was removed")
    return found


def _is_prepared(partition: Partition) -> bool:
    """Whether a thread prepares the first batch that waits; the end of that will tell of it."""
    return bool(partition.queue) and not partition.queue[0].is_ready


def _is_flushed(commit: GroupCommit, partition: Partition) -> bool:
    """Whether the end of a flush will tell who waits, also in a log that is closed meanwhile.

    Of its own flush, or of one behind which its own is due: the start of that tells, too.
    """
    is_due = partition in commit._due or partition in commit._due_for_lanes
    is_behind = is_due and commit.is_flushing
    return bool(partition.flush_started_ns or partition.flush_scheduled or is_behind)


def _held(connection: Connection, network: Network) -> Iterator[str]:
    """Say what holds a connection for no reason, and what nothing holds and nobody does."""
    reading = connection.reading
    holds = reading.holds
    if reading.transport is None or holds & Hold.CLOSING:
        return
    reasons = (
        (Hold.BUDGET, "the budget of requests", network.budget.full),
        (Hold.QUEUE_FULL, "a full queue", False),
        (Hold.IN_FLIGHT, "requests in flight", bool(connection.slots)),
        (Hold.ANSWERS, "answers", bool(connection.slots)),
        (Hold.DECODING, "a thread that decodes", connection.decoding is not None),
    )
    for reason, name, is_there in reasons:
        if holds & reason and not is_there:
            yield f"a connection waits for {name}, and nothing is there to wait for"
    if connection.frames and not reading.held:
        yield f"a connection has {len(connection.frames)} frames, and nothing holds it"
