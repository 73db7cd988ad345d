"""A consumer that shares topics with the other members of its group, for asyncio.

    settings = GroupSettings(group_id="billing")         # auto_commit_ms=5_000 instead of commit
    async with GroupConsumer("127.0.0.1:9094", settings) as consumer:
        consumer.subscribe(["orders"])                   # or regex="orders-.*"
        while True:
            for read in await consumer.poll():
                ...
            await consumer.commit()

`membership` defines the protocol of a group and how a partition moves between members without two
owners; this module connects it to the network. One task sends `heartbeats`, on the connection that
also carries commits. Everything else happens inside `poll`: giving up and taking partitions, with
the listener's calls, finding positions (the committed offset, else `auto_offset_reset`), fetching.
So no partition is revoked between two polls, unless they are more than `max_poll_ms` apart; then
the group removes this member, which loses its partitions and rejoins at the next poll. A commit
means "done with all records that poll has returned".

`poll` raises when a connection is lost, and the next one reconnects. Code that blocks the event
loop also delays the heartbeats.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

from client.msgpack.consumer import TIMEOUT_S
from client.msgpack.fetching import READ_COMMITTED, READ_UNCOMMITTED
from client.msgpack.group_offsets import CommitError, GroupOffsets
from client.msgpack.group_reader import RESETS, GroupReader, Read
from client.msgpack.heartbeats import Heartbeats
from client.msgpack.membership import MemberSettings, Membership, Partition, Subscription
from client.msgpack.positions import Positions
from client.msgpack.topic_names import TopicNames
from client.msgpack.transport import RequestRefused, Transport, TransportError, UnknownPlace, now_ms
from client.places import Place

LEAVE_S: Final = 5.0  # how long leaving may take
_IDLE_S: Final = 0.1


class RebalanceListener:
    """Called inside `poll` and `close` when the assignment changes; override what you need."""

    async def on_assigned(self, places: Collection[Place]) -> None:
        """These are assigned; `seek` can set where to read them from."""

    async def on_revoked(self, places: Collection[Place]) -> None:
        """These are given up after this call: the last chance to commit their offsets."""

    async def on_lost(self, places: Collection[Place]) -> None:
        """These are lost, and other members may read them: they cannot be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How a consumer takes part in its group; `instance_id` makes it a static member (KIP-345).

    Without `auto_commit_ms`, only `commit` commits. `committed_only`: read as with Kafka's
    read_committed, up to the last stable offset and nothing that was aborted. Raises ValueError.
    """

    group_id: str
    instance_id: str | None = None
    assignor: str | None = None
    auto_offset_reset: str = "latest"
    auto_commit_ms: int | None = None
    max_poll_ms: int = 300_000
    committed_only: bool = False

    def __post_init__(self) -> None:
        if self.auto_offset_reset not in RESETS:
            raise ValueError(
                f"auto_offset_reset is {self.auto_offset_reset!r}, "
                f"expected one of {', '.join(RESETS)}"
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
        self.commit_failure: Exception | None = None  # of the last automatic commit that failed
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
            READ_COMMITTED if settings.committed_only else READ_UNCOMMITTED,
        )

    async def __aenter__(self) -> Self:
        """Connect. Raises TransportError if nobody answers."""
        await self._reading.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave the group. With automatic commits, commit first, unless the block raised an error.

        A cancellation does not count as an error.
        """
        await self.close(commit=kind is None or issubclass(kind, asyncio.CancelledError))

    def subscribe(self, topics: Collection[str] = (), *, regex: str = "") -> None:
        """Subscribe to topics by name, or to all whose whole name matches a regex (RE2).

        Joins the group, or changes the subscription; `poll` takes the new assignment.
        """
        if bool(topics) == bool(regex):
            raise ValueError(
                f"topics are {list(topics)} and regex is {regex!r}: pass one of them, not both"
            )
        self.membership.subscribe(Subscription(tuple(topics), regex), now_ms())
        self._heartbeats.wake()
        if not self._heartbeats.have_begun:
            self.membership.polled(now_ms())
            self._heartbeats.start()

    @property
    def heartbeat_failure(self) -> TransportError | None:
        """Why the last heartbeat was not answered; None if it was."""
        return self._heartbeats.failure

    @property
    def assignment(self) -> list[Place]:
        """The assigned partitions, ordered."""
        return self._names.places(self._positions)

    def position(self, place: Place) -> int:
        """Return the offset to read next, -1 if it is not known yet."""
        return self._positions.offset(self._held(place))

    def positions(self) -> dict[Place, int]:
        """Return the offset to read next of each partition that has one."""
        return {self._names.place(one): offset for one, offset in self._positions.offsets().items()}

    def seek(self, place: Place, offset: int) -> None:
        """Continue reading an assigned partition at `offset`."""
        self._positions.place(self._held(place), offset)

    def pause(self, *places: Place) -> None:
        """Stop reading these until `resume`; they stay assigned."""
        for place in places:
            self._positions.pause(self._held(place), paused=True)

    def resume(self, *places: Place) -> None:
        """Continue reading these."""
        for place in places:
            self._positions.pause(self._held(place), paused=False)

    def _held(self, place: Place) -> Partition:
        for partition in self._names.partitions(place):
            if partition in self._positions:
                return partition
        held = ", ".join(map(str, self.assignment)) or "nothing"
        raise UnknownPlace(f"partition {place} is not assigned to this consumer; assigned: {held}")

    async def end_offsets(self) -> dict[Place, int]:
        """Return the end offset of each assigned partition."""
        return await self._reader.end_offsets()

    async def poll(self, *, wait_ms: int = 500) -> list[Read]:
        """Return records from the positions on, in order within each partition.

        Waits up to `wait_ms` for the first record, then returns an empty list. Raises GroupRefused
        if the group refuses this member, FetchError and RecordError for a partition, and
        TransportError, after which the caller may poll again.
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
        """Give up and take partitions until they match the group's assignment."""
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
        """Commit offsets, by default those after the last records that `poll` returned.

        Returns when they are durable. Raises CommitError, TransportError.
        """
        if offsets is None:
            wanted = self._positions.uncommitted()
        else:
            wanted = {self._held(place): offset for place, offset in offsets.items()}
        await self._offsets.commit(wanted)

    async def committed(self, places: Collection[Place]) -> dict[Place, int]:
        """Return the committed offset of assigned partitions, -1 if there is none."""
        found = await self._offsets.fetch([self._held(place) for place in places])
        return {self._names.place(one): offset for one, offset in found.items()}

    async def _commit_if_due(self) -> None:
        if self._auto_commit_ms is not None and now_ms() >= self._commit_due_ms:
            self._commit_due_ms = now_ms() + self._auto_commit_ms
            await self._commit_quietly(self.membership.owned)

    async def _commit_quietly(self, partitions: frozenset[Partition]) -> None:
        """Commit if possible; otherwise the next owner of these partitions reads them again."""
        offsets = self._positions.uncommitted()
        try:
            await self._offsets.commit({one: offsets[one] for one in partitions & offsets.keys()})
        except (CommitError, TransportError, RequestRefused) as error:
            self.commit_failure = error

    async def _idle(self, wait_ms: int) -> None:
        """Wait for an answer to a heartbeat, but only briefly while positions are missing."""
        wait_s = wait_ms / 1000
        if self._positions.unplaced():
            wait_s = min(wait_s, _IDLE_S)
        await self._heartbeats.wait_for_news(wait_s)

    async def close(self, *, commit: bool = True) -> None:
        """Give up all partitions, leave the group, and close the connections."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._leave(commit=commit)
        except (TimeoutError, TransportError, RequestRefused):
            pass  # the group removes us after the session timeout
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
