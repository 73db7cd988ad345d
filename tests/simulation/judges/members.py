"""The judge of members: whom a group keeps, and whom it must not hear any more.

    kept       a member whose last good heartbeat is younger than its session timeout, and than the
               time that it has for a rebalance, is still a member
    replaced   a static member's old member id is unknown, once another has its place
    late       a heartbeat of an older epoch that does not say what its member owns is refused
    absent     a leader is told of no member that has not joined its generation
    stubborn   a member that does not give up what it must is fenced when its time to do so is over
    commits    a commit of an older epoch is refused, unless the member had the partition then

A member that stays in touch can only be removed by a request; those of clients of the simulator
name static members, so that the first rule leaves these out. It leaves out as well what spans two
lives of a broker: the second has only what the log says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from protocol.errors import ErrorCode
from tests.simulation.group_events import (
    Beat,
    Commit,
    Event,
    Joined,
    Partition,
    Pulse,
    Synced,
)
from tests.simulation.judges.offsets import MS

UNKNOWN: Final = ErrorCode.UNKNOWN_MEMBER_ID
GRACE_NS: Final = 1_000 * MS  # for the alarm of a group


def judge(events: Sequence[Event], ends_ns: Sequence[int]) -> Iterator[str]:
    """Yield what is wrong with the members of one group; `ends_ns`: when lives ended, in order."""
    yield from _kept(events, ends_ns)
    yield from _late(events)
    yield from _stubborn(events, ends_ns)
    yield from _commits(events)
    if not any(isinstance(event, Beat) for event in events):
        yield from _absent(events)
        yield from _replaced(events)


def _is_one_life(ends_ns: Sequence[int], first_ns: int, last_ns: int) -> bool:
    return bisect_left(ends_ns, first_ns) == bisect_left(ends_ns, last_ns)


def _kept(events: Sequence[Event], ends_ns: Sequence[int]) -> Iterator[str]:
    last: dict[str, Pulse | Beat] = {}  # good heartbeats, by member id
    assigned: dict[str, frozenset[tuple[str, int]]] = {}
    told_ns: dict[str, int] = {}  # when a classic member was last told its generation
    for event in events:
        if isinstance(event, Joined | Synced) and event.code == 0:
            told_ns[event.member_id] = event.ended_ns
        if not isinstance(event, Pulse | Beat) or event.instance_id:
            continue
        name = event.member_id
        heard = last.pop(name, None)
        is_early = (
            heard is not None
            and event.ended_ns - heard.began_ns < min(heard.session_ms, heard.rebalance_ms) * MS
            and _is_one_life(ends_ns, heard.began_ns, event.ended_ns)
        )
        if heard is not None and is_early and event.code == UNKNOWN:
            ms = (event.ended_ns - heard.began_ns) / MS
            yield f"{name} was heard {ms:.0f} ms ago, and is unknown"
        if isinstance(event, Pulse):
            # While a broker loads its groups, it hears every heartbeat, as Kafka does.
            if event.code == 0 and _is_one_life(ends_ns, told_ns.get(name, 0), event.ended_ns):
                last[name] = event
        elif event.code == 0 and event.epoch >= 0:
            if event.assigned is not None:
                assigned[name] = event.assigned
            # One that may have to give up something may be late with that.
            if event.owned is not None and event.owned <= assigned.get(name, frozenset()):
                last[name] = event


def _late(events: Sequence[Event]) -> Iterator[str]:
    epochs: dict[str, int] = {}
    for event in events:
        if not isinstance(event, Beat):
            continue
        name, known = event.member_id, epochs.get(event.member_id, 0)
        if event.epoch <= 0:  # it joins anew, or leaves
            epochs.pop(name, None)
        elif event.code == 0 and event.owned is None and event.epoch < known:
            yield f"{name} was served in epoch {event.epoch} after {known}"
        if event.code == 0 and event.epoch >= 0:
            epochs[name] = max(event.told_epoch, epochs.get(name, 0))


def _absent(events: Sequence[Event]) -> Iterator[str]:
    joined = [event for event in events if isinstance(event, Joined)]
    static = {one.member_id for one in joined if one.instance_id}  # these stay for their session
    for leader in joined:
        for name in sorted(leader.members - static if leader.code == 0 else ()):
            own = [one for one in joined if one.member_id == name]
            has_asked = any(one.began_ns < leader.ended_ns for one in own)
            # A request whose answer was lost may have been in time.
            may_have = any(one.code is None or one.generation == leader.generation for one in own)
            if has_asked and not may_have:
                yield f"{name} is in generation {leader.generation}, and has not joined it"


def _stubborn(events: Sequence[Event], ends_ns: Sequence[int]) -> Iterator[str]:
    to_revoke: dict[str, frozenset[Partition]] = {}
    since_ns: dict[str, int] = {}
    for event in events:
        if not isinstance(event, Beat):
            continue
        name = event.member_id
        known = to_revoke.get(name, frozenset())
        may_be_gone = event.code != 0 or event.epoch <= 0
        if may_be_gone or (event.owned is not None and not known & event.owned):
            to_revoke.pop(name, None)
        elif name in to_revoke:
            late_ns = event.began_ns - since_ns[name] - event.rebalance_ms * MS
            if late_ns > GRACE_NS and _is_one_life(ends_ns, since_ns[name], event.ended_ns):
                ms = (event.began_ns - since_ns[name]) / MS
                yield f"{name} has not given up {len(known)} partitions for {ms:.0f} ms"
        if event.code == 0 and event.assigned is not None and event.owned is not None:
            must = event.owned - event.assigned
            if must and must != to_revoke.get(name):
                to_revoke[name], since_ns[name] = must, event.ended_ns


def _commits(events: Sequence[Event]) -> Iterator[str]:
    since: dict[str, dict[Partition, int]] = {}  # the epoch in which a member was told a partition
    lost: set[str] = set()  # members that may have been told more
    for event in events:
        if isinstance(event, Beat):
            name = event.member_id
            if event.epoch <= 0:
                since.pop(name, None)
                lost.discard(name)
            if event.code != 0:
                lost.add(name)
            elif event.assigned is not None and event.epoch >= 0:
                known = since.get(name, {})
                # One that joins anew may have been a member all the time.
                epoch = 0 if name in lost or event.epoch == 0 else event.told_epoch
                since[name] = {
                    partition: known.get(partition, epoch) for partition in event.assigned
                }
        elif isinstance(event, Commit) and event.code == 0 and event.epoch >= 0:
            own = since.get(event.member_id, {})
            epoch = own.get((event.topic_id, event.partition), 0)
            if event.epoch < epoch:
                yield (
                    f"{event.member_id} committed in epoch {event.epoch} for a partition that it "
                    f"has had since {epoch}"
                )


def _replaced(events: Sequence[Event]) -> Iterator[str]:
    """Check that nobody goes on under the member id that a static member had before."""
    synced = [
        one for one in events if isinstance(one, Synced) and one.code == 0 and one.instance_id
    ]
    first_ns: dict[str, int] = {}  # when a member id was first told its share
    instances: dict[str, str] = {}
    for one in synced:
        instances[one.member_id] = one.instance_id
        first_ns[one.member_id] = min(first_ns.get(one.member_id, one.ended_ns), one.ended_ns)
    for event in events:
        if not isinstance(event, Pulse | Commit | Synced) or event.code != 0:
            continue
        own_ns = first_ns.get(event.member_id)
        if own_ns is None:
            continue
        for other, other_ns in first_ns.items():
            is_next = own_ns < other_ns < event.began_ns
            if is_next and instances[other] == instances[event.member_id]:
                yield f"{event.member_id} is served after {other} has its place"
                break
