"""The judge of committed offsets: each is a register that behaves as if it were one variable.

No two commits of a history carry the same offset, so that a read names the commit it saw. That
makes the check complete and quick (P. Gibbons and E. Korach, "Testing Shared Memories", 1997):

    cluster   a commit and all reads that returned it
    held      from the first end of the cluster's operations to their last begin, if that is later:
              the register certainly held this offset for all of that time
    brief     otherwise, from the last begin to the first end: it held the offset at some moment of
              that time

A history is right if no two held times overlap, no brief time lies within the held time of another
offset, and no read ends before its commit begins. A removal, and a read that found nothing, are
brief times of the state "no offset". A read that found nothing also needs a reason: no offset was
certainly there, or something removed it.

A commit without an answer may happen until the broker that it was sent to ends, or never. A refused
one never happens, whatever its client did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tests.simulation.group_events import (
    FOREVER,
    Acted,
    Commit,
    Event,
    Fetched,
    Removed,
    Synced,
)

NO_OFFSET: Final = -1
MS: Final = 1_000_000
# Answers to a commit after which it may have happened all the same: a server error, a timeout, no
# coordinator (the write failed late), a storage error, a change of the broker's role.
UNCERTAIN: Final = frozenset({-1, 7, 15, 16, 19, 20, 56})
DRIFT_MIN: Final = 0.8  # a wall clock that runs fast lets offsets expire early
Key = tuple[str, str, int]


@dataclass(slots=True)
class Cluster:
    """A commit, and the times between which the register held its offset."""

    commit: Commit
    first_end_ns: int
    last_begin_ns: int
    reads: list[Fetched] = field(default_factory=list)

    @property
    def is_held(self) -> bool:
        """Whether the offset was certainly there from `first_end_ns` to `last_begin_ns`."""
        return self.first_end_ns < self.last_begin_ns


@dataclass(slots=True)
class Register:
    """All events of one offset of one group."""

    commits: dict[int, Commit] = field(default_factory=dict)
    reads: list[Fetched] = field(default_factory=list)
    removals: list[Removed] = field(default_factory=list)
    had_members: bool = False  # of the classic protocol


def is_uncertain(event: Event) -> bool:
    """Whether a request may have taken effect although no answer says so."""
    return event.code is None or event.code in UNCERTAIN


def judge(
    events: Iterable[Event],
    ends_ns: Sequence[int] = (),
    retention_ns: int | None = None,
) -> list[str]:
    """Return what is wrong with the committed offsets.

    `ends_ns` are the times, in order, at which a life of the broker ended. `retention_ns` is
    offsets.retention.minutes, a little less if the broker's clock drifts; None: offsets do not
    expire; 0: they may at any time, because its clock jumps.
    """
    found = []
    for key, register in _registers(list(events)).items():
        name = "group {} of {}-{}".format(*key)
        found += [f"{name}: {text}" for text in _check(register, ends_ns, retention_ns)]
    return found


def _registers(events: Sequence[Event]) -> dict[Key, Register]:
    registers: dict[Key, Register] = {}
    for event in events:
        if isinstance(event, Commit | Fetched):
            key = event.group, event.topic, event.partition
            register = registers.setdefault(key, Register())
            if isinstance(event, Commit):
                register.commits[event.offset] = event
            else:
                register.reads.append(event)
    classic = {event.group for event in events if isinstance(event, Synced | Acted)}
    for (group, _, _), register in registers.items():
        register.had_members = group in classic
    for event in events:
        if isinstance(event, Removed):
            for (group, topic, partition), register in registers.items():
                if (
                    event.group in ("", group)
                    and event.topic in ("", topic)
                    and event.partition in (None, partition)
                ):
                    register.removals.append(event)
    return registers


def _check(register: Register, ends_ns: Sequence[int], retention_ns: int | None) -> list[str]:
    found: list[str] = []
    clusters = {
        offset: Cluster(commit, _latest_ns(commit, ends_ns), commit.began_ns)
        for offset, commit in register.commits.items()
    }
    for read in register.reads:
        if read.offset != NO_OFFSET:
            found += _add_read(clusters, read)
    # A refused commit takes no part; nor does one without an answer that nobody saw.
    seen = [one for one in clusters.values() if one.commit.code == 0 or one.reads]
    held = sorted((one for one in seen if one.is_held), key=lambda one: one.first_end_ns)
    found += _overlaps(held)
    for one in seen:
        if not one.is_held:
            found += _within(held, one.last_begin_ns, one.first_end_ns, one.commit, "committed")
    for removal in register.removals:
        if removal.code == 0:
            found += _within(held, removal.began_ns, removal.ended_ns, removal, "removed")
    for read in register.reads:
        if read.offset == NO_OFFSET:
            found += _within(held, read.began_ns, read.ended_ns, read, "found none")
            found += _reason(register, seen, read, ends_ns, retention_ns)
    return found


def _latest_ns(event: Event, ends_ns: Sequence[int]) -> int:
    """Return the time after which a request has no new effect."""
    if not is_uncertain(event):
        return event.ended_ns
    if isinstance(event, Commit) and event.is_transactional:
        return FOREVER  # whoever loads its transaction may commit it
    after = bisect_left(ends_ns, event.began_ns)
    return ends_ns[after] if after < len(ends_ns) else FOREVER


def _add_read(clusters: dict[int, Cluster], read: Fetched) -> list[str]:
    cluster = clusters.get(read.offset)
    if cluster is None:
        return [f"{read.who} read offset {read.offset}, which nobody sent"]
    commit = cluster.commit
    if commit.began_ns > read.ended_ns:
        return [f"{read.who} read offset {read.offset} before {commit.who} sent it"]
    if commit.code != 0 and not is_uncertain(commit):
        return [f"{read.who} read offset {read.offset} of a commit refused with {commit.code}"]
    if commit.metadata != read.metadata:
        what = f"metadata {read.metadata!r}, expected {commit.metadata!r}"
        return [f"{read.who} read offset {read.offset} with {what}"]
    cluster.reads.append(read)
    cluster.first_end_ns = min(cluster.first_end_ns, read.ended_ns)
    cluster.last_begin_ns = max(cluster.last_begin_ns, read.began_ns)
    return []


def _overlaps(held: Sequence[Cluster]) -> list[str]:
    found = []
    for one, other in pairwise(held):
        if other.first_end_ns < one.last_begin_ns:
            found.append(
                f"went back: offset {one.commit.offset} was there until {one.last_begin_ns} ns, "
                f"offset {other.commit.offset} from {other.first_end_ns} ns"
            )
    return found


def _within(
    held: Sequence[Cluster], begin_ns: int, end_ns: int, event: Event, did: str
) -> list[str]:
    """Check that a brief time lies within no held time."""
    for one in held:
        if one.commit is not event and one.first_end_ns < begin_ns and end_ns < one.last_begin_ns:
            what = f"{event.who} {did} {getattr(event, 'offset', '')}"
            there = f"{one.commit.offset} was there from {one.first_end_ns}"
            then = f"from {begin_ns} to {end_ns} ns"
            return [f"went back: {what} {then}, but {there} to {one.last_begin_ns} ns"]
    return []


def _reason(
    register: Register,
    seen: Sequence[Cluster],
    read: Fetched,
    ends_ns: Sequence[int],
    retention_ns: int | None,
) -> list[str]:
    """Check that nothing was there to be found, or that something had removed it."""
    before = [one for one in seen if one.first_end_ns < read.began_ns]
    if not before:
        return []
    last = max(before, key=lambda one: one.commit.began_ns)
    since_ns = last.commit.began_ns
    if _has_expired(register, since_ns, read.ended_ns, ends_ns, retention_ns):
        return []
    for removal in register.removals:
        may_be = removal.code == 0 or is_uncertain(removal)
        # It must have been able to happen after the last commit began.
        is_later = _latest_ns(removal, ends_ns) >= since_ns
        if may_be and is_later and removal.began_ns <= read.ended_ns:
            return []
    then = f"from {read.began_ns} to {read.ended_ns} ns"
    had = f"{last.commit.offset} was committed at {last.first_end_ns} ns"
    return [f"lost: {read.who} found no offset {then}, but {had}"]


def _has_expired(
    register: Register,
    since_ns: int,
    now_ns: int,
    ends_ns: Sequence[int],
    retention_ns: int | None,
) -> bool:
    """Whether a commit that began at `since_ns`, or one after it, may have expired."""
    if retention_ns is not None:
        # The offsets of a classic group without members age since its last member left it.
        if register.had_members or retention_ns == 0:
            since_ns = 0
        if since_ns + retention_ns <= now_ns:
            return True
    for commit in register.commits.values():
        may_be = commit.code == 0 or is_uncertain(commit)
        expires_ns = commit.began_ns + commit.retention_ms * MS * DRIFT_MIN
        is_later = _latest_ns(commit, ends_ns) >= since_ns
        if commit.retention_ms >= 0 and may_be and is_later and expires_ns <= now_ns:
            return True
    return False
