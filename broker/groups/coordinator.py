"""The group coordinator of this broker: from a request to its group, and from the group to its log.

It is the coordinator of every group, since there is no other broker. What a request can meet:

    COORDINATOR_LOAD_IN_PROGRESS   the log of its group is being read after a start
    NOT_COORDINATOR                there is no `__consumer_offsets` yet, or its log has failed:
                                   clients ask FindCoordinator, which creates it, and come again

The rules of each kind of group are in the groups (broker/groups/group.py says how both sides talk);
offsets are in broker/groups/offsets.py, and what is asked of them in broker/groups/commits.py. What
this module owns is the registry, the loading, and the duties by the clock.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence

from broker.blocking_pool import BlockingPool
from broker.clock import Clock
from broker.groups.alarm import Alarm
from broker.groups.classic.group import ClassicGroup
from broker.groups.errors import GroupError
from broker.groups.group import Caller, Group, GroupKind, GroupRecord
from broker.groups.group_log import GroupLog, partition_of
from broker.groups.offsets import tombstone
from broker.groups.registry import Registry
from broker.groups.replay import Replayer
from broker.metadata.image import TopicInfo
from broker.metadata.topic_rules import GROUP_TOPIC
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

MINUTE_MS = 60_000
GROUPS_PER_TURN = 50  # of the loop, when offsets are looked at for their age
BATCHES_PER_TURN = 50  # of the loop, while loading: some 50 µs each


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
        self.registry = Registry()
        self._pool = pool
        self._loop = loop
        self._count = 0  # of partitions; 0: the topic is not there
        self._closed: dict[int, ErrorCode] = {}  # partitions that are being loaded, or cannot be
        self._offline: set[int] = set()  # those that could not be opened at the start
        self._creating = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._load_task: asyncio.Task[None] | None = None
        self._stopped = False
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
        self.registry.put(group)

    def alarm(self, ring: Callable[[int], int]) -> Alarm:
        """Return an alarm that is not set yet."""
        return Alarm(ring, self.clock.monotonic_ns, self._loop.call_later)

    def new_id(self) -> str:
        """Return a random UUID as text."""
        return str(uuid.uuid4())

    # -- Finding groups ---------------------------------------------------------------------------

    async def ensure_log(self) -> None:
        """Create `__consumer_offsets` if it is not there. Raises GroupError."""
        async with self._creating:
            if not self._count:
                await self.log.create()
                self._count = self.log.count()

    def group(self, group_id: str) -> Group | None:
        """Return a group, None if there is none. Raises GroupError if that cannot be known."""
        group = self.registry.groups.get(group_id)
        if group is None or self._closed:
            code = self._closed.get(self._partition_of(group_id))
            if code is not None:
                raise GroupError(code)
        return group

    def _partition_of(self, group_id: str) -> int:
        if not self._count or self._stopped:
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        return partition_of(group_id, self._count)

    def check_can_list(self) -> None:
        """Refuse to tell of all groups while some may not be known."""
        if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in self._closed.values():
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
        self.write(body.group_id, [*replaced, created.first_record()])
        if group is not None:
            self.registry.remove(body.group_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self.registry.put(created)
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
        self._count = self.log.count()
        for number in range(self._count):
            self._look_at(number)
        self._load_in_background()

    def _look_at(self, number: int) -> None:
        """Close a partition until it is loaded, if it must be."""
        try:
            log = self.log.partition(number).log
        except StorageError:  # offline, as was said: the topic changes when it is opened
            self._offline.add(number)
            self._closed[number] = ErrorCode.NOT_COORDINATOR
            return
        self._offline.discard(number)
        self._closed.pop(number, None)
        if log.end_offset > log.start_offset or log.failed is not None:
            self._closed[number] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    async def load(self) -> None:
        """Read all groups from their log, a partition after the other."""
        async with self._loading:
            await self._load_closed()

    async def _load_closed(self) -> None:
        started_ns = self.clock.monotonic_ns()
        found_count = 0
        for number in sorted(self._closed.keys() - self._offline):
            if self._closed.get(number) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                continue  # that was tried
            try:
                found_count += await self._load(number)
            except (StorageError, RecordError) as error:
                logger.error("groups of %s-%d are not loaded: %s", GROUP_TOPIC, number, error)
                self._closed[number] = ErrorCode.NOT_COORDINATOR
                for group in self._groups_of(number):
                    self.registry.remove(group.group_id, ErrorCode.NOT_COORDINATOR)
                    self.registry.offsets.forget(group.group_id)
            else:
                self._closed.pop(number, None)
                for group in self._groups_of(number):
                    group.loaded()
        if found_count:
            elapsed_ms = (self.clock.monotonic_ns() - started_ns) // 1_000_000
            logger.info(
                "%d groups from %d records in %d ms",
                len(self.registry.groups),
                found_count,
                elapsed_ms,
            )

    async def _load(self, number: int) -> int:
        log = self.log.partition(number).log
        if log.failed is not None:  # it may end before offsets that were acknowledged
            raise log.failed
        replayer = Replayer(self.registry, self)
        offset = log.start_offset
        while offset < log.end_offset:
            found = log.read(
                offset, self.config.offsets_load_buffer_size, end_offset=log.end_offset
            )
            if found is None:
                break
            chunk = await self._pool.run(found.read)
            for count, next_offset in enumerate(replayer.replay(chunk), 1):
                offset = next_offset
                if count % BATCHES_PER_TURN == 0:
                    await asyncio.sleep(0)
        return replayer.record_count

    def _groups_of(self, number: int) -> list[Group]:
        return [
            group
            for group in self.registry.groups.values()
            if partition_of(group.group_id, self._count) == number
        ]

    # -- By the clock, and by what happens to topics ----------------------------------------------

    async def expire_offsets(self) -> None:
        """Remove offsets past their retention, and groups that have nothing left."""
        now_ms = self.clock.now_ms()
        retention_ms = self.config.offsets_retention_minutes * MINUTE_MS
        for number, (group_id, group) in enumerate(list(self.registry.groups.items()), 1):
            if number % GROUPS_PER_TURN == 0:
                await asyncio.sleep(0)
            if self.registry.get(group_id) is not group:
                continue  # it has gone, or become another, while others had their turn
            expiry = group.expiry()
            if expiry is None or partition_of(group_id, self._count) in self._closed:
                continue
            offsets = self.registry.offsets
            records = offsets.expired(
                group_id, expiry, group.is_subscribed_to, now_ms, retention_ms
            )
            count = sum(map(len, offsets.topics(group_id).values()))
            is_over = len(records) == count and group.is_empty
            if not self.remove_offsets(group_id, records):
                continue
            if is_over:
                self._delete(group)

    def remove_offsets(self, group_id: str, tombstones: Sequence[GroupRecord]) -> bool:
        """Write what removes offsets, in as many batches as it takes; say whether all of it was."""
        try:
            for piece in self.log.pieces(self._partition_of(group_id), tombstones):
                if piece:
                    self.write(group_id, piece)
                    for key, _ in piece:
                        self.registry.offsets.replay(key, None)
        except (GroupError, StorageError) as error:
            logger.warning("offsets of group %s are not removed: %s", group_id, error)
            return False
        return True

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group without members, with its offsets; return when that is durable."""
        try:
            group = self.group(group_id)
            if group is None:
                return ErrorCode.GROUP_ID_NOT_FOUND
            group.check_delete()
        except GroupError as error:
            return error.code
        if not self.remove_offsets(group_id, self.registry.offsets.tombstones(group_id)):
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
        group = self.group(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        group.check_offset_delete()
        read = {name for name, _ in topics if group.is_subscribed_to(name)}
        tombstones = [
            tombstone(group_id, name, number)
            for name, numbers in topics
            for number in numbers
            if name not in read and self.registry.offsets.get(group_id, name, number) is not None
        ]
        if not self.remove_offsets(group_id, tombstones):
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
        self.registry.remove(group.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        return True

    def _topic_changed(self, name: str, topic: TopicInfo | None) -> None:
        if name == GROUP_TOPIC:
            if topic is None:
                self._unload()
            elif self._offline:
                self._look_again()
            return
        if topic is None:
            for group_id, tombstones in self.registry.offsets.of_topic(name):
                self.remove_offsets(group_id, tombstones)
        for group in list(self.registry.groups.values()):
            group.topics_changed(name)

    def _look_again(self) -> None:
        """Load the partitions that are open at last."""
        for number in sorted(self._offline):
            self._look_at(number)
        self._load_in_background()

    def _load_in_background(self) -> None:
        if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in self._closed.values():
            self._load_task = self._loop.create_task(self.load(), name="groups")

    def _unload(self) -> None:
        """Forget every group: the log of all of them is gone, or the broker stops."""
        self._count = 0
        self._closed.clear()
        self._offline.clear()
        for group_id in list(self.registry.groups):
            self.registry.remove(group_id, ErrorCode.NOT_COORDINATOR)
            self.registry.offsets.forget(group_id)

    def stop(self) -> None:
        """Answer everyone who waits: the broker stops. The log says how groups go on afterwards."""
        self._stopped = True
        if self._load_task is not None:
            self._load_task.cancel()
        self._unload()


def check_id(group_id: str) -> None:
    """Refuse the empty id, which the oldest offset requests alone may use."""
    if not group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
