"""A consumer that shares topics with the other members of its group, for asyncio.

    async with GroupConsumer("127.0.0.1:9094", "billing") as consumer:
        consumer.subscribe(["orders"])                   # or regex="orders-.*"
        while True:
            for read in await consumer.poll():
                ...
            await consumer.commit()                      # or auto_commit_ms=5_000

What a membership is, and how partitions go from one member to another without two at a time, is
`client.msgpack.membership`'s; here are the connections and the waiting. One task sends heartbeats,
on a connection of its own with the commits. Everything else happens inside `poll`: giving up and
taking partitions, with the listener's calls, finding positions (the committed offset, else
`auto_offset_reset`), fetching. So between two polls nothing is taken away, unless they lie further
apart than `max_poll_ms`; then the group goes on without this member, which loses what it held and
joins again at the next poll. A commit says "done with everything that poll has returned".

A lost connection is an error of the poll, and made anew by the next one. Who blocks the loop keeps
the heartbeats waiting, too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from client.codes import code_of, code_text
from client.msgpack.consumer import (
    END,
    FETCH_BYTES,
    PARTITION_BYTES,
    START,
    TIMEOUT_S,
    FetchError,
    opened,
)
from client.msgpack.group_offsets import CommitError, GroupOffsets
from client.msgpack.membership import MemberSettings, Membership, Partition, State, Subscription
from client.msgpack.positions import Positions
from client.msgpack.transport import RequestRefused, Transport, TransportError, UnknownPlace
from client.places import Place
from protocol.errors import ErrorCode
from protocol.record_errors import RecordError
from protocol.records import Record

RESETS: Final = {"earliest": START, "latest": END, "error": None}
LEAVE_S: Final = 5.0  # how long a farewell may take
_IDLE_S: Final = 0.1
# A topic that has been deleted, or made anew: the broker will say what to hold instead.
_PASSING: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Read(NamedTuple):
    """A record, and where it stands."""

    place: Place
    record: Record


class RebalanceListener:
    """Is told, inside `poll` and `close`, what comes and goes; for overriding."""

    async def on_assigned(self, places: Collection[Place]) -> None:
        """These are held from now on; `seek` may say from where to read them."""

    async def on_revoked(self, places: Collection[Place]) -> None:
        """These are given up after this: the last moment to commit them."""

    async def on_lost(self, places: Collection[Place]) -> None:
        """These are gone, read by others perhaps: nothing of them can be committed."""


class GroupConsumer:
    """A member of `group_id`; `instance_id` makes it a static one (KIP-345)."""

    def __init__(
        self,
        address: str,
        group_id: str,
        *,
        instance_id: str | None = None,
        assignor: str | None = None,
        auto_offset_reset: str = "latest",
        auto_commit_ms: int | None = None,
        max_poll_ms: int = 300_000,
        listener: RebalanceListener | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if auto_offset_reset not in RESETS:
            raise ValueError(
                f"auto_offset_reset is {auto_offset_reset!r}, wanted one of {', '.join(RESETS)}"
            )
        settings = MemberSettings(
            group_id=group_id,
            member_id=str(uuid.uuid4()),
            instance_id=instance_id,
            assignor=assignor,
            rebalance_ms=max_poll_ms,
        )
        self.membership = Membership(settings, Subscription(), 0)
        self.commit_failure: Exception | None = None  # the last one of those nobody waited for
        self.heartbeat_failure: TransportError | None = None  # of the last one, if unanswered
        self._reset = auto_offset_reset
        self._auto_commit_ms = auto_commit_ms
        self._commit_due_ms = 0.0
        self._listener = listener or RebalanceListener()
        self._positions = Positions()
        self._names: dict[bytes, str] = {}
        self._reading = Transport(address, timeout_s)
        self._coordinator = Transport(address, timeout_s)
        self._offsets = GroupOffsets(self._coordinator, self.membership, self._positions, timeout_s)
        self._wake = asyncio.Event()  # for the heartbeats: there is something new to say
        self._news = asyncio.Event()  # for poll: there was an answer
        self._beating: asyncio.Task[None] | None = None
        self._trouble: FetchError | RecordError | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises TransportError if nobody answers now."""
        await self._reading.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave the group; what poll returned last is committed unless an error leaves the block.

        Only where commits are automatic; a cancellation is no error.
        """
        await self.close(commit=kind is None or issubclass(kind, asyncio.CancelledError))

    def subscribe(self, topics: Collection[str] = (), *, regex: str = "") -> None:
        """Want topics by name, or those whose whole name a regular expression (RE2) matches.

        Joins the group, or tells it what is wanted now; the answer is seen by `poll`.
        """
        if bool(topics) == bool(regex):
            raise ValueError(
                f"found topics {list(topics)} and regex {regex!r}, wanted one of them and not both"
            )
        self.membership.subscribe(Subscription(tuple(topics), regex), _now_ms())
        self._wake.set()
        if self._beating is None:
            self.membership.polled(_now_ms())
            self._beating = asyncio.create_task(self._beat())

    @property
    def assignment(self) -> list[Place]:
        """The partitions that are held, ordered."""
        return self._places(self._positions)

    def position(self, place: Place) -> int:
        """Return the offset that is read next, -1 where it is not known yet."""
        return self._positions.offset(self._held(place))

    def positions(self) -> dict[Place, int]:
        """Return the offset that is read next of every partition that has one."""
        return {self._place(one): offset for one, offset in self._positions.offsets().items()}

    def seek(self, place: Place, offset: int) -> None:
        """Read a partition that is held from `offset` on."""
        self._positions.place(self._held(place), offset)

    def pause(self, *places: Place) -> None:
        """Read these no more until `resume`; they stay held."""
        for place in places:
            self._positions.pause(self._held(place), paused=True)

    def resume(self, *places: Place) -> None:
        """Read these again."""
        for place in places:
            self._positions.pause(self._held(place), paused=False)

    def _held(self, place: Place) -> Partition:
        for topic_id, name in self._names.items():
            partition = Partition(topic_id, place.partition)
            if name == place.topic and partition in self._positions:
                return partition
        held = ", ".join(f"{one.topic}-{one.partition}" for one in self.assignment) or "nothing"
        raise UnknownPlace(
            f"partition {place.topic}-{place.partition} is not held here; held: {held}"
        )

    def _place(self, partition: Partition) -> Place:
        return Place(self._names[partition.topic_id], partition.number)

    def _places(self, partitions: Iterable[Partition]) -> list[Place]:
        return sorted(self._place(one) for one in partitions)

    async def _beat(self) -> None:
        """Send what the membership has to say, when it is due."""
        try:
            while self.membership.state not in (State.LEFT, State.FAILED):
                self._wake.clear()
                body = self.membership.request(_now_ms())
                if body is None:
                    await self._until_due()
                    continue
                try:
                    if self.membership.seeks_coordinator:
                        await self._find_coordinator()
                    answer = await self._coordinator.call("consumer_group_heartbeat", body)
                except TransportError as error:
                    self.heartbeat_failure = error
                    self.membership.unanswered(_now_ms())
                except RequestRefused as error:
                    self.membership.fail(str(error), ErrorCode.INVALID_REQUEST)
                else:
                    self.heartbeat_failure = None
                    self.membership.answered(answer, _now_ms())
                self._news.set()
        finally:
            self._news.set()

    async def _find_coordinator(self) -> None:
        """Ask for the coordinator, which makes there be one; whether it is, a heartbeat tells."""
        body = {"key_type": 0, "coordinator_keys": [self.membership.settings.group_id]}
        await self._coordinator.call("find_coordinator", body)
        self.membership.seeks_coordinator = False

    async def _until_due(self) -> None:
        due_ms = self.membership.due_ms()
        wait_s = None if due_ms is None else max(0, (due_ms - _now_ms()) / 1000)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    def _check_alive(self) -> None:
        if self._beating is None:
            raise RuntimeError("nothing is subscribed to: call subscribe first")
        if self.membership.error is not None:
            raise self.membership.error
        if self._beating.done() and not self._beating.cancelled():
            died = self._beating.exception()
            if died is not None:
                raise died

    async def poll(self, *, wait_ms: int = 500) -> list[Read]:
        """Return records behind the positions, in order within each partition.

        Waits up to `wait_ms` for the first; none is an empty list. Raises GroupRefused when the
        group does not take us, FetchError and RecordError for a partition, and TransportError;
        after the last, polling again is right.
        """
        until_ms = _now_ms() + wait_ms
        while True:
            self._news.clear()
            await self._rebalance()
            self._check_alive()
            if self._trouble is not None:
                trouble, self._trouble = self._trouble, None
                raise trouble
            await self._commit_if_due()
            await self._find_positions()
            left_ms = max(0, until_ms - _now_ms())
            found = await self._read(int(left_ms))
            if found or _now_ms() >= until_ms:
                return found

    async def _rebalance(self) -> None:
        """Give up and take partitions until what is held is what the group wants."""
        self.membership.polled(_now_ms())
        while True:
            lost = self.membership.take_loss()
            self._wake.set()
            if lost:
                places = self._places(lost)
                self._positions.drop(lost)
                await self._listener.on_lost(places)
            await self._learn_names()
            change = self.membership.change(self._names)
            if change is None:
                return
            if change.revoked:
                await self._revoke(change.revoked)
            self.membership.take(change.assigned & self.membership.target, _now_ms())
            assigned = change.assigned & self.membership.owned
            self._wake.set()
            if assigned:
                self._positions.hold(assigned)
                await self._listener.on_assigned(self._places(assigned))

    async def _revoke(self, revoked: frozenset[Partition]) -> None:
        if self._auto_commit_ms is not None:
            await self._commit_quietly(revoked)
        await self._listener.on_revoked(self._places(revoked))
        self._positions.drop(revoked)
        self.membership.give_up(revoked, _now_ms())

    async def _learn_names(self) -> None:
        """Ask for the names of topics that are new, and forget those that are not needed."""
        needed = {one.topic_id for one in self.membership.target | self.membership.owned}
        self._names = {one: name for one, name in self._names.items() if one in needed}
        unknown = [{"topic_id": one, "name": None} for one in needed if one not in self._names]
        if unknown:
            answer = await self._reading.call(
                "metadata", {"topics": unknown, "allow_auto_topic_creation": False}
            )
            for topic in answer["topics"]:
                if not topic["error_code"]:
                    self._names[topic["topic_id"]] = topic["name"]

    async def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        """Commit the offsets to go on at, by default behind what `poll` has returned.

        Returns when they are durable. Raises CommitError, TransportError.
        """
        if offsets is None:
            wanted = self._positions.uncommitted()
        else:
            wanted = {self._held(place): offset for place, offset in offsets.items()}
        await self._offsets.commit(wanted)

    async def committed(self, places: Collection[Place]) -> dict[Place, int]:
        """Return the committed offset of partitions that are held, -1 where there is none."""
        found = await self._offsets.fetch([self._held(place) for place in places])
        return {self._place(one): offset for one, offset in found.items()}

    async def _commit_if_due(self) -> None:
        if self._auto_commit_ms is not None and _now_ms() >= self._commit_due_ms:
            self._commit_due_ms = _now_ms() + self._auto_commit_ms
            await self._commit_quietly(self.membership.owned)

    async def _commit_quietly(self, partitions: frozenset[Partition]) -> None:
        """Commit what can be; what fails is read again by whoever reads these partitions next."""
        offsets = self._positions.uncommitted()
        try:
            await self._offsets.commit({one: offsets[one] for one in partitions & offsets.keys()})
        except (CommitError, TransportError, RequestRefused) as error:
            self.commit_failure = error

    async def _find_positions(self) -> None:
        """Find where to read what has no position: where the group stopped, or by the reset."""
        unplaced = self._positions.unplaced()
        if not unplaced or not self.membership.is_member:
            return
        found = await self._offsets.fetch(unplaced)
        fresh = []
        for one, offset in found.items():
            if offset >= 0:
                self._positions.place(one, offset, committed=True)
            else:
                fresh.append(one)
        if fresh:
            await self._place_by_reset(fresh, "the group has committed nothing for it")

    async def _place_by_reset(self, partitions: list[Partition], why: str) -> None:
        timestamp = RESETS[self._reset]
        if timestamp is None:
            topic, number = self._place(partitions[0])
            raise FetchError(
                f"{topic}-{number} has no place to read from: {why}, and auto_offset_reset is "
                "error. Seek, or let `barnabas groups reset-offsets` set one.",
                retriable=False,
            )
        found = await self._list_offsets(self._places(partitions), timestamp)
        for place, (number, offset) in found.items():
            if not number:
                self._positions.place(self._held(place), offset)
            elif not code_of(number).retriable:
                raise _fetch_error(place, number)

    async def end_offsets(self) -> dict[Place, int]:
        """Return the offset behind the last record of every partition that is held."""
        found = await self._list_offsets(self.assignment, END)
        for place, (number, _) in found.items():
            if number:
                raise _fetch_error(place, number)
        return {place: offset for place, (_, offset) in found.items()}

    async def _list_offsets(
        self, places: Collection[Place], timestamp: int
    ) -> dict[Place, tuple[int, int]]:
        """Return error code and offset by partition, of START or END."""
        topics: dict[str, list[dict[str, int]]] = {}
        for place in places:
            asked = {"partition_index": place.partition, "timestamp": timestamp}
            topics.setdefault(place.topic, []).append(asked)
        body = [{"name": name, "partitions": asked} for name, asked in topics.items()]
        answer = await self._reading.call("list_offsets", {"replica_id": -1, "topics": body})
        return {
            Place(topic["name"], one["partition_index"]): (one["error_code"], one["offset"])
            for topic in answer["topics"]
            for one in topic["partitions"]
        }

    async def _read(self, wait_ms: int) -> list[Read]:
        asked = self._positions.readable() if self.membership.is_member else []
        if not asked:
            await self._idle(wait_ms)
            return []
        answer = await self._reading.call(
            "fetch", self._fetch_body(asked, wait_ms), wait_ms=wait_ms
        )
        if not self.membership.is_member:
            return []  # others may hold these by now
        found: list[Read] = []
        is_passing = False
        out_of_range = []
        for topic in answer["responses"]:
            for one in topic["partitions"]:
                partition = Partition(topic["topic_id"], one["partition_index"])
                code = code_of(one["error_code"])
                if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(partition)
                elif code in _PASSING:
                    is_passing = True
                else:
                    self._open(partition, one, found)
        if out_of_range:
            await self._place_by_reset(out_of_range, "its position is outside of what there is")
        if is_passing and not found:
            await self._idle(wait_ms)
        return found

    def _open(self, partition: Partition, one: dict[str, Any], found: list[Read]) -> None:
        """Add a partition's records, and move its position behind every batch that is done."""
        place = self._place(partition)
        try:
            if one["error_code"]:
                raise _fetch_error(place, one["error_code"])
            position = self._positions.offset(partition)
            for records, batch in opened(one["records"] or b"", position):
                self._positions.move(partition, batch.next_offset, batch.leader_epoch)
                found += [Read(place, record) for record in records]
        except (FetchError, RecordError) as error:
            self._trouble = self._trouble or error

    def _fetch_body(self, asked: list[Partition], wait_ms: int) -> dict[str, Any]:
        topics: dict[bytes, list[dict[str, int]]] = {}
        for one in asked:
            partition = {
                "partition": one.number,
                "fetch_offset": self._positions.offset(one),
                "partition_max_bytes": PARTITION_BYTES,
            }
            topics.setdefault(one.topic_id, []).append(partition)
        return {
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": FETCH_BYTES,
            "topics": [{"topic_id": one, "partitions": found} for one, found in topics.items()],
            "raw": True,
        }

    async def _idle(self, wait_ms: int) -> None:
        """Wait for an answer to a heartbeat, a little while at most where one is not enough."""
        wait_s = wait_ms / 1000
        if self._positions.unplaced():
            wait_s = min(wait_s, _IDLE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()

    async def close(self, *, commit: bool = True) -> None:
        """Give everything up, leave the group, and hang up."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._leave(commit=commit)
        except (TimeoutError, TransportError, RequestRefused):
            pass  # the group will miss us
        finally:
            if self._beating is not None:
                self._beating.cancel()
            self._reading.close()
            self._coordinator.close()

    async def _leave(self, *, commit: bool) -> None:
        owned = self.membership.owned if self.membership.is_member else frozenset()
        if owned and commit and self._auto_commit_ms is not None:
            await self._commit_quietly(owned)
        if owned:
            await self._listener.on_revoked(self._places(owned))
        if self._beating is not None:
            self._beating.cancel()
        body = self.membership.leave()
        if body is not None:
            await self._coordinator.call("consumer_group_heartbeat", body)


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def _fetch_error(place: Place, number: int) -> FetchError:
    text = f"{place.topic}-{place.partition}: {code_text(number)}"
    return FetchError(text, retriable=code_of(number).retriable)
