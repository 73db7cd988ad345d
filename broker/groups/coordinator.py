"""The group coordinator of this broker: from a request to its group, and from the group to its log.

It is the coordinator of every group, since there is no other broker. What a request can meet:

    COORDINATOR_LOAD_IN_PROGRESS   the log of its group is being read after a start
    NOT_COORDINATOR                there is no `__consumer_offsets` yet, or the log of its group
                                   has failed: clients ask FindCoordinator and come again

The rules of each kind of group are in the groups (broker/groups/group.py says how both sides talk);
offsets are in broker/groups/offsets.py, and what is asked of them in broker/groups/commits.py. What
this module owns is which shard has a group (broker/groups/shard.py), when the shards are loaded,
and the duties by the clock.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from broker.groups.alarm import Alarm
from broker.groups.classic.classic_group import ClassicGroup
from broker.groups.errors import GroupError
from broker.groups.forgetting import TURN_UNITS, UNITS_PER_BATCH, DeletedTopics
from broker.groups.group import Caller, Group, GroupKind, GroupRecord
from broker.groups.group_log import GroupLog, partition_of
from broker.groups.loading import load
from broker.groups.offsets import tombstone
from broker.groups.registry import Registry
from broker.groups.shard import Shard, ShardState
from broker.metadata.image import TopicInfo
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.owners import Owner
from broker.topics import Topics
from config.broker import BrokerConfig
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.messages.leave_group import MemberIdentity, MemberResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.record_errors import RecordError
from storage.errors import StorageError

logger = logging.getLogger("barnabas.groups")

_T = TypeVar("_T")

MINUTE_MS = 60_000


class Coordinator:
    """All groups of this broker. Implements broker.groups.group.Host for them."""

    def __init__(
        self,
        log: GroupLog,
        topics: Topics,
        pool: BlockingPool,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        own_configs: Callable[[str], Mapping[str, str]],
    ) -> None:
        self.log = log
        self.own_configs = own_configs
        self.topics = topics
        self.config = config
        self.clock = clock
        self._pool = pool
        self._loop = loop
        self._shards: list[Shard] = []  # by number; none: the topic is not there
        self._creating = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._load_task: asyncio.Task[None] | None = None
        self._stopped = False
        self._deleted_topics = DeletedTopics(self._remove_offsets)
        topics.listen(self._topic_changed)

    # -- Being a host (broker.groups.group.Host) --------------------------------------------------

    def write(
        self,
        group_id: str,
        records: Sequence[GroupRecord],
        done: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        """Append `records` to the log of the group, in one batch; see Host."""
        number = self._partition_of(group_id)
        end_offset = self.log.append(number, records)
        if done is not None:
            self.log.when_durable(number, end_offset, done)

    def when_durable(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` when everything that the group has written until now is durable."""
        self.log.when_durable(self._partition_of(group_id), None, done)

    def put(self, group: Group) -> None:
        """Make `group` the one of its id."""
        self._shard_of(group.group_id).registry.put(group)

    def alarm(self, ring: Callable[[int], int]) -> Alarm:
        """Return an alarm that is not set yet."""
        return Alarm(ring, self.clock.monotonic_ns, partial(owners.later, Owner.GROUP_ALARM))

    def compute(self, call: Callable[[], _T], done: Callable[[_T | None], None]) -> None:
        """Call in a thread, then `done` with what that returned; see Host."""
        returned: list[_T] = []

        def came_back(error: BaseException | None) -> None:
            done(None if error else returned[0])
            if error is not None:
                raise error

        self._pool.submit(Owner.GROUP_TARGETS, lambda: returned.append(call()), came_back)

    def new_id(self) -> str:
        """Return a random UUID as text."""
        return str(uuid.uuid4())

    # -- Finding groups ---------------------------------------------------------------------------

    async def ensure_log(self) -> None:
        """Create `__consumer_offsets` if it is not there. Raises GroupError."""
        async with self._creating:
            if not self._shards:
                await self.log.create()
                self._make_shards()

    def group(self, group_id: str) -> Group | None:
        """Return a group, None if there is none. Raises GroupError if that cannot be known."""
        return self.registry_of(group_id).get(group_id)

    def registry_of(self, group_id: str) -> Registry:
        """Return where a group is, or would be. Raises GroupError if it is not served now."""
        shard = self._shard_of(group_id)
        shard.check()
        return shard.registry

    def groups(self) -> Iterator[Group]:
        """Yield every group that is served."""
        for shard in self._shards:
            if shard.is_served:
                yield from shard.registry.groups.values()

    def _shard_of(self, group_id: str) -> Shard:
        return self._shards[self._partition_of(group_id)]

    def _partition_of(self, group_id: str) -> int:
        if not self._shards or self._stopped:
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        return partition_of(group_id, len(self._shards))

    def check_can_list(self) -> None:
        """Refuse to tell of all groups while some may not be known."""
        if any(shard.state is ShardState.LOADING for shard in self._shards):
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    # -- The classic APIs -------------------------------------------------------------------------

    def join(
        self, body: JoinGroupRequest, caller: Caller, answer: Callable[[JoinGroupResponse], None]
    ) -> None:
        """Answer a JoinGroup; a group is created by its first member without an id."""
        try:
            check_id(body.group_id)
            self._check_session(body.session_timeout_ms)
            group = self._group_to_join(body)
        except GroupError as error:
            answer(JoinGroupResponse(member_id=body.member_id, error_code=error.code))
            return
        group.join(body, caller, answer)

    def _check_session(self, timeout_ms: int) -> None:
        lowest_ms = self.config.group_min_session_timeout_ms
        if not lowest_ms <= timeout_ms <= self.config.group_max_session_timeout_ms:
            raise GroupError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def _group_to_join(self, body: JoinGroupRequest) -> Group:
        group = self.group(body.group_id)
        if group is not None and (group.kind is GroupKind.CLASSIC or not group.is_empty):
            return group
        if body.member_id:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        created = ClassicGroup(body.group_id, self)
        replaced = [] if group is None else group.tombstones()
        self.write(body.group_id, [*replaced, created.generation.first_record()])
        registry = self.registry_of(body.group_id)
        if group is not None:
            registry.remove(body.group_id, ErrorCode.UNKNOWN_MEMBER_ID)
        registry.put(created)
        return created

    def sync(self, body: SyncGroupRequest, answer: Callable[[SyncGroupResponse], None]) -> None:
        """Answer a SyncGroup."""
        try:
            group = self._group_of_member(body.group_id)
        except GroupError as error:
            answer(SyncGroupResponse(error_code=error.code))
            return
        group.sync(body, answer)

    def heartbeat(self, body: HeartbeatRequest) -> ErrorCode:
        """Return the answer to a Heartbeat. While groups are being loaded every member lives."""
        try:
            return self._group_of_member(body.group_id).heartbeat(body)
        except GroupError as error:
            if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ErrorCode.NONE
            return error.code

    def leave(self, group_id: str, members: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Let members go. Raises GroupError for all of them, but not for an unknown group."""
        check_id(group_id)
        group = self.group(group_id)
        if group is not None:
            return group.leave(members)
        return [
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for member in members
        ]

    def _group_of_member(self, group_id: str) -> Group:
        check_id(group_id)
        group = self.group(group_id)
        if group is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # -- Loading ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to load what there is; requests for it are answered that it is under way."""
        self._make_shards()
        for shard in self._shards:
            self._look_at(shard)
        self._load_in_background()

    def _make_shards(self) -> None:
        self._shards = [Shard(number) for number in range(self.log.count())]

    def _look_at(self, shard: Shard) -> None:
        """Close a shard until it is loaded, if it must be."""
        try:
            log = self.log.partition(shard.number).log
        except StorageError:  # offline, as was said: the topic changes when it is opened
            shard.state = ShardState.OFFLINE
            return
        has_records = log.end_offset > log.start_offset or log.failed is not None
        shard.state = ShardState.LOADING if has_records else ShardState.SERVING

    async def load(self) -> None:
        """Read all groups from their log, a partition after the other."""
        async with self._loading:
            started_ns = self.clock.monotonic_ns()
            found_count = 0
            for shard in self._shards:
                if shard.state is ShardState.LOADING:
                    found_count += await self._load(shard)
            if found_count:
                logger.info(
                    "%d groups from %d records in %d ms",
                    sum(1 for _ in self.groups()),
                    found_count,
                    (self.clock.monotonic_ns() - started_ns) // MS_NS,
                )

    async def _load(self, shard: Shard) -> int:
        """Load one shard; whatever goes wrong is that shard's alone. Return its records' count."""

        def is_ours(group_id: str) -> bool:
            return partition_of(group_id, len(self._shards)) == shard.number

        found_count = 0
        try:
            log = self.log.partition(shard.number).log
            buffer_bytes = self.config.offsets_load_buffer_size
            found_count = await load(shard, log, self, self._pool, is_ours, buffer_bytes)
        except Exception as error:
            if shard.is_dropped:
                return 0  # its topic was deleted meanwhile
            expected = isinstance(error, StorageError | RecordError)
            logger.error(
                "groups of %s-%d are not loaded: %s",
                GROUP_TOPIC,
                shard.number,
                error,
                exc_info=None if expected else error,
            )
            shard.refuse()
            return 0
        if not shard.is_dropped:
            shard.state = ShardState.SERVING
            for name in sorted(shard.deleted_topics):
                self._forget_topic(shard, name)
            shard.deleted_topics.clear()
        return found_count

    # -- By the clock, and by what happens to topics ----------------------------------------------

    async def expire_offsets(self) -> None:
        """Remove offsets past their retention, and groups that have nothing left."""
        now_ms = self.clock.now_ms()
        retention_ms = self.config.offsets_retention_minutes * MINUTE_MS
        units = 0
        for group in list(self.groups()):
            if units >= TURN_UNITS:
                await asyncio.sleep(0)
                units = 0
            group_id = group.group_id
            try:
                registry = self.registry_of(group_id)
            except GroupError:
                continue  # its topic has gone, while others had their turn
            expiry = group.expiry()
            if expiry is None or registry.get(group_id) is not group:
                continue  # or it has gone itself, or become another
            offsets = registry.offsets
            records = offsets.expired(
                group_id, expiry, group.is_subscribed_to, now_ms, retention_ms
            )
            count = sum(map(len, offsets.topics(group_id).values()))
            units += UNITS_PER_BATCH + count // 10 + len(records)
            is_over = len(records) == count and group.is_empty
            if self._remove_offsets(registry, group_id, records) and is_over:
                self._delete(group)

    def _remove_offsets(
        self, registry: Registry, group_id: str, tombstones: Sequence[GroupRecord]
    ) -> bool:
        """Write what removes offsets, in as many batches as it takes; say whether all of it was."""
        try:
            for piece in self.log.pieces(self._partition_of(group_id), tombstones):
                if piece:
                    self.write(group_id, piece)
                    for key, _ in piece:
                        registry.offsets.replay(key, None)
        except (GroupError, StorageError) as error:
            logger.warning("offsets of group %s are not removed: %s", group_id, error)
            return False
        return True

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group without members, with its offsets; return when that is durable."""
        try:
            registry = self.registry_of(group_id)
            group = registry.get(group_id)
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            group.check_delete()
        except GroupError as error:
            return error.code
        if not self._remove_offsets(registry, group_id, registry.offsets.tombstones(group_id)):
            return ErrorCode.NOT_COORDINATOR
        if not self._delete(group):
            return ErrorCode.NOT_COORDINATOR
        return await self._durable(group_id)

    async def delete_offsets(
        self, group_id: str, topics: Sequence[tuple[str, Sequence[int]]]
    ) -> dict[str, ErrorCode]:
        """Forget offsets; return, when that is durable, what became of each topic.

        Raises GroupError for the request as a whole.
        """
        check_id(group_id)
        registry = self.registry_of(group_id)
        group = registry.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
        read = {name for name, _ in topics if group.is_subscribed_to(name)}
        named = dict.fromkeys((name, number) for name, numbers in topics for number in numbers)
        tombstones = [
            tombstone(group_id, name, number)
            for name, number in named
            if name not in read and registry.offsets.get(group_id, name, number) is not None
        ]
        if not self._remove_offsets(registry, group_id, tombstones):
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        code = await self._durable(group_id) if tombstones else ErrorCode.NONE
        return {
            name: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if name in read else code
            for name, _ in topics
        }

    async def _durable(self, group_id: str) -> ErrorCode:
        future: asyncio.Future[ErrorCode] = self._loop.create_future()
        self.when_durable(group_id, future.set_result)
        return await future

    def _delete(self, group: Group) -> bool:
        """Write that a group without members and offsets is no more; say whether that was done."""
        try:
            self.write(group.group_id, group.tombstones())
        except GroupError as error:
            logger.warning("group %s is not removed: %s", group.group_id, error)
            return False
        self.registry_of(group.group_id).remove(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        return True

    def _topic_changed(self, name: str, topic: TopicInfo | None) -> None:
        if name == GROUP_TOPIC:
            if topic is None:
                self._unload()
            else:
                self._look_again()
            return
        if topic is None:
            for shard in self._shards:
                self._forget_topic(shard, name)
        for group in list(self.groups()):
            group.topics_changed(name)

    def _forget_topic(self, shard: Shard, name: str) -> None:
        """Remove the offsets of a deleted topic; of a shard that is not loaded yet, once it is."""
        if shard.is_served:
            self._deleted_topics.forget(shard, name)
        elif shard.state is not ShardState.REFUSED:
            shard.deleted_topics.add(name)

    def _look_again(self) -> None:
        """Load the partitions that are open at last."""
        for shard in self._shards:
            if shard.state is ShardState.OFFLINE:
                self._look_at(shard)
        self._load_in_background()

    def _load_in_background(self) -> None:
        if any(shard.state is ShardState.LOADING for shard in self._shards):
            self._load_task = owners.spawn(Owner.GROUP_LOADING, self.load(), "loading groups")

    def _unload(self) -> None:
        """Forget every group: the log of all of them is gone, or the broker stops."""
        shards, self._shards = self._shards, []
        for shard in shards:
            shard.drop()

    def stop(self) -> None:
        """Answer everyone who waits: the broker stops. The log says how groups go on afterwards."""
        self._deleted_topics.finish()
        self._stopped = True
        if self._load_task is not None:
            self._load_task.cancel()
        self._unload()


def check_id(group_id: str) -> None:
    """Refuse the empty id, which the oldest offset requests alone may use."""
    if not group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
