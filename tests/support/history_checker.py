"""Checks the answers that clients got about a log, in the terms of Jepsen's checker for Kafka.

A history is a list of operations in the order in which they ended. Each has its sends (value, and
the acknowledged offset if there is one) and its polls (offset and value). Values are unique in a
partition, called a key here. An outcome is `ok`, `fail` (it certainly did not happen) or `info`
(unknown: a timeout, a lost connection, acks=0). The history gives the version log of a key,
offset -> values seen there, and the version log shows these anomalies:

    inconsistent-offsets   two values at one offset
    duplicate              one value at two offsets
    G1a                    a value was polled although its send had failed
    lost-write             a sent value was never polled, but a later one was
    unseen                 an acknowledged value is not in the log at the end
    vanished               a polled value is not in the log at the end (H3: visible is durable)
    int-poll-skip, int-nonmonotonic-poll    within one poll: an offset was skipped, or went back
    poll-skip, nonmonotonic-poll            the same between two successive polls of a process
    int-nonmonotonic-send, nonmonotonic-send    a producer's records are out of order
    precommitted-read      an operation polls a value that it sends itself
    G1c                    operations that read from each other in a cycle
    realtime-lag           a poll returned nothing although records had been known for too long

A power cut may lose records that only the page cache held: an acks=1 record that was not polled,
and any record of a key with write.caching. `cut` says where each key ended after the cut. Volatile
records at or above that end count as never written; a hole below it is a loss. (A compacted key is
the exception: recovery cannot tell such a hole from compaction's, and must not assign offsets
twice. So a volatile record of such a key may be missing at any offset.)

On a compacted key a record may be missing if a later one has the same record key. Records that
retention or DeleteRecords removed, everything below the start of the final log, may be missing
too. This module reads no clock, file or socket.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Key = tuple[str, int]  # topic, partition
OK, FAIL, INFO = "ok", "fail", "info"
NEVER = 1 << 62


class Send(NamedTuple):
    """One record sent; the offset is None if no answer gave it."""

    key: Key
    value: bytes
    offset: int | None = None


class Poll(NamedTuple):
    """The records of one key from `position` on: (offset, value) in the order of arrival."""

    key: Key
    position: int
    records: Sequence[tuple[int, bytes]]


@dataclass(slots=True)
class Op:
    """One operation that has ended. `is_volatile`: acknowledged from the page cache (acks=1)."""

    process: int
    outcome: str
    sends: Sequence[Send] = ()
    polls: Sequence[Poll] = ()
    invoked_s: float = 0.0
    completed_s: float = 0.0
    is_volatile: bool = False
    seeks: bool = False  # the client chose where its polls begin
    before: int | None = None  # noted late: it had ended before the operation of this number


class FinalLog(NamedTuple):
    """The final log of a key, from its start offset on."""

    start_offset: int
    records: Sequence[tuple[int, bytes]]


class Cut(NamedTuple):
    """A power cut. It could undo operations from `durable_count` on, before `number`."""

    number: int
    durable_count: int
    ends: dict[Key, int]


class Anomaly(NamedTuple):
    """One anomaly: its kind and its place."""

    name: str
    detail: str


@dataclass(slots=True)
class History:
    """All operations on one set of keys."""

    ops: list[Op] = field(default_factory=list)
    volatile_keys: frozenset[Key] = frozenset()
    compacted_keys: frozenset[Key] = frozenset()
    cuts: list[Cut] = field(default_factory=list)
    durable_count: int = 0  # operations before the last clean stop
    final: dict[Key, FinalLog] = field(default_factory=dict)

    def cut(self, ends: Mapping[Key, int]) -> None:
        """Note a power cut here, and where each key ended after it."""
        self.cuts.append(Cut(len(self.ops), self.durable_count, dict(ends)))

    def harden(self) -> None:
        """Note that all acknowledged records are durable now, as after a clean stop."""
        self.durable_count = len(self.ops)


@dataclass(slots=True)
class Verdict:
    """The anomalies found, and how much was checked."""

    anomalies: list[Anomaly]
    lag_s_max: float
    acknowledged_count: int
    polled_count: int

    @property
    def names(self) -> set[str]:
        """Return the kinds of anomalies."""
        return {anomaly.name for anomaly in self.anomalies}


def record_key(value: bytes) -> bytes:
    """Return the record key: the part of a compacted key's value before the colon."""
    return value.partition(b":")[0]


def check(history: History, *, lag_s_allowed: float = NEVER) -> Verdict:
    """Find every anomaly of a history; reports at most one line for each place."""
    return _Check(history).run(lag_s_allowed)


class _KeyLog:
    """The version log of one key."""

    def __init__(self, is_compacted: bool) -> None:
        self.is_compacted = is_compacted
        self.values: dict[int, bytes] = {}  # the first value seen at each offset
        self.offsets: dict[bytes, int] = {}  # the first offset seen for each value
        self.known_s: dict[int, float] = {}  # when each offset was first known
        self.writers: dict[bytes, Op] = {}
        self.polled: set[bytes] = set()
        self.place: dict[bytes, int] = {}  # value -> its number in the order of offsets
        self.newest: dict[bytes, int] = {}  # record key -> its last offset, if compacted

    def order(self) -> None:
        for number, offset in enumerate(sorted(self.values)):
            self.place[self.values[offset]] = number
            if self.is_compacted:
                self.newest[record_key(self.values[offset])] = offset

    def is_superseded(self, value: bytes) -> bool:
        return self.is_compacted and self.offsets[value] < self.newest[record_key(value)]


class _Voids:
    """Which records of a key a power cut was allowed to lose."""

    def __init__(self, history: History) -> None:
        self._cuts = history.cuts
        self._numbers = [cut.number for cut in history.cuts]

    def limit(self, number: int, op: Op, key: Key) -> int:
        """Return the offset from which records of an operation, the `number`th, may be lost."""
        limit = NEVER
        if op.before is not None:
            number = min(number, op.before - 1)
        for cut in self._cuts[bisect_right(self._numbers, number) :]:
            if cut.durable_count > max(number, 0):
                break  # a clean stop came between
            limit = min(limit, cut.ends.get(key, NEVER))
        return limit


class _Check:
    def __init__(self, history: History) -> None:
        self.history = history
        self.found: list[Anomaly] = []
        self.voids = _Voids(history)
        self.logs: dict[Key, _KeyLog] = defaultdict(lambda: _KeyLog(is_compacted=False))
        for key in history.compacted_keys:
            self.logs[key] = _KeyLog(is_compacted=True)

    def run(self, lag_s_allowed: float) -> Verdict:
        self._note_writers_and_readers()
        self._fill_version_logs()
        for log in self.logs.values():
            log.order()
        self._order_within_ops()
        self._order_between_ops()
        self._lost()
        self._final()
        self._circles()
        lag = self._lag(lag_s_allowed)
        acknowledged = sum(len(op.sends) for op in self.history.ops if op.outcome == OK)
        polled = sum(len(poll.records) for op in self.history.ops for poll in op.polls)
        return Verdict(self.found, lag, acknowledged, polled)

    def _say(self, name: str, detail: str) -> None:
        self.found.append(Anomaly(name, detail))

    # -- What is known ------------------------------------------------------------------------

    def _send_limit(self, number: int, op: Op, key: Key) -> int:
        if not op.is_volatile and key not in self.history.volatile_keys:
            return NEVER
        limit = self.voids.limit(number, op, key)
        return 0 if limit < NEVER and key in self.history.compacted_keys else limit

    def _poll_limit(self, number: int, op: Op, key: Key) -> int:
        return self.voids.limit(number, op, key) if key in self.history.volatile_keys else NEVER

    def _note_writers_and_readers(self) -> None:
        for number, op in enumerate(self.history.ops):
            for send in op.sends:
                writers = self.logs[send.key].writers
                if send.value in writers:
                    self._say("duplicate", f"{send.key}: {send.value!r} was sent twice")
                writers[send.value] = op
            if op.outcome != OK:
                continue
            for poll in op.polls:
                limit = self._poll_limit(number, op, poll.key)
                self.logs[poll.key].polled.update(v for at, v in poll.records if at < limit)

    def _is_committed(self, op: Op) -> bool:
        return op.outcome == OK or (
            op.outcome == INFO
            and any(send.value in self.logs[send.key].polled for send in op.sends)
        )

    def _fill_version_logs(self) -> None:
        for number, op in enumerate(self.history.ops):
            if op.sends and self._is_committed(op):
                for send in op.sends:
                    if send.offset is not None and send.offset < self._send_limit(
                        number, op, send.key
                    ):
                        self._see(send.key, send.offset, send.value, op.completed_s)
            for poll in op.polls:
                limit = self._poll_limit(number, op, poll.key)
                failed_writers = self.logs[poll.key].writers
                for offset, value in poll.records:
                    if offset < limit:
                        self._see(poll.key, offset, value, op.completed_s)
                    writer = failed_writers.get(value)
                    if writer is not None and writer.outcome == FAIL and op.outcome == OK:
                        self._say("G1a", f"{poll.key}: {value!r} at {offset}, its send had failed")

    def _see(self, key: Key, offset: int, value: bytes, at_s: float) -> None:
        log = self.logs[key]
        here = log.values.setdefault(offset, value)
        if here != value:
            self._say("inconsistent-offsets", f"{key} at {offset}: {here!r} and {value!r}")
        there = log.offsets.setdefault(value, offset)
        if there != offset:
            self._say("duplicate", f"{key}: {value!r} at {there} and at {offset}")
        if log.known_s.setdefault(offset, at_s) > at_s:
            log.known_s[offset] = at_s

    # -- Order --------------------------------------------------------------------------------

    def _order_within_ops(self) -> None:
        for op in self.history.ops:
            for poll in op.polls:
                places = self._places(poll.key, (value for _, value in poll.records))
                for before, after in itertools.pairwise(places):
                    if after <= before:
                        self._say("int-nonmonotonic-poll", f"{poll.key}: {before}, then {after}")
                    elif after > before + 1 and not self.logs[poll.key].is_compacted:
                        self._say("int-poll-skip", f"{poll.key}: {before}, then {after}")
            for key, values in _by_key(op.sends):
                for before, after in itertools.pairwise(self._places(key, values)):
                    if after <= before:
                        self._say("int-nonmonotonic-send", f"{key}: {before}, then {after}")

    def _order_between_ops(self) -> None:
        sent: dict[tuple[int, Key], int] = {}
        polled: dict[tuple[int, Key], int] = {}
        cuts = [cut.number for cut in self.history.cuts]
        for number, op in enumerate(self.history.ops):
            if cuts and cuts[0] <= number:
                cuts.pop(0)
                polled = {k: v for k, v in polled.items() if k[1] not in self.history.volatile_keys}
            if op.outcome != FAIL:
                for key, values in _by_key(op.sends):
                    self._follow_sends(op, key, values, sent)
            if op.outcome == OK:
                for poll in op.polls:
                    if op.before is None or poll.key not in self.history.volatile_keys:
                        self._follow_poll(op, poll, polled)

    def _follow_sends(
        self, op: Op, key: Key, values: Sequence[bytes], last: dict[tuple[int, Key], int]
    ) -> None:
        places = list(self._places(key, values))
        if not places:
            return
        before = last.get((op.process, key), -1)
        if places[0] <= before:
            self._say(
                "nonmonotonic-send", f"{key}, process {op.process}: {before}, then {places[0]}"
            )
        last[op.process, key] = places[-1]

    def _follow_poll(self, op: Op, poll: Poll, last: dict[tuple[int, Key], int]) -> None:
        place, process = (op.process, poll.key), op.process
        if op.seeks:
            last.pop(place, None)
        places = list(self._places(poll.key, (value for _, value in poll.records)))
        if not places:
            return
        before = last.get(place)
        if before is not None:
            if places[0] <= before:
                self._say(
                    "nonmonotonic-poll",
                    f"{poll.key}, process {process}: {before}, then {places[0]}",
                )
            elif places[0] > before + 1 and not self.logs[poll.key].is_compacted:
                self._say("poll-skip", f"{poll.key}, process {process}: {before}, then {places[0]}")
        last[place] = places[-1]

    def _places(self, key: Key, values: Iterable[bytes]) -> Iterator[int]:
        place = self.logs[key].place
        return (place[value] for value in values if value in place)

    # -- Loss ---------------------------------------------------------------------------------

    def _lost(self) -> None:
        passed = self._passed()
        for key, log in self.logs.items():
            last_read = max((log.place[v] for v in log.polled if v in log.place), default=-1)
            start = self.history.final[key].start_offset if key in self.history.final else 0
            for value, place in log.place.items():
                writer = log.writers.get(value)
                if (
                    place <= last_read
                    and value not in log.polled
                    and writer is not None
                    and log.offsets[value] >= start
                    and not log.is_superseded(value)
                    and self._is_committed(writer)
                    and (key not in passed or log.offsets[value] in passed[key])
                ):
                    self._say("lost-write", f"{key}: {value!r} at {log.offsets[value]}")

    def _passed(self) -> dict[Key, set[int]]:
        """Return the offsets that polls went over, of keys that nobody read from the start."""
        sought = {
            poll.key
            for op in self.history.ops
            if op.seeks and op.outcome == OK
            for poll in op.polls
        } - self.history.final.keys()
        passed: dict[Key, set[int]] = {key: set() for key in sought}
        for op in self.history.ops:
            for poll in op.polls:
                if poll.key in passed and poll.records and op.outcome == OK:
                    passed[poll.key].update(range(poll.position, poll.records[-1][0]))
        return passed

    def _final(self) -> None:
        for key, final in self.history.final.items():
            log = self.logs[key]
            there = {value for _, value in final.records}
            for value, offset in log.offsets.items():
                if value in there or offset < final.start_offset or log.is_superseded(value):
                    continue
                writer = log.writers.get(value)
                if writer is not None and writer.outcome == OK:
                    self._say("unseen", f"{key}: {value!r}, acknowledged at {offset}")
                if value in log.polled:
                    self._say("vanished", f"{key}: {value!r}, polled at {offset}")

    # -- Transactions and time ----------------------------------------------------------------

    def _circles(self) -> None:
        """Find cycles of operations that read each other's sends, by removing the leaves."""
        both = [op for op in self.history.ops if op.sends and op.polls and op.outcome != FAIL]
        number_of = {id(op): number for number, op in enumerate(both)}
        readers: dict[int, set[int]] = defaultdict(set)
        incoming: Counter[int] = Counter()
        for reader, op in enumerate(both):
            for poll in op.polls:
                for _, value in poll.records:
                    writer = number_of.get(id(self.logs[poll.key].writers.get(value)))
                    if writer == reader:
                        self._say("precommitted-read", f"{poll.key}: {value!r}")
                    elif writer is not None and reader not in readers[writer]:
                        readers[writer].add(reader)
                        incoming[reader] += 1
        free = [number for number in range(len(both)) if not incoming[number]]
        for number in free:
            for reader in readers[number]:
                incoming[reader] -= 1
                if not incoming[reader]:
                    free.append(reader)
        if len(free) < len(both):
            self._say("G1c", f"{len(both) - len(free)} operations in circles")

    def _lag(self, allowed_s: float) -> float:
        lag_max = 0.0
        for op in self.history.ops:
            for poll in op.polls if op.outcome == OK else ():
                following = poll.records[-1][0] + 1 if poll.records else poll.position
                lag = op.invoked_s - self.logs[poll.key].known_s.get(following, op.invoked_s)
                lag_max = max(lag_max, lag)
                if lag > allowed_s:
                    self._say("realtime-lag", f"{poll.key} at {following}: {lag:.3f} s")
        return lag_max


def _by_key(sends: Sequence[Send]) -> Iterable[tuple[Key, Sequence[bytes]]]:
    """Return the values of an operation's sends, by key."""
    if len(sends) == 1:
        return ((sends[0].key, (sends[0].value,)),)
    values: dict[Key, list[bytes]] = defaultdict(list)
    for send in sends:
        values[send.key].append(send.value)
    return values.items()
