"""The judge of groups: what their members were told, against what a group promises.

    offsets       `tests.simulation.judges.offsets`
    members       `tests.simulation.judges.members`
    owners        a partition has one owner: in a generation or epoch, and at any time for members
                  of consumer groups, who say when they give it up
    order         generations and epochs do not go back
    shares        a member gets the share that its leader sent for it
    fencing       a commit with an older generation or epoch than the group's is refused
    descriptions  a state, and members that go with it

A member of a consumer group owns a partition from the answer that assigns it until it sends a
heartbeat without it, leaves, or may have been removed: when its last good heartbeat is older than
the session timeout, or its time to revoke any partition is over. The broker knows no better.

A group that was deleted, that expired, or that was used in both protocols may begin anew at the
first generation; for such groups the rules that compare epochs over time are left out. So are they
for all groups of a history longer than the broker's check for groups without members and offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from broker.groups.states import ClassicGroupState, ConsumerGroupState
from tests.simulation.context import Context
from tests.simulation.group_events import (
    FOREVER,
    Acted,
    Beat,
    Commit,
    Described,
    Event,
    Partition,
    Removed,
    Synced,
)
from tests.simulation.judges import members, offsets
from tests.simulation.judges.offsets import DRIFT_MIN, MS, is_uncertain

CLASSIC_STATES: Final = frozenset(str(state) for state in ClassicGroupState)
CONSUMER_STATES: Final = frozenset(str(state) for state in ConsumerGroupState)
LISTED: Final = 20  # of the failures of one history


class Owned(NamedTuple):
    """A member's ownership of a partition."""

    partition: Partition
    since_ns: int
    until_ns: int
    member_id: str


def judge(
    events: Iterable[Event],
    ends_ns: Sequence[int] = (),
    retention_ns: int | None = None,
    check_ns: int = 600_000 * MS,
) -> list[str]:
    """Return what is wrong with the groups; the arguments are those of the judge of offsets.

    `check_ns` is offsets.retention.check.interval.ms.
    """
    everything = list(events)
    found = offsets.judge(everything, ends_ns, retention_ns)
    by_group: dict[str, list[Event]] = {}
    for event in everything:
        by_group.setdefault(event.group, []).append(event)
    last_ns = max((event.began_ns for event in everything), default=0)
    anew_all = retention_ns is not None or last_ns > check_ns
    for group, own in by_group.items():
        is_lasting = not anew_all and not _may_begin_anew(own)
        rules = [_owned_once(own), _shares(own), _descriptions(own), members.judge(own, ends_ns)]
        if is_lasting:
            rules += [_one_owner_an_epoch(own), _in_order(own), _fenced(own)]
        found += [f"group {group}: {text}" for rule in rules for text in rule]
    return found[:LISTED]


def of_history(context: Context) -> list[str]:
    """Return what is wrong with the groups of a whole history."""
    config = context.lives[0].loaded.config  # the finale's broker keeps still
    retention_ns: int | None = int(config.offsets_retention_minutes * 60_000 * MS * DRIFT_MIN)
    if any(fault.kind == "clock jump" for fault in context.plan.faults):
        retention_ns = 0
    elif retention_ns is not None and retention_ns > context.world.now_ns:
        retention_ns = None
    return judge(
        context.record.group_events,
        context.ends_ns,
        retention_ns,
        config.offsets_retention_check_interval_ms * MS,
    )


def _may_begin_anew(events: Sequence[Event]) -> bool:
    has_removal = any(
        isinstance(event, Removed) and event.is_group and (event.code == 0 or is_uncertain(event))
        for event in events
    )
    has_expiry = any(isinstance(event, Commit) and event.retention_ms >= 0 for event in events)
    # A JoinGroup alone is enough: it replaces a consumer group that has no members, whose next
    # member then replaces the classic group that nobody has become a member of.
    protocols = {
        isinstance(event, Beat) for event in events if isinstance(event, Synced | Acted | Beat)
    }
    return has_removal or has_expiry or len(protocols) > 1


# -- Owners ----------------------------------------------------------------------------------------


def _owned_once(events: Sequence[Event]) -> Iterator[str]:
    """Check that no two members of a consumer group own a partition at the same time."""
    by_member: dict[str, list[Beat]] = {}
    for event in events:
        if isinstance(event, Beat):
            by_member.setdefault(event.member_id, []).append(event)
    # A static member may come back in the classic protocol, and say nothing of it here.
    taken = {event.instance_id for event in events if isinstance(event, Acted)} - {""}
    owned = [
        one
        for beats in by_member.values()
        if beats[0].instance_id not in taken
        for one in _owned(beats)
    ]
    owned.sort(key=lambda one: (one.partition, one.since_ns))
    last: Owned | None = None
    for one in owned:
        if last is None or last.partition != one.partition:
            last = one
            continue
        if last.member_id != one.member_id and one.since_ns < last.until_ns:
            yield (
                f"{one.member_id} got {_said(one.partition)} at {one.since_ns} ns, but "
                f"{last.member_id} owned it until {last.until_ns} ns"
            )
        if one.until_ns > last.until_ns:
            last = one


def _owned(beats: Sequence[Beat]) -> Iterator[Owned]:
    """Yield what one member owned, and when: its heartbeats come one after the other."""
    since: dict[Partition, int] = {}
    # What the broker may still count as the member's, after a silence that no longer says so: a
    # session begins anew with a life of the broker.
    held: set[Partition] = set()
    to_revoke_ns: dict[Partition, int] = {}  # until when
    alive_ns = 0
    unheard_ns: int | None = None  # when a heartbeat was sent whose answer could be news
    news_ns = FOREVER  # until when the member has to give up what that answer may have asked for
    for beat in beats:
        leaves = beat.epoch <= 0  # or joins again: it owns nothing then
        # A member that is late in giving up one partition loses all.
        limit = min(alive_ns, news_ns, *to_revoke_ns.values())
        for partition in sorted(since):
            is_kept = not leaves and (beat.owned is None or partition in beat.owned)
            if not is_kept or beat.began_ns > limit:
                until = min(beat.began_ns, limit)
                yield Owned(partition, since.pop(partition), until, beat.member_id)
        if leaves:
            held.clear()
        elif beat.owned is not None and beat.code == 0:  # else the broker may not have heard it
            held &= beat.owned
        to_revoke_ns = {one: ns for one, ns in to_revoke_ns.items() if one in held}
        if beat.code != 0:
            # Removed, or unknown: what the member owns lasts until it says otherwise or expires.
            if is_uncertain(beat) and unheard_ns is None:
                unheard_ns = beat.began_ns
                news_ns = unheard_ns + beat.rebalance_ms * MS
            continue
        alive_ns = beat.began_ns + beat.session_ms * MS
        if beat.assigned is None or beat.epoch < 0:
            continue
        told_ns = beat.began_ns if unheard_ns is None else unheard_ns
        unheard_ns, news_ns = None, FOREVER
        for partition in beat.assigned:
            since.setdefault(partition, beat.ended_ns)
            to_revoke_ns.pop(partition, None)
        held |= beat.assigned
        for partition in held - beat.assigned:
            to_revoke_ns.setdefault(partition, told_ns + beat.rebalance_ms * MS)
    until = min(alive_ns, news_ns, *to_revoke_ns.values())
    for partition in sorted(since):
        yield Owned(partition, since[partition], until, beats[-1].member_id)


def _one_owner_an_epoch(events: Sequence[Event]) -> Iterator[str]:
    owners: dict[tuple[int, Partition], str] = {}
    for event in events:
        if event.code != 0:
            continue
        if isinstance(event, Synced):
            epoch, told = event.generation, event.share
        elif isinstance(event, Beat) and event.epoch >= 0:
            epoch, told = event.told_epoch, event.assigned or frozenset()
        else:
            continue
        for partition in sorted(told):
            # A static member comes back under another member id.
            own_name = event.instance_id or event.member_id
            owner = owners.setdefault((epoch, partition), own_name)
            if owner != own_name:
                yield f"{owner} and {own_name} own {_said(partition)} in epoch {epoch}"


def _shares(events: Sequence[Event]) -> Iterator[str]:
    """Check that members get what the leader sent for them, unless the broker assigns."""
    if any(isinstance(event, Beat) for event in events):
        return
    synced = [event for event in events if isinstance(event, Synced)]
    sent: dict[int, list[dict[str, frozenset[Partition]]]] = {}
    for event in synced:
        if event.shares is not None:
            sent.setdefault(event.generation, []).append(event.shares)
    for event in synced:
        if event.code != 0 or not event.share:
            continue
        # A static member comes back under another member id than its leader knew.
        is_sent = any(
            event.share in shares.values()
            if event.instance_id
            else event.share == shares.get(event.member_id)
            for shares in sent.get(event.generation, [])
        )
        if not is_sent:
            yield (
                f"{event.member_id} got {sorted(event.share)} in generation {event.generation}, "
                "which its leader did not send"
            )


# -- Order and fencing -----------------------------------------------------------------------------


def _in_order(events: Sequence[Event]) -> Iterator[str]:
    """Check that no generation or epoch is older than one told before it was asked for.

    What a description tells need not be durable; what members were told is.
    """
    newest: list[tuple[int, int, str]] = []  # told at, epoch, to whom; rising in both
    for event in sorted(events, key=lambda one: one.ended_ns):
        if event.code != 0:
            continue
        if isinstance(event, Synced):
            epoch = event.generation
        elif isinstance(event, Beat) and event.epoch >= 0:
            epoch = event.told_epoch
        elif isinstance(event, Described) and event.is_consumer:
            epoch = event.epoch
        else:
            continue
        # Members of a consumer group are behind its epoch, each as far as it is.
        for told_ns, other, who in newest if not isinstance(event, Beat) else ():
            if told_ns < event.began_ns and epoch < other:
                yield f"{event.who} was told epoch {epoch}, but {who} {other} before"
                break
        if not isinstance(event, Described) and (not newest or epoch > newest[-1][1]):
            newest.append((event.ended_ns, epoch, event.who))
    yield from _members_in_order(events)


def _members_in_order(events: Sequence[Event]) -> Iterator[str]:
    epochs: dict[str, int] = {}
    for event in events:
        if not isinstance(event, Beat) or event.code != 0:
            continue
        if event.epoch <= 0:
            epochs.pop(event.member_id, None)
        if event.epoch >= 0:
            before = epochs.get(event.member_id, 0)
            if event.told_epoch < before:
                yield f"{event.member_id} went from epoch {before} back to {event.told_epoch}"
            epochs[event.member_id] = event.told_epoch


def _fenced(events: Sequence[Event]) -> Iterator[str]:
    """Check that commits of an older generation, and of members that left, were refused."""
    synced = [one for one in events if isinstance(one, Synced) and one.code == 0]
    left = {
        one.member_id: one.ended_ns
        for one in events
        if isinstance(one, Beat) and one.epoch == -1 and one.code == 0
    }
    for event in events:
        if not isinstance(event, Commit) or event.code != 0 or event.epoch < 0:
            continue
        for one in synced:
            if one.ended_ns < event.began_ns and one.generation > event.epoch:
                yield (
                    f"{event.who} committed in generation {event.epoch}, but {one.who} was in "
                    f"{one.generation} before"
                )
                break
        if left.get(event.member_id, FOREVER) < event.began_ns and not _joined_after(
            events, event, left[event.member_id]
        ):
            yield f"{event.member_id} committed after it had left"


def _joined_after(events: Sequence[Event], commit: Commit, left_ns: int) -> bool:
    return any(
        isinstance(one, Beat)
        and one.member_id == commit.member_id
        and one.epoch == 0
        and left_ns <= one.began_ns <= commit.ended_ns
        for one in events
    )


# -- Descriptions ----------------------------------------------------------------------------------


def _descriptions(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        if isinstance(event, Described) and event.code == 0:
            rule = _consumer_described if event.is_consumer else _classic_described
            for text in rule(event):
                yield f"described to {event.who} as {event.state}: {text}"


def _classic_described(event: Described) -> Iterator[str]:
    if event.state not in CLASSIC_STATES:
        yield "no such state"
    yield from _members_described(event)
    for member in event.members:
        if member.has_metadata and event.state != ClassicGroupState.STABLE:
            yield f"{member.member_id} has metadata"


def _consumer_described(event: Described) -> Iterator[str]:
    if event.state not in CONSUMER_STATES:
        yield "no such state"
    yield from _members_described(event)
    if event.target_epoch > event.epoch:
        yield f"targets of epoch {event.target_epoch} in epoch {event.epoch}"
    is_assigning = event.epoch > event.target_epoch and bool(event.members)
    if is_assigning != (event.state == ConsumerGroupState.ASSIGNING):
        yield f"targets of epoch {event.target_epoch} in epoch {event.epoch}"
    owners: dict[Partition, str] = {}
    targets: dict[Partition, str] = {}
    for member in event.members:
        for what, told, known in (
            ("owns", member.owned, owners),
            ("shall own", member.target, targets),
        ):
            for partition in sorted(told):
                other = known.setdefault(partition, member.member_id)
                if other != member.member_id:
                    yield f"{member.member_id} {what} {_said(partition)}, and so does {other}"
        if member.epoch > max(event.target_epoch, 1):
            yield f"{member.member_id} is in epoch {member.epoch}, beyond its target"
        if event.state == ConsumerGroupState.STABLE and not member.is_classic:
            if member.epoch != event.epoch:
                yield f"{member.member_id} is in epoch {member.epoch} of {event.epoch}"
            if member.owned != member.target:
                yield f"{member.member_id} has not its target"


def _members_described(event: Described) -> Iterator[str]:
    has_none = event.state in (ClassicGroupState.EMPTY, ClassicGroupState.DEAD)
    # All may leave while a group waits for its first members; it does so to the end, as in Kafka.
    may_have_none = has_none or event.state == ClassicGroupState.PREPARING_REBALANCE
    if (event.members and has_none) or not (event.members or may_have_none):
        yield f"{len(event.members)} members"
    names = [member.member_id for member in event.members]
    if len(set(names)) != len(names):
        yield f"a member twice: {sorted(names)}"


def _said(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
