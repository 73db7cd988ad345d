"""A consumer that shares topics with the other members of its group, for asyncio.

    settings = GroupSettings(group_id="billing")         # auto_commit_ms=5_000 instead of commit
    async with GroupConsumer("127.0.0.1:9094", settings) as consumer:
        consumer.subscribe(["orders"])                   # or regex="orders-.*"
        while True:
            for read in await consumer.poll():
                ...
            await consumer.commit()

What a membership is, and how partitions go from one member to another without two at a time, is
`client.msgpack.membership`'s; here it is tied to the connections. One task sends `heartbeats`, on a
connection of its own with the commits. Everything else happens inside `poll`: giving up and
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
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

from client.msgpack.consumer import TIMEOUT_S
from client.msgpack.group_offsets import CommitError, GroupOffsets
from client.msgpack.group_reader import RESETS, GroupReader, Read
from client.msgpack.heartbeats import Heartbeats
from client.msgpack.membership import MemberSettings, Membership, Partition, Subscription
from client.msgpack.positions import Positions
from client.msgpack.topic_names import TopicNames
from client.msgpack.transport import RequestRefused, Transport, TransportError, UnknownPlace, now_ms
from client.places import Place

LEAVE_S: Final = 5.0  # how long a farewell may take
_IDLE_S: Final = 0.1


class RebalanceListener:
    """Is told, inside `poll` and `close`, what comes and goes; for overriding."""

    async def on_assigned(self, places: Collection[Place]) -> None:
        """These are held from now on; `seek` may say from where to read them."""

    async def on_revoked(self, places: Collection[Place]) -> None:
        """These are given up after this: the last moment to commit them."""

    async def on_lost(self, places: Collection[Place]) -> None:
        """These are gone, read by others perhaps: nothing of them can be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a consumer takes part in its group; `instance_id` makes it a static member (KIP-345).

    `auto_commit_ms` None: nothing is committed but by `commit`. Raises ValueError.
    """

    group_id: str
    instance_id: str | None = None
    assignor: str | None = None
    auto_offset_reset: str = "latest"
    auto_commit_ms: int | None = None
    max_poll_ms: int = 300_000

    def __post_init__(self) -> None:
        if self.auto_offset_reset not in RESETS:
            raise ValueError(
                f"auto_offset_reset is {self.auto_offset_reset!r}, "
                f"wanted one of {', '.join(RESETS)}"
            )


class GroupConsumer:
    """A member of a group."""

    def __init__(
        self,
        address: str,
        settings: GroupSettings,
        *,
        listener: RebalanceListener | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        member = MemberSettings(
            group_id=settings.group_id,
            member_id=str(uuid.uuid4()),
            instance_id=settings.instance_id,
            assignor=settings.assignor,
            rebalance_ms=settings.max_poll_ms,
        )
        self.membership = Membership(member, Subscription(), 0)
        self.commit_failure: Exception | None = None  # the last one of those nobody waited for
        self._auto_commit_ms = settings.auto_commit_ms
        self._commit_due_ms = 0.0
        self._listener = listener or RebalanceListener()
        self._positions = Positions()
        self._reading = Transport(address, timeout_s)
        self._coordinator = Transport(address, timeout_s)
        self._offsets = GroupOffsets(self._coordinator, self.membership, self._positions, timeout_s)
        self._heartbeats = Heartbeats(self._coordinator, self.membership)
        self._names = TopicNames(self._reading)
        self._reader = GroupReader(
            self._reading,
            self.membership,
            self._positions,
            self._offsets,
            self._names,
            settings.auto_offset_reset,
        )

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
        self.membership.subscribe(Subscription(tuple(topics), regex), now_ms())
        self._heartbeats.wake()
        if not self._heartbeats.have_begun:
            self.membership.polled(now_ms())
            self._heartbeats.start()

    @property
    def heartbeat_failure(self) -> TransportError | None:
        """Why the last heartbeat was not answered, None if it was."""
        return self._heartbeats.failure

    @property
    def assignment(self) -> list[Place]:
        """The partitions that are held, ordered."""
        return self._names.places(self._positions)

    def position(self, place: Place) -> int:
        """Return the offset that is read next, -1 where it is not known yet."""
        return self._positions.offset(self._held(place))

    def positions(self) -> dict[Place, int]:
        """Return the offset that is read next of every partition that has one."""
        return {self._names.place(one): offset for one, offset in self._positions.offsets().items()}

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
        for partition in self._names.partitions(place):
            if partition in self._positions:
                return partition
        held = ", ".join(map(str, self.assignment)) or "nothing"
        raise UnknownPlace(f"partition {place} is not held here; held: {held}")

    async def end_offsets(self) -> dict[Place, int]:
        """Return the offset behind the last record of every partition that is held."""
        return await self._reader.end_offsets()

    async def poll(self, *, wait_ms: int = 500) -> list[Read]:
        """Return records behind the positions, in order within each partition.

        Waits up to `wait_ms` for the first; none is an empty list. Raises GroupRefused when the
        group does not take us, FetchError and RecordError for a partition, and TransportError;
        after the last, polling again is right.
        """
        until_ms = now_ms() + wait_ms
        while True:
            self._heartbeats.expect_news()
            await self._rebalance()
            self._heartbeats.check()
            if self._reader.trouble is not None:
                trouble, self._reader.trouble = self._reader.trouble, None
                raise trouble
            await self._commit_if_due()
            await self._reader.find_positions()
            left_ms = int(max(0, until_ms - now_ms()))
            found = await self._reader.read(left_ms)
            if found is None:
                await self._idle(left_ms)
                found = []
            if found or now_ms() >= until_ms:
                return found

    async def _rebalance(self) -> None:
        """Give up and take partitions until what is held is what the group wants."""
        self.membership.polled(now_ms())
        while True:
            lost = self.membership.take_loss()
            self._heartbeats.wake()
            if lost:
                places = self._names.places(lost)
                self._positions.drop(lost)
                await self._listener.on_lost(places)
            held = self.membership.target | self.membership.owned
            await self._names.learn({one.topic_id for one in held})
            change = self.membership.change(self._names.known)
            if change is None:
                return
            if change.revoked:
                await self._revoke(change.revoked)
            self.membership.take(change.assigned & self.membership.target, now_ms())
            assigned = change.assigned & self.membership.owned
            self._heartbeats.wake()
            if assigned:
                self._positions.hold(assigned)
                await self._listener.on_assigned(self._names.places(assigned))

    async def _revoke(self, revoked: frozenset[Partition]) -> None:
        if self._auto_commit_ms is not None:
            await self._commit_quietly(revoked)
        await self._listener.on_revoked(self._names.places(revoked))
        self._positions.drop(revoked)
        self.membership.give_up(revoked, now_ms())

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
        return {self._names.place(one): offset for one, offset in found.items()}

    async def _commit_if_due(self) -> None:
        if self._auto_commit_ms is not None and now_ms() >= self._commit_due_ms:
            self._commit_due_ms = now_ms() + self._auto_commit_ms
            await self._commit_quietly(self.membership.owned)

    async def _commit_quietly(self, partitions: frozenset[Partition]) -> None:
        """Commit what can be; what fails is read again by whoever reads these partitions next."""
        offsets = self._positions.uncommitted()
        try:
            await self._offsets.commit({one: offsets[one] for one in partitions & offsets.keys()})
        except (CommitError, TransportError, RequestRefused) as error:
            self.commit_failure = error

    async def _idle(self, wait_ms: int) -> None:
        """Wait for an answer to a heartbeat, a little while at most where one is not enough."""
        wait_s = wait_ms / 1000
        if self._positions.unplaced():
            wait_s = min(wait_s, _IDLE_S)
        await self._heartbeats.wait_for_news(wait_s)

    async def close(self, *, commit: bool = True) -> None:
        """Give everything up, leave the group, and hang up."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._leave(commit=commit)
        except (TimeoutError, TransportError, RequestRefused):
            pass  # the group will miss us
        finally:
            self._heartbeats.stop()
            self._reading.close()
            self._coordinator.close()

    async def _leave(self, *, commit: bool) -> None:
        owned = self.membership.owned if self.membership.is_member else frozenset()
        if owned and commit and self._auto_commit_ms is not None:
            await self._commit_quietly(owned)
        if owned:
            await self._listener.on_revoked(self._names.places(owned))
        self._heartbeats.stop()
        body = self.membership.leave()
        if body is not None:
            await self._coordinator.call("consumer_group_heartbeat", body)
