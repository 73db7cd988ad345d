"""The group coordinator: finds the group of a request, and writes to the group's log.

This broker coordinates every group, since it is the only one. It refuses a request with:

    COORDINATOR_LOAD_IN_PROGRESS   the log of the group is being loaded after a start, or a large
                                   group is being deleted
    NOT_COORDINATOR                `__consumer_offsets` does not exist yet, or the log of the group
                                   has failed or is offline: clients ask FindCoordinator and retry
    COORDINATOR_NOT_AVAILABLE      the answer of FindCoordinator while the log of the group is
                                   offline: no offset is told that may have gone back

This module decides which shard holds a group (broker/groups/shard.py) and when shards are loaded.
It is the `Host` of the groups; their rules are their own (broker/groups/group.py). Requests enter
through broker/groups/member_requests.py, commits.py and removal.py.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from broker.groups.alarm import Alarm
from broker.groups.apply import apply_offset, end_transaction
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
from broker.runtime.lines import Lines
from broker.runtime.owners import Owner
from broker.topics import Topics
from config.broker import BrokerConfig
from protocol.control_records import Marker
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
        random_bytes: Callable[[int], bytes],
        own_configs: Callable[[str], Mapping[str, str]],
    ) -> None:
        self.log = log
        self.own_configs = own_configs
        self.topics = topics
        self.config = config
        self.clock = clock
        self._pool = pool
        self._random_bytes = random_bytes
        self._shards: list[Shard] = []  # by number; empty: the topic does not exist
        self._creating = asyncio.Lock()
        self._loading = asyncio.Lock()
        self._load_task: asyncio.Task[None] | None = None
        self._stopped = False
        self._deleted_topics = DeletedTopics(self.remove_offsets, topics.id_of_name)
        self.large_commits = Lines()  # of a transaction's offsets, by transactional id
        self.large_offset_commits = Lines()  # plain ones, by group
        topics.listen(self._topic_changed)

    # -- Being a host (broker.groups.group.Host) --------------------------------------------------

    def write(
        self,
        group_id: str,
        records: Sequence[GroupRecord],
        done: Callable[[ErrorCode], None] | None = None,
    ) -> int:
        """Append `records` to the log of the group, in one batch; see Host."""
        return self.write_batch(group_id, self.log.batch_of(records), len(records), done)

    def write_batch(
        self,
        group_id: str,
        batch: bytearray,
        count: int,
        done: Callable[[ErrorCode], None] | None = None,
    ) -> int:
        """As `write`, of `count` records that are a batch already."""
        number = self.partition_of(group_id)
        end_offset = self.log.append_batch(number, batch)
        if done is not None:
            self.log.when_durable(number, end_offset, done)
        return end_offset - count

    def when_durable(self, group_id: str, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` when everything that the group has written so far is durable; see Host."""
        self.log.when_durable(self.partition_of(group_id), None, done)

    def put(self, group: Group) -> None:
        """Make `group` the group of its id."""
        self._shard_of(group.group_id).registry.put(group)

    def alarm(self, ring: Callable[[int], int]) -> Alarm:
        """Return an alarm that is not set."""
        return Alarm(ring, self.clock.monotonic_ns, partial(owners.later, Owner.GROUP_ALARM))

    def compute(self, call: Callable[[], _T], done: Callable[[_T | None], None]) -> None:
        """Run `call` in a thread, then call `done` with its result; see Host."""
        returned: list[_T] = []

        def came_back(error: BaseException | None) -> None:
            done(None if error else returned[0])
            if error is not None:
                raise error

        self._pool.submit(Owner.GROUP_TARGETS, lambda: returned.append(call()), came_back)

    def new_id(self) -> str:
        """Return a random UUID as text."""
        return str(uuid.UUID(bytes=self._random_bytes(16), version=4))

    # -- Transactions -----------------------------------------------------------------------------

    def append_pending(
        self, group_id: str, producer_id: int, records: Sequence[GroupRecord], batch: bytearray
    ) -> tuple[int, int]:
        """Append offsets of a transaction: `records`, as a batch. They are pending until it ends.

        Returns the number of the partition and the end offset to wait for. Raises GroupError if
        nothing was appended.
        """
        registry = self.registry_of(group_id)
        number = self.partition_of(group_id)
        self._deleted_topics.finish_places(
            registry, group_id, [(key.topic, key.partition) for key, _ in records]
        )
        end_offset = self.log.append_batch(number, batch)
        for record_offset, (key, value) in enumerate(records, end_offset - len(records)):
            apply_offset(registry, self, key, value, record_offset, producer_id)
        return number, end_offset

    def transaction_ended(self, number: int, marker: Marker, offset: int) -> None:
        """Commit or drop a producer's pending offsets: its marker is in partition `number`.

        Only those before the marker: a hand-made one may become durable when the producer's next
        transaction has begun. A shard that is loading reads the marker itself, if its log has not
        been read to the end.
        """
        if number < len(self._shards):
            end_transaction(
                self._shards[number].registry,
                marker.producer_id,
                is_commit=marker.is_commit,
                marker_offset=offset,
            )

    # -- Finding groups ---------------------------------------------------------------------------

    async def ensure_log(self) -> None:
        """Create `__consumer_offsets` if it does not exist. Raises GroupError."""
        async with self._creating:
            if not self._shards:
                await self.log.create()
                self._make_shards()

    def group(self, group_id: str) -> Group | None:
        """Return a group; None if it does not exist. Raises GroupError like `registry_of`."""
        return self.registry_of(group_id).get(group_id)

    def registry_of(self, group_id: str) -> Registry:
        """Return the registry of a group's shard. Raises GroupError if the group is not served."""
        shard = self._shard_of(group_id)
        shard.check()
        if group_id in shard.registry.being_deleted:  # clients try again
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard.registry

    def is_available(self, group_id: str) -> bool:
        """Whether this broker can coordinate a group: its log is not offline."""
        shards = self._shards
        if not shards:
            return True
        return shards[partition_of(group_id, len(shards))].state is not ShardState.OFFLINE

    def registries(self) -> Iterator[Registry]:
        """Yield the groups and offsets of every served shard."""
        yield from (shard.registry for shard in self._shards if shard.is_served)

    def groups(self) -> Iterator[Group]:
        """Yield every group of every served shard."""
        for registry in self.registries():
            yield from registry.groups.values()

    def _shard_of(self, group_id: str) -> Shard:
        return self._shards[self.partition_of(group_id)]

    def partition_of(self, group_id: str) -> int:
        """Return the number of a group's partition. Raises GroupError without the topic."""
        if not self._shards or self._stopped:
            raise GroupError(ErrorCode.NOT_COORDINATOR)
        return partition_of(group_id, len(self._shards))

    def check_can_list(self) -> None:
        """Raise GroupError while a shard is loading: the list of groups would be incomplete."""
        if self._is_loading:
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def remove_offsets(
        self, registry: Registry, group_id: str, tombstones: Sequence[GroupRecord]
    ) -> bool:
        """Write tombstones of offsets, in as many batches as needed; return whether all were."""
        try:
            for piece in self.log.pieces(self.partition_of(group_id), tombstones):
                if piece:
                    first_offset = self.write(group_id, piece)
                    for record_offset, (key, _) in enumerate(piece, first_offset):
                        registry.offsets.apply(key, None, record_offset)
        except (GroupError, StorageError) as error:
            logger.warning(
                "group %(group)s: offsets not removed: %(error)s",
                {"group": group_id, "error": error},
            )
            return False
        return True

    # -- Loading, and what happens to topics -------------------------------------------------------

    def start(self) -> None:
        """Start loading the shards; until they are loaded, their requests are refused."""
        self._make_shards()
        for shard in self._shards:
            self._look_at(shard)
        self._load_in_background()

    def _look_at(self, shard: Shard) -> None:
        look_at(shard, self.log)

    def _make_shards(self) -> None:
        self._shards = [Shard(number) for number in range(self.log.count())]

    async def load(self) -> None:
        """Load all groups from their log, one partition after another."""
        async with self._loading:
            loaded = self._deleted_topics.loaded
            while self._is_loading:  # a shard may have come online behind the one that is read
                await load_shards(self._shards, self.log, self, self._pool, loaded)

    @property
    def _is_loading(self) -> bool:
        return any(shard.state is ShardState.LOADING for shard in self._shards)

    def _load_in_background(self) -> None:
        is_running = self._load_task is not None and not self._load_task.done()
        if self._is_loading and not is_running:
            self._load_task = owners.spawn(Owner.GROUP_LOADING, self.load(), "loading groups")

    def _topic_changed(self, name: str, topic: TopicInfo | None) -> None:
        if name == GROUP_TOPIC:
            if topic is None:
                self._unload()
            else:
                self.look_again()
            return
        if topic is None:
            for shard in self._shards:
                self._deleted_topics.forget(shard, name)
        for group in list(self.groups()):
            group.topics_changed(name)

    def look_again(self) -> None:
        """Load the partitions that were offline and are open now, or could not be read."""
        for shard in self._shards:
            if shard.state is ShardState.OFFLINE:
                self._look_at(shard)
        self._load_in_background()

    def _unload(self) -> None:
        """Drop every group: the topic was deleted, or the broker stops."""
        shards, self._shards = self._shards, []
        for shard in shards:
            shard.drop()

    def stop(self) -> None:
        """Answer all waiting requests: the broker stops. The next start loads the groups again."""
        self._deleted_topics.finish()
        self._stopped = True
        if self._load_task is not None:
            self._load_task.cancel()
        self._unload()


def check_id(group_id: str) -> None:
    """Raise GroupError for the empty id, which only the oldest offset requests may use."""
    if not group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
