"""The group coordinator of this broker: from a request to its group, and from the group to its log.

It is the coordinator of every group, since there is no other broker. What a request can meet:

    COORDINATOR_LOAD_IN_PROGRESS   the log of its group is being read after a start
    NOT_COORDINATOR                there is no `__consumer_offsets` yet, or the log of its group
                                   has failed: clients ask FindCoordinator and come again

What this module owns is which shard has a group (broker/groups/shard.py) and when the shards are
loaded, and it is the host of the groups, whose rules are their own (broker/groups/group.py says how
both sides talk). What is asked of it is in broker/groups/member_requests.py, commits.py and
removal.py.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from broker.groups.alarm import Alarm
from broker.groups.errors import GroupError
from broker.groups.forgetting import DeletedTopics
from broker.groups.group import Group, GroupRecord
from broker.groups.group_log import GroupLog, partition_of
from broker.groups.loading import load_shards, look_at
from broker.groups.registry import Registry
from broker.groups.shard import Shard, ShardState
from broker.metadata.image import TopicInfo
from broker.metadata.topic_rules import GROUP_TOPIC
from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import Clock
from broker.runtime.owners import Owner
from broker.topics import Topics
from config.broker import BrokerConfig
from protocol.errors import ErrorCode
from storage.errors import StorageError

logger = logging.getLogger("barnabas.groups")

_T = TypeVar("_T")


class Coordinator:
    """All groups of this broker. Implements broker.groups.group.Host for them."""

    def __init__(
        self,
        log: GroupLog,
        topics: Topics,
        pool: BlockingPool,
        config: BrokerConfig,
        clock: Clock,
        own_configs: Callable[[str], Mapping[str, str]],
    ) -> None:
        self.log = log
        self.own_configs = own_configs
        self.topics = topics
        self.config = config
        self.clock = clock
        self._pool = pool
        self._shards: list[Shard] = []  # by number; none: the topic is not there
        self._creating = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._load_task: asyncio.Task[None] | None = None
        self._stopped = False
        self._deleted_topics = DeletedTopics(self.remove_offsets)
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

    def remove_offsets(
        self, registry: Registry, group_id: str, tombstones: Sequence[GroupRecord]
    ) -> bool:
        """Write what removes offsets, in as many batches as it takes; say whether all of it was."""
        try:
            for piece in self.log.pieces(self._partition_of(group_id), tombstones):
                if piece:
                    self.write(group_id, piece)
                    for key, _ in piece:
                        registry.offsets.apply(key, None)
        except (GroupError, StorageError) as error:
            logger.warning("offsets of group %s are not removed: %s", group_id, error)
            return False
        return True

    # -- Loading, and what happens to topics -------------------------------------------------------

    def start(self) -> None:
        """Begin to load what there is; requests for it are answered that it is under way."""
        self._make_shards()
        for shard in self._shards:
            self._look_at(shard)
        self._load_in_background()

    def _look_at(self, shard: Shard) -> None:
        look_at(shard, self.log)

    def _make_shards(self) -> None:
        self._shards = [Shard(number) for number in range(self.log.count())]

    async def load(self) -> None:
        """Read all groups from their log, a partition after the other."""
        async with self._loading:
            loaded = self._deleted_topics.loaded
            await load_shards(self._shards, self.log, self, self._pool, loaded)

    def _load_in_background(self) -> None:
        if any(shard.state is ShardState.LOADING for shard in self._shards):
            self._load_task = owners.spawn(Owner.GROUP_LOADING, self.load(), "loading groups")

    def _topic_changed(self, name: str, topic: TopicInfo | None) -> None:
        if name == GROUP_TOPIC:
            if topic is None:
                self._unload()
            else:
                self._look_again()
            return
        if topic is None:
            for shard in self._shards:
                self._deleted_topics.forget(shard, name)
        for group in list(self.groups()):
            group.topics_changed(name)

    def _look_again(self) -> None:
        """Load the partitions that are open at last."""
        for shard in self._shards:
            if shard.state is ShardState.OFFLINE:
                self._look_at(shard)
        self._load_in_background()

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
