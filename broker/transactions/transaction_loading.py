"""Loads the partitions of `__transaction_state` after a start, in the background.

No transaction is served before all partitions that can be read were read: the record of an id may
be in any (`broker.transactions.state_replay`), and each is held against the logs before clients
change them (`broker.transactions.adoption`). Then requests for the ids of a partition are refused
with:

    COORDINATOR_LOAD_IN_PROGRESS   it is being loaded
    NOT_COORDINATOR                it is damaged, or the disk did not give it; if that may pass, it
                                   is tried again every second

Until all are read, the logs keep the markers that their opening has found, also for those that are
damaged: a repair or a backup may bring the ids back.

The pool reads, decompresses and decodes, one buffer of `transaction.state.log.load.buffer.size` at
a time. The loop takes the records, in turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from broker.groups.shard import ShardState
from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.partitions.warm_reads import warm
from broker.runtime import owners
from broker.runtime.blocking_pool import BlockingPool
from broker.runtime.clock import MS_NS, Clock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import Owner
from broker.runtime.turns import InTurns
from broker.transactions.adoption import Adoption
from broker.transactions.late_logs import LateLogs
from broker.transactions.state_log import StateLog
from broker.transactions.state_replay import Newest, ReadStates, read_states
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import TransactionError
from protocol.errors import ErrorCode
from protocol.record_errors import RecordError
from protocol.transaction_records import TransactionValue
from storage.errors import DamagedLog, LogFailed, StorageError
from storage.log import Log
from storage.segments.log_file import LogSlice

logger = logging.getLogger("barnabas.transactions")

LOGS_PER_TURN: Final = 500  # of the loop

_REFUSALS: Final = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.REFUSED: ErrorCode.NOT_COORDINATOR,
    ShardState.OFFLINE: ErrorCode.NOT_COORDINATOR,
}


class TransactionLoading:
    """Whether the ids of each partition are served, and the load that lets them be."""

    def __init__(
        self,
        log: StateLog,
        adoption: Adoption,
        late: LateLogs,
        pool: BlockingPool,
        clock: Clock,
        buffer_bytes: int,
        held: Sequence[Log],
        metrics: Metrics,
    ) -> None:
        """`held` are the logs that keep the markers which their opening has found."""
        self._log = log
        self._adoption = adoption
        self._late = late
        self._pool = pool
        self._clock = clock
        self._buffer_bytes = buffer_bytes
        self._held = held
        self._metrics = metrics
        self._is_left_named = False
        self._is_kept_named = False
        self._states: list[ShardState] = []  # by number; empty: the topic did not exist
        self._unread: set[int] = set()  # said to be
        self._loading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def check(self, number: int) -> None:
        """Raise TransactionError if the ids of a partition are not served."""
        if number < len(self._states) and (code := _REFUSALS.get(self._states[number])):
            raise TransactionError(code)

    def check_all(self) -> None:
        """Raise TransactionError while a list of all ids would be incomplete for a moment."""
        if self._is_loading:
            raise TransactionError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def check_all_read(self) -> None:
        """Raise TransactionError if there may be ids that could not be read."""
        if any(state is not ShardState.SERVING for state in self._states):
            raise TransactionError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"a part of {TRANSACTION_TOPIC} is offline or damaged: see the broker's log",
            )

    @property
    def _is_loading(self) -> bool:
        return ShardState.LOADING in self._states

    def start(self) -> None:
        """Start loading every partition of the topic as it is now."""
        self._states = [ShardState.LOADING] * self._log.count()
        self._load_in_background()

    def look_again(self) -> None:
        """Load the partitions that the disk did not give, if it may by now."""
        for number, state in enumerate(self._states):
            if state is ShardState.OFFLINE:
                self._states[number] = ShardState.LOADING
        self._load_in_background()

    def _load_in_background(self) -> None:
        is_running = self._task is not None and not self._task.done()
        is_due = self._is_loading or self._held or self._late.is_waiting
        if not is_running and is_due:
            name = "loading transactions"
            self._task = owners.spawn(Owner.TRANSACTION_LOADING, self.load(), name)

    async def looked_at(self) -> None:
        """Wait for the load if logs keep what a crash has left: else no stop is a clean one."""
        if self._task is not None and any(log.keeps_replayed for log in self._held):
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """End the load: the broker stops. The next start begins it anew."""
        task, self._task = self._task, None  # its end would hold the file that it was reading
        if task is not None:
            task.cancel()

    def give_up(self, transaction: Transaction) -> None:
        """Let a transaction go that waits for a log: an operator aborts it."""
        self._late.give_up(transaction)

    async def load(self) -> None:
        """Load what is not loaded, and let the logs go on from what their opening has found."""
        async with self._loading:
            started_ns = self._clock.monotonic_ns()
            numbers = [
                number for number, state in enumerate(self._states) if state is ShardState.LOADING
            ]
            newest = Newest()
            outcomes = {number: await self._read_or_refuse(number, newest) for number in numbers}
            values: dict[str, TransactionValue] = {}
            for _ in newest.give(values):
                await asyncio.sleep(0)
            names = list(values)
            await self._adoption.adopt(values)
            await self._late.hold(names)
            for number in numbers:
                self._states[number] = outcomes[number]
            if newest.record_count:
                logger.info(
                    "loaded %(transactional_ids)d transactional ids from %(records)d records in"
                    " %(milliseconds)d ms",
                    {
                        "transactional_ids": len(names),
                        "records": newest.record_count,
                        "milliseconds": (self._clock.monotonic_ns() - started_ns) // MS_NS,
                    },
                )
            await self._late.judge()
            if ShardState.OFFLINE not in self._states and not self._is_left_named:
                self._is_left_named = True
                are_all_read = ShardState.REFUSED not in self._states
                self._adoption.name_what_is_left(are_all_read=are_all_read)
            if all(state is ShardState.SERVING for state in self._states):
                self._late.let_logs_go()
                if self._adoption.is_safe:
                    await self._let_go()
            self._note_kept()

    def _note_kept(self) -> None:
        """Count the logs that keep what a crash has left, and say so once."""
        count = sum(log.keeps_replayed for log in self._held)
        self._metrics.logs_kept_for_transactions_now = count
        are_all_read = all(state is ShardState.SERVING for state in self._states)
        is_lasting = self._adoption.has_unwritten or not are_all_read
        if count and is_lasting and not self._is_kept_named:
            self._is_kept_named = True
            logger.warning(
                "%(logs)d logs keep the markers that a crash has left, for ids in %(topic)s that"
                " could not be read or written. Until it is mended and the broker starts again,"
                " retention and compaction of these logs go no further, and a start recovers them"
                " from there",
                {"logs": count, "topic": TRANSACTION_TOPIC},
            )

    async def _let_go(self) -> None:
        """Let go of the evidence: nothing depends on it."""
        held, self._held = self._held, ()
        async for log in InTurns(held, LOGS_PER_TURN):
            log.settle_replayed()

    async def _read_or_refuse(self, number: int, newest: Newest) -> ShardState:
        """Read one partition; return the state that it gets."""
        try:
            await self._read(number, newest)
        except Exception as error:
            newest.drop_partition()
            may_pass = _may_pass(error)
            if not may_pass or number not in self._unread:
                expected = isinstance(error, StorageError | RecordError | OSError)
                logger.error(
                    "transactions of %(topic)s-%(partition)d are not loaded: %(error)s%(note)s",
                    {
                        "topic": TRANSACTION_TOPIC,
                        "partition": number,
                        "error": error,
                        "note": ". Check the disk: the broker tries again every second."
                        if may_pass
                        else "",
                    },
                    exc_info=None if expected else error,
                )
            self._unread.add(number)
            return ShardState.OFFLINE if may_pass else ShardState.REFUSED
        self._unread.discard(number)
        return ShardState.SERVING

    async def _read(self, number: int, newest: Newest) -> None:
        """Read one partition to its end. Raises StorageError or RecordError."""
        log = self._log.partition(number).log
        if log.failed is not None:  # it may lack records that were answered
            raise log.failed
        await warm(self._pool, log.load_end)
        offset = log.start_offset
        while offset < log.end_offset:
            look_up = partial(log.read, offset, self._buffer_bytes, end_offset=log.end_offset)
            found = await warm(self._pool, look_up)
            if found is None:
                break
            read = await self._pool.run(partial(_read, found))
            assert read, f"no batch at offset {offset} of {log.directory}"
            for _ in newest.take(read):
                await asyncio.sleep(0)
            offset = read[-1].next_offset
        for _ in newest.end_partition():
            await asyncio.sleep(0)


def _read(found: LogSlice) -> Sequence[ReadStates]:
    return read_states(found.read())


def _may_pass(error: Exception) -> bool:
    """Whether `error` says nothing of what is in the log: the disk did not give it."""
    return isinstance(error, LogFailed | OSError) and not isinstance(error, DamagedLog)
