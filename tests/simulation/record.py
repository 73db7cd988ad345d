"""What the clients saw in one history, for the judges.

The clients fill it as things happen. Most of it can be judged only at the end, when the whole log
has been read back; what is wrong by itself, such as an answer to another request or an offset
that goes back, is noted at once. Two of the judges are the checkers of the fault tests, and their
parts have their words:

    history   sends and polls, for `tests.support.history_checker`
    ledger    batches and producer ids, for `tests.support.log_ledger`
    marks     start offsets and high watermarks, which never go back (H4)
    lookups   answers to ListOffsets by time (H5)
    long_polls                    fetches that waited, for liveness
    unanswered, gave_up, ended    requests and connections, for liveness and isolation
    parted    what was sent before a client closed its side, for the history
    refusals  every error code that a client got for a partition or topic, for isolation

A process is a number of the history: a client takes a new one after an operation whose outcome it
does not know. Times are virtual nanoseconds, but seconds in the operations of the history.

An answer may be late: an older one arrives after a newer one on another connection. So a mark is
compared only with those that had arrived before its request was sent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.group_events import Event
from tests.support.history_checker import OK, Anomaly, Cut, History, Key, Op, Poll, Send
from tests.support.log_ledger import HIGH_WATERMARK, Ledger, SeenBatch
from tests.support.transaction_history import CommittedRead, Instance, Transaction

SECOND_NS = 1_000_000_000


class Asked(NamedTuple):
    """A request that was sent and expects an answer; `wait_ms` is how long it lets the broker."""

    sent_ns: int
    wire: str
    connection: int
    number: int
    api_key: int
    what: str
    wait_ms: int = 0


class Refusal(NamedTuple):
    """An error code that an answer had for a topic's partition (-1: for the whole topic)."""

    at_ns: int
    who: str
    api: str
    topic: str
    partition: int
    code: int
    since_ns: int | None = None  # when it was asked at the earliest


class Lookup(NamedTuple):
    """An answer to ListOffsets by time: the first record that is not older than `asked`."""

    key: Key
    asked: int
    offset: int  # -1: there is none
    timestamp: int
    sent_ns: int
    answered_ns: int


class LongPoll(NamedTuple):
    """A fetch that was ready to wait for the first byte behind any of its places."""

    who: str
    sent_ns: int
    answered_ns: int
    places: list[tuple[Key, int]]


class Unserved(NamedTuple):
    """A fetch from an offset that is in the log, which did not get what is there."""

    at_ns: int
    who: str
    key: Key
    offset: int
    mark: int  # a high watermark that was known when it was sent
    what: str


class Corrupt(NamedTuple):
    """A batch that was served with bytes that are not what was written, and no flipped bit is."""

    at_ns: int
    who: str
    key: Key
    offset: int
    what: str


def _nobody_hears(_event: Event) -> None:
    """Take an event."""


def _nobody_waits(_is: bool) -> None:
    """Take the news."""


def _nobody_sees(_key: Key, _end_offset: int) -> None:
    """Take an end."""


@dataclass(slots=True)
class Record:
    """See the module."""

    # Wrong by itself.
    failures: list[str] = field(default_factory=list)
    breaches: list[tuple[str, Key, Anomaly]] = field(default_factory=list)  # mark, key, anomaly

    # Requests and connections.
    takes_requests: bool = True  # else clients find their connections deaf
    request_count: int = 0
    answer_count: int = 0
    unanswered: dict[tuple[str, int], Asked] = field(default_factory=dict)
    gave_up: list[tuple[Asked, int]] = field(default_factory=list)  # and when its client left
    # Of these, the oldest ones of connections that were read: nothing but its handler delays them.
    owed: list[tuple[Asked, int]] = field(default_factory=list)
    slowest_ns: int = 0  # beyond what the request lets the broker wait
    ended: list[tuple[int, str, str]] = field(default_factory=list)  # by the broker: when, who, how
    refusals: list[Refusal] = field(default_factory=list)
    # Who sent values that the broker has read before it closed, and for which partition.
    parted: list[tuple[str, Key, list[bytes]]] = field(default_factory=list)
    long_polls: list[LongPoll] = field(default_factory=list)

    # For the judge of groups.
    group_events: list[Event] = field(default_factory=list)
    # Who hears of an answer of a coordinator, and of an end that records were said to have.
    told: Callable[[Event], None] = _nobody_hears
    seen: Callable[[Key, int], None] = _nobody_sees

    # For the judge of transactions.
    transactions: list[Transaction] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    committed_reads: list[CommittedRead] = field(default_factory=list)
    # What it knows at the end: values that compaction removes whatever their keys.
    not_committed: set[tuple[Key, bytes]] = field(default_factory=set)
    maybe_committed: set[bytes] = field(default_factory=set)  # some of these
    # Who hears that an EndTxn is sent next: whether it commits in several partitions.
    ending: Callable[[bool], None] = _nobody_waits
    # Who hears that a transaction of TV2 has grown: whether it had data elsewhere before.
    growing: Callable[[bool], None] = _nobody_waits

    # Logs.
    history: History = field(default_factory=History)
    volatile: set[Key] = field(default_factory=set)  # had write.caching at some time
    ageless: dict[Key, int] = field(default_factory=dict)  # the first offset that retention keeps
    # How far each request was to delete records, at most.
    trims: dict[Key, list[int]] = field(default_factory=dict)
    compacted: set[Key] = field(default_factory=set)  # had cleanup.policy=compact at some time
    ledger: Ledger = field(default_factory=Ledger)
    lookups: list[Lookup] = field(default_factory=list)
    corrupt: list[Corrupt] = field(default_factory=list)
    unserved: list[Unserved] = field(default_factory=list)
    process_count: int = 0
    _marks: dict[tuple[Key, str], tuple[list[int], list[int]]] = field(default_factory=dict)
    _open_cuts: list[int] = field(default_factory=list)  # power cuts without the ends after them
    _cuts_ns: list[tuple[int, int]] = field(default_factory=list)  # and all, with their times

    def __post_init__(self) -> None:
        self.ledger.volatile_keys = self.volatile
        self.ledger.compacted_keys = self.compacted

    # -- Requests -----------------------------------------------------------------------------

    def answered(self, asked: Asked, now_ns: int) -> None:
        """Note that an answer has come."""
        self.answer_count += 1
        late_ns = now_ns - asked.sent_ns - asked.wait_ms * 1_000_000
        self.slowest_ns = max(self.slowest_ns, late_ns)

    def fail(self, who: str, what: str) -> None:
        """Note what is wrong by itself."""
        self.failures.append(f"{who}: {what}")

    # -- The history --------------------------------------------------------------------------

    @property
    def ops(self) -> list[Op]:
        """All operations so far."""
        return self.history.ops

    def new_process(self) -> int:
        """Return a number for a client, or for what it is after an unknown outcome."""
        self.process_count += 1
        return self.process_count

    def sent(
        self,
        process: int,
        outcome: str,
        sends: list[Send],
        times_ns: tuple[int, int],
        *,
        is_volatile: bool = False,
        asked_ns: int | None = None,
    ) -> None:
        """Note that a send has ended. `times_ns`: when it began and when it ended.

        `asked_ns`: when the request began that was answered, if others had been tried before.
        """
        began_ns, ended_ns = times_ns
        self.history.ops.append(
            Op(
                process,
                outcome,
                sends=sends,
                invoked_s=began_ns / SECOND_NS,
                completed_s=ended_ns / SECOND_NS,
                is_volatile=is_volatile,
                before=self._before(began_ns if asked_ns is None else asked_ns),
            )
        )

    def polled(
        self, process: int, poll: Poll, times_ns: tuple[int, int], *, seeks: bool = False
    ) -> None:
        """Note what a fetch returned for one partition."""
        began_ns, ended_ns = times_ns
        self.history.ops.append(
            Op(
                process,
                OK,
                polls=(poll,),
                invoked_s=began_ns / SECOND_NS,
                completed_s=ended_ns / SECOND_NS,
                seeks=seeks,
                before=self._before(began_ns),
            )
        )

    def _before(self, asked_ns: int) -> int | None:
        """Return the number of the first operation after a power cut that a request was before.

        Its answer was on its way when the power was cut.
        """
        for cut_ns, number in self._cuts_ns:
            if asked_ns < cut_ns:
                return number
        return None

    def power_cut(self, now_ns: int) -> None:
        """Note a power cut, at its moment. `recovered` tells its effect."""
        self._open_cuts.append(len(self.history.ops))
        self._cuts_ns.append((now_ns, len(self.history.ops)))

    def recovered(self, ends: Mapping[Key, int]) -> None:
        """Note where the logs end at a start, before new records: a power cut has an effect."""
        for number in self._open_cuts:
            self.history.cuts.append(Cut(number, self.history.durable_count, {}))
        self._open_cuts.clear()
        self.opened(ends)

    def opened(self, ends: Mapping[Key, int]) -> None:
        """Note where logs end that have been opened, some of them for the first time since a cut.

        A log that the disk withholds at the first start is opened later, and lacks then what the
        power cut has taken.
        """
        for key, end in ends.items():
            unknown = [cut.ends for cut in self.history.cuts if key not in cut.ends]
            for known in unknown:
                known[key] = end
            if unknown:
                self.ledger.cut({key: end})

    def stopped(self) -> None:
        """Note a clean stop: all that was acknowledged is durable now."""
        if not self._open_cuts:
            self.history.harden()

    def sealed(self) -> History:
        """Return the history with the kinds of its keys, for the checker."""
        self.history.volatile_keys = frozenset(self.volatile)
        self.history.compacted_keys = frozenset(self.compacted)
        return self.history

    # -- The ledger ---------------------------------------------------------------------------

    def saw_batch(self, key: Key, batch: SeenBatch, asked_ns: int) -> None:
        """Compare a batch with what was served at its offset before (H1)."""
        if key in self.volatile and self._before(asked_ns) is not None:
            return  # a power cut may have taken it away, before it arrived
        self.ledger.saw_batch(key, batch)

    def saw_mark(self, key: Key, name: str, value: int, times_ns: tuple[int, int]) -> None:
        """Compare a mark with those known before its request was sent (H4).

        The judge leaves out high watermarks of `volatile` keys, as the ledger does.
        """
        sent_ns, answered_ns = times_ns
        known = self.mark_before(key, name, sent_ns)
        if known > value:
            detail = f"{key}: {name} went from {known} to {value}"
            self.breaches.append((name, key, Anomaly("H4", detail)))
        self.reached(key, name, value, answered_ns)

    def reached(self, key: Key, name: str, value: int, now_ns: int) -> None:
        """Note that a mark is at least `value` from now on."""
        whens, values = self._marks.setdefault((key, name), ([], []))
        if not values or value > values[-1]:
            if name == HIGH_WATERMARK:
                self.seen(key, value)
            whens.append(now_ns)
            values.append(value)

    def mark_before(self, key: Key, name: str, at_ns: int) -> int:
        """Return the highest mark that was seen before a time, -1 if none was."""
        whens, values = self._marks.get((key, name), ((), ()))
        before = bisect_left(whens, at_ns)
        return values[before - 1] if before else -1

    def last_mark(self, key: Key, name: str) -> int:
        """Return the highest mark that was seen, -1 if none was."""
        return self._marks[key, name][1][-1] if (key, name) in self._marks else -1
