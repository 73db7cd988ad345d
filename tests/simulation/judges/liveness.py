"""Liveness: once the faults are over, everything is answered, written and stopped in time.

    overdue    every request that still waits on an open connection has waited less than its own
               time and BOUND_MS more; no client has left after such a wait in vain
    owed       while the machine is well, no client leaves before an answer that is seconds late
    unwoken    while the machine is well, a fetch that waits is answered soon after there is
               something to read, which an acknowledgement proves. Time in which the budget of
               requests is full does not count: others may fill it, and then a frame is not read
    prove      an actor: every healthy partition takes a batch with acks=all, and the groups
               answer. That the batches can be read is seen when the logs are read back
    unread     each partition that was proved has been read back
    stopped    the stop after SIGTERM ends in time, with exit code 0 and the line that says so

Faults excuse nothing here: the disk is healed and the broker was started anew. Partitions with
flipped bits are left out where they refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.records import Record as LogRecord
from protocol.records import build
from tests.simulation.clients.topics import Topic
from tests.simulation.clients.wire import Disconnected, Wire
from tests.simulation.group_events import Event, Removed
from tests.simulation.record import Asked, Record
from tests.simulation.world import MS, TimedOut
from tests.support.history_checker import INFO, OK, Key, Send

if TYPE_CHECKING:
    from tests.simulation.world import World

BOUND_MS: Final = 30_000
TRIES_MAX: Final = 5
LISTED_MAX: Final = 8
WAIT_FOR_OTHERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
STOPPED: Final = "stopped; everything is on disk"
PRODUCE_VERSION, BY_ID_VERSION, LIST_VERSION, DESCRIBE_VERSION = 9, 13, 4, 5
# What a broker may answer for a while: a batch that waits for a slow disk, groups being loaded.
PASSING: Final = frozenset({7, 14, 15})
GONE: Final = frozenset({3, 100})  # unknown topic or partition, unknown topic id


# -- Requests that wait -------------------------------------------------------------------


def overdue(record: Record, now_ns: int, healed_ns: int) -> list[str]:
    """Object to requests that are not answered in time, counted from when the faults ended."""
    found = [
        f"not answered at {now_ns} ns: {_text(asked)}"
        for asked in record.unanswered.values()
        if _is_late(asked, now_ns, healed_ns)
    ]
    found += [
        f"not answered when its client left at {left_ns} ns: {_text(asked)}"
        for asked, left_ns in record.gave_up
        if _is_late(asked, left_ns, healed_ns)
    ]
    return _listed(found)


def _is_late(asked: Asked, now_ns: int, healed_ns: int) -> bool:
    waited_ns = now_ns - max(asked.sent_ns, healed_ns)
    return waited_ns > (asked.wait_ms + BOUND_MS) * MS


def _text(asked: Asked) -> str:
    return f"{asked.number} {asked.what} of {asked.wire}, sent at {asked.sent_ns} ns"


def owed(record: Record, bound_ms: int, full: Spans) -> list[str]:
    """Object to requests that had no answer after `bound_ms` when their clients left.

    For a machine that was well all the time. Those that wait for other members are left out, and so
    is the time in which the budget of requests was `full`.
    """
    found = []
    for asked, left_ns in record.owed:
        waited_ns = left_ns - asked.sent_ns - full.within_ns(asked.sent_ns, left_ns)
        if asked.api_key not in WAIT_FOR_OTHERS and waited_ns > (asked.wait_ms + bound_ms) * MS:
            found.append(f"not answered when its client left at {left_ns} ns: {_text(asked)}")
    return _listed(found)


# -- Fetches that wait --------------------------------------------------------------------


class Spans:
    """Spans of time, each from a `begin` to the next `end`."""

    def __init__(self) -> None:
        self._ended: list[tuple[int, int]] = []
        self._began_ns: int | None = None

    def begin(self, now_ns: int) -> None:
        """Begin one, unless one has begun."""
        self._began_ns = now_ns if self._began_ns is None else self._began_ns

    def end(self, now_ns: int) -> None:
        """End the one that has begun, if any."""
        if self._began_ns is not None:
            self._ended.append((self._began_ns, now_ns))
            self._began_ns = None

    def within_ns(self, first_ns: int, last_ns: int) -> int:
        """Return how much of the time between two moments lies in spans that have ended."""
        return sum(max(0, min(last_ns, end) - max(first_ns, begin)) for begin, end in self._ended)


def unwoken(
    record: Record, bound_ms: int, but: Collection[Key] = (), full: Spans | None = None
) -> list[str]:
    """Object to fetches that were answered more than `bound_ms` after the records were there.

    `but`: keys that may lose records, so that there may be nothing to read after all. `full`: when
    the budget of requests was full.
    """
    full = full or Spans()
    acknowledged: dict[Key, list[tuple[int, int]]] = {}
    for op in record.ops:
        for send in op.sends:
            if op.outcome == OK and send.offset is not None and not op.is_volatile:
                known = acknowledged.setdefault(send.key, [])
                known.append((int(op.completed_s * 1_000 * MS), send.offset))
    found = []
    for poll in record.long_polls:
        if poll.answered_ns - poll.sent_ns <= bound_ms * MS:
            continue
        for key, position in poll.places:
            if key in but:
                continue
            times = [at_ns for at_ns, offset in acknowledged.get(key, ()) if offset >= position]
            since_ns = max(min(times, default=poll.answered_ns), poll.sent_ns)
            late_ns = poll.answered_ns - since_ns - full.within_ns(since_ns, poll.answered_ns)
            late_ms = late_ns / MS
            if late_ms > bound_ms:
                what = f"{poll.who} waited for {key} from {position} at {poll.sent_ns} ns"
                found.append(f"{what}, {late_ms:.0f} ms longer than it had to")
    return _listed(found)


# -- Proof --------------------------------------------------------------------------------


class Proof:
    """What `prove` has found: objections, and the partitions that took a batch."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.taken: dict[Key, int] = {}  # and at which offset

    def unread(self, logs: Mapping[Key, Any], going: Collection[str] = ()) -> list[str]:
        """Object to batches that were taken, but not served to the last reader.

        `going`: topics that may be deleted meanwhile, since clients that left had asked for it.
        """
        found = []
        for key, offset in self.taken.items():
            if key not in logs:
                name, _, topic_id = key[0].partition(":")
                if not topic_id or name not in going:
                    found.append(f"{key} was not read back")
                continue
            batches = logs[key].batches
            start = logs[key].start_offset
            if offset >= start and (not batches or batches[-1].last_offset < offset):
                found.append(f"{key} took a batch at {offset} and does not serve it")
        return _listed(found)


def open_deletions(events: Iterable[Event], since_ns: int) -> set[str]:
    """Return the topics that the broker may still delete: it was asked to, and has not answered."""
    return {
        event.topic
        for event in events
        if isinstance(event, Removed)
        and event.began_ns >= since_ns
        and event.code in (None, ErrorCode.REQUEST_TIMED_OUT)
    }


async def prove(
    world: World,
    wire: Wire,
    topics: Iterable[Topic],
    now_ms: Callable[[], int],
    damaged: Collection[str] = (),
    *,
    has_groups: bool = True,
) -> Proof:
    """Send a batch to each partition, and ask for all groups. `damaged`: directories' names.

    `now_ms` is the broker's wall clock, which a topic may compare the records' times with.
    """
    proof = Proof()
    for topic in topics:
        for number in range(topic.partition_count if any(topic.topic_id) else 0):
            name = f"{topic.name}-{number}"
            error = await _append(world, wire, topic, number, now_ms, proof)
            if error and name not in damaged:
                proof.found.append(f"{name} takes no batch: {error}")
    if has_groups and not any(name.startswith("__consumer_offsets") for name in damaged):
        proof.found += await groups_answer(world, wire)
    proof.found = _listed(proof.found)
    return proof


async def _append(
    world: World,
    wire: Wire,
    topic: Topic,
    number: int,
    now_ms: Callable[[], int],
    proof: Proof,
) -> str:
    """Send one batch until it is taken; return why it was not, or ""."""
    key, error = topic.key(number), ""
    for attempt in range(TRIES_MAX):
        value = b"proof%d:%d" % (attempt, number)
        batch = build([LogRecord(0, now_ms(), value.partition(b":")[0], value)])
        partition = PartitionProduceData(index=number, records=memoryview(batch))
        # One that is made anew while this goes on is another topic.
        version = BY_ID_VERSION if topic.may_be_gone else PRODUCE_VERSION
        data = TopicProduceData(
            name=topic.name, topic_id=topic.topic_id, partition_data=[partition]
        )
        body = ProduceRequest(acks=-1, timeout_ms=BOUND_MS, topic_data=[data])
        began_ns = world.now_ns
        answer = await _ask(wire, body, version, f"proof of {topic.name}-{number}")
        code = answer if isinstance(answer, str) else _part(answer).error_code
        offset = _part(answer).base_offset if code == 0 else None
        if code in GONE and topic.may_be_gone:
            return ""
        wire.record.sent(
            wire.record.new_process(),
            OK if code == 0 else INFO,
            [Send(key, value, offset)],
            (began_ns, world.now_ns),
        )
        if offset is not None:
            proof.taken[key] = offset
            return ""
        error = str(code)
        if isinstance(code, int) and code not in PASSING:
            break
        await world.sleep_ms(500)
    return error


def _part(answer: Any) -> Any:
    return answer.responses[0].partition_responses[0]


async def groups_answer(world: World, wire: Wire) -> list[str]:
    """Ask for all groups, and for each by its name."""
    error = ""
    for _ in range(TRIES_MAX):
        listed = await _ask(wire, ListGroupsRequest(), LIST_VERSION, "proof of groups")
        if isinstance(listed, str):
            error = listed
        elif not listed.error_code:
            names = [group.group_id for group in listed.groups]
            body = DescribeGroupsRequest(groups=names)
            answer = await _ask(wire, body, DESCRIBE_VERSION, "proof of groups")
            if isinstance(answer, str):
                error = answer
            elif len(answer.groups) == len(names):
                return []
            else:
                return [f"{len(names)} groups are listed, {len(answer.groups)} described"]
        else:
            error = f"code {listed.error_code}"
        await world.sleep_ms(500)
    return [f"groups do not answer: {error}"]


async def _ask(wire: Wire, body: Any, version: int, what: str) -> Any:
    """Return the answer, or why there is none."""
    try:
        await wire.open()
        return await wire.call(body, version, 2 * BOUND_MS, what)
    except Disconnected as error:
        return f"disconnected: {error}"
    except TimedOut:
        wire.close()
        return f"no answer within {2 * BOUND_MS} ms"


# -- The stop -----------------------------------------------------------------------------


def stopped(
    how: str, code: int, took_ms: float, deadline_ms: int, messages: Iterable[str]
) -> list[str]:
    """Object to a stop of a healthy broker. `how` and `code` are those of its end."""
    found = []
    if how != "stopped" or code:
        found.append(f"the stop ended as {how!r} with exit code {code}")
    if took_ms > deadline_ms:
        found.append(f"the stop took {took_ms:.0f} ms, barnabas.shutdown.deadline.ms {deadline_ms}")
    if STOPPED not in messages:
        found.append(f"the broker did not say {STOPPED!r}")
    return found


def _listed(found: list[str]) -> list[str]:
    more = len(found) - LISTED_MAX
    return [*found[:LISTED_MAX], *([f"and {more} more"] if more > 0 else [])]
