"""The longest turn of the loop that a large request of transactions makes.

`python -m benchmarks.bench_turns [BEGINNING OF A NAME …]`. While a turn runs, every other client
waits; 20 ms are the most that a turn may take (docs/design.md). A broker without sockets on a
directory of its own; a request is read, handled and answered as an IO worker does it. Shown are the
longest turn and the sum of all, in ms of the loop's CPU time, in the best of three rounds: the
first one also compiles codecs, and waiting does not count.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from asyncio import events
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks import frames, interpreter
from benchmarks import transaction_frames as raw
from benchmarks.transaction_frames import TV2
from broker.handlers import HANDLERS
from broker.runtime.request import ConnectionInfo, Request
from broker.transactions import timeouts
from broker.transactions.transaction import Transaction
from broker.transactions.transaction_errors import TransactionError
from broker.transactions.transaction_states import TransactionState
from protocol.control_records import Marker
from protocol.kafka.codec import encoder
from protocol.kafka.dialect import KafkaDialect
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.transaction_records import TransactionPartitions, TransactionValue
from protocol.wire import message_spec
from storage.log import Log
from tests.support.broker_rig import Rig
from tests.support.fake_connection import LISTENER

IDS, PARTITIONS, ABORTS = 100_000, 100_000, 70_000
OFFSETS = 3_000  # partitions of the topic `many`
LATE = 5_000  # open transactions
ROUNDS = 3
ANSWER_SECONDS_MAX = 300
MEMORY = Path("/dev/shm")  # a disk would only take time


class Turns:
    """The CPU time of each turn of the loop's callbacks."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.total = 0.0
        self._is_over = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count what runs meanwhile."""
        run = events.Handle._run  # noqa: SLF001 - there is no other way to see each turn

        def timed(handle: events.Handle) -> None:
            begun = time.thread_time()
            run(handle)
            taken = time.thread_time() - begun
            if not self._is_over:
                self.longest = max(self.longest, taken)
                self.total += taken

        events.Handle._run = timed  # type: ignore[method-assign] # noqa: SLF001
        try:
            yield
        finally:
            self._is_over = True
            events.Handle._run = run  # type: ignore[method-assign] # noqa: SLF001


class Kept:
    """A connection that keeps the last answer."""

    def __init__(self, dialect: KafkaDialect) -> None:
        self.info = ConnectionInfo(LISTENER, dialect, ("127.0.0.1", 9092), ("127.0.0.1", 50000))
        self.answered: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()

    def respond(self, _request: Request, buffers: Sequence[Any]) -> None:
        """Keep it."""
        self.answered.set_result(buffers)

    def abort(self, reason: str) -> None:
        """Fail."""
        raise AssertionError(reason)

    def refuse(self, error: Exception) -> None:
        """Fail."""
        raise AssertionError(error)


class Broker:
    """A rig whose requests and answers are bytes."""

    def __init__(self, directory: Path) -> None:
        self.rig = Rig.__new__(Rig)  # replaced by `open`
        self._directory = directory
        self._dialect = KafkaDialect({int(row.api_key): row for row in HANDLERS})

    async def open(self) -> None:
        """Start it, and wait until its groups are loaded."""
        self.rig = Rig(self._directory, is_timed=True, group_initial_rebalance_delay_ms="0")
        await self.rig.loading

    async def restarted(self) -> None:
        """Stop it, and start it again; return when its transactions are loaded."""
        await self.rig.close()
        await self.open()
        while True:
            with suppress(TransactionError):
                self.rig.services.transactions.check_all_loaded()
                return
            await asyncio.sleep(0.01)

    async def create(self, topic: str, count: int) -> None:
        """Create a topic."""
        asked = CreatableTopic(name=topic, num_partitions=count, replication_factor=1)
        asks = CreateTopicsRequest(topics=[asked], timeout_ms=ANSWER_SECONDS_MAX * 1000)
        answer = await self.rig.call(asks, 7, timeout_seconds=ANSWER_SECONDS_MAX)
        assert not answer.topics[0].error_code, answer

    def producer_of(self, transactional_id: str) -> tuple[int, int]:
        """Return the producer id and epoch that an id has."""
        found = self.rig.services.transactions.store.by_id[transactional_id]
        return found.producer_id, found.epoch

    async def end(self, transactional_id: str, producer_id: int, epoch: int) -> bytes:
        """Commit."""
        asked = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=True,
        )
        answer = await self.send(asked, 5)
        assert not raw.ended(answer)[0], answer[:64].hex()
        return answer

    async def durable(self, log: Log) -> None:
        """Wait until all of a log is on the disk."""
        partition = self.rig.services.partitions.get(log.topic, log.partition)
        await self.rig.services.commit.durable(partition, log.end_offset, 60_000)

    async def send(self, body: Any, version: int) -> bytes:
        """Read, handle and answer one request."""
        spec = message_spec(type(body))
        parts: list[Any] = [bytearray()]
        encoder(type(body), version)(body, parts)
        frame = frames.framed(
            spec.api_key, version, b"".join(parts), flexible=spec.is_flexible(version)
        )
        connection = Kept(self._dialect)
        view = memoryview(bytearray(frame))[4:]

        def arrive() -> None:
            decoded = self._dialect.decode_request(view)
            asked = Request(connection, decoded.header, decoded.body, len(frame))
            self.rig.dispatcher.dispatch(asked)

        asyncio.get_running_loop().call_soon(arrive)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return b"".join(map(bytes, await connection.answered))

    async def begin(self, transactional_id: str) -> tuple[int, int]:
        """Give out a producer id and epoch."""
        asked = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        while True:
            answer = await self.send(asked, 4)
            code, producer_id, epoch = raw.inited(answer)
            if not code:
                return producer_id, epoch
            await asyncio.sleep(0.01)

    def put_ids(self, count: int, state: TransactionState, updated_ms: int) -> None:
        """Make so many ids, with their records."""
        store = self.rig.services.transactions.store
        by_number: dict[int, list[Transaction]] = {}
        for number in range(count):
            made = Transaction(f"id-{number}", 1_000_000 + number, 60_000)
            made.epoch, made.state, made.updated_ms = 0, state, updated_ms
            made.started_ms = updated_ms
            if state is TransactionState.ONGOING:
                made.partitions = {"one": {0: None}}
            store.put(made)
            by_number.setdefault(store.log.number_of(made.transactional_id), []).append(made)
        for number, some in by_number.items():
            for start in range(0, len(some), 200):
                pairs = [(one.transactional_id, _value(one)) for one in some[start : start + 200]]
                store.log.append_all(number, pairs)


def _value(one: Transaction) -> TransactionValue:
    return TransactionValue(
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        transaction_timeout_ms=one.timeout_ms,
        transaction_status=one.state,
        transaction_partitions=[
            TransactionPartitions(topic=topic, partition_ids=list(numbers))
            for topic, numbers in one.partitions.items()
        ],
        transaction_last_update_timestamp_ms=one.updated_ms,
        transaction_start_timestamp_ms=one.started_ms,
    )


Prepared = Callable[[], Awaitable[object]]
Case = Callable[[Broker], Awaitable[Prepared]]


async def txn_offset_commit(broker: Broker) -> Prepared:
    """Offsets of many partitions, in a transaction."""
    await broker.create("many", OFFSETS)
    producer_id, epoch = await broker.begin("offsets")
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=7)
        for number in range(OFFSETS)
    ]
    asked = TxnOffsetCommitRequest(
        transactional_id="offsets",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="many", partitions=partitions)],
    )
    return lambda: broker.send(asked, 5)


async def end_of_offsets(broker: Broker) -> Prepared:
    """The commit of the same."""
    await (await txn_offset_commit(broker))()
    producer_id, epoch = broker.producer_of("offsets")
    return lambda: broker.end("offsets", producer_id, epoch)


async def offset_commit(broker: Broker) -> Prepared:
    """Offsets of many partitions, without a transaction."""
    await broker.create("many", OFFSETS)
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=7)
        for number in range(OFFSETS)
    ]
    asked = OffsetCommitRequest(
        group_id="plain",
        topics=[OffsetCommitRequestTopic(name="many", partitions=partitions)],
    )
    return lambda: broker.send(asked, 8)


async def fetch_of_aborted(broker: Broker) -> Prepared:
    """A fetch that names many aborted transactions: small ones beside an open one."""
    log = broker.rig.services.partitions.get("one", 0).log
    now_ms = broker.rig.services.clock.now_ms()
    for number in range(ABORTS):
        batch = bytearray(frames.record_batch([b"x"], now_ms))
        raw.stamp(batch, 0, 50_000 + number, 0, 0)
        log.append(memoryview(batch), now_ms, TV2)
    end = log.end_offset
    for number in range(ABORTS):
        log.append_marker(Marker(50_000 + number, 0, is_commit=False, coordinator_epoch=0), now_ms)
    await broker.durable(log)
    for offset in range(end, log.end_offset):
        log.settle(offset)
    asked = FetchRequest(
        isolation_level=1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[
            FetchTopic(
                topic="one",
                partitions=[
                    FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10 << 20)
                ],
            )
        ],
    )
    return lambda: broker.send(asked, 12)


def _add(producer: tuple[int, int], topic: str, count: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="wide",
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(range(count)))],
    )


async def add_unknown(broker: Broker) -> Prepared:
    """AddPartitionsToTxn of many partitions that do not exist."""
    asked = _add(await broker.begin("wide"), "none", PARTITIONS)
    return lambda: broker.send(asked, 3)


async def add_known(broker: Broker) -> Prepared:
    """AddPartitionsToTxn of those that exist."""
    await broker.create("many", OFFSETS)
    asked = _add(await broker.begin("wide"), "many", OFFSETS)
    return lambda: broker.send(asked, 3)


async def end_of_known(broker: Broker) -> Prepared:
    """EndTxn of those."""
    await (await add_known(broker))()
    producer_id, epoch = broker.producer_of("wide")
    return lambda: broker.end("wide", producer_id, epoch)


async def add_wide(broker: Broker) -> Prepared:
    """The record of a transaction over many partitions, as if they existed."""
    producer_id, epoch = await broker.begin("wide")
    wanted = {"gone": range(PARTITIONS)}
    coordinator = broker.rig.services.transactions
    return lambda: coordinator.add("wide", producer_id, epoch, wanted)


async def end_of_wide(broker: Broker) -> Prepared:
    """EndTxn of it: its topic was deleted."""
    await (await add_wide(broker))()
    producer_id, epoch = broker.producer_of("wide")
    return lambda: broker.end("wide", producer_id, epoch)


async def describe_wide(broker: Broker) -> Prepared:
    """DescribeTransactions of it."""
    await (await add_wide(broker))()
    return lambda: broker.send(DescribeTransactionsRequest(transactional_ids=["wide"]), 0)


async def describe_many(broker: Broker) -> Prepared:
    """DescribeTransactions of many ids."""
    broker.put_ids(IDS, TransactionState.EMPTY, broker.rig.services.clock.now_ms())
    names = [f"id-{number}" for number in range(IDS)]
    return lambda: broker.send(DescribeTransactionsRequest(transactional_ids=names), 0)


async def list_many(broker: Broker) -> Prepared:
    """ListTransactions of many ids."""
    broker.put_ids(IDS, TransactionState.EMPTY, broker.rig.services.clock.now_ms())
    return lambda: broker.send(ListTransactionsRequest(duration_filter=-1), 2)


async def load_many(broker: Broker) -> Prepared:
    """Loading many ids after a start."""
    broker.put_ids(IDS, TransactionState.EMPTY, broker.rig.services.clock.now_ms())
    return broker.restarted


async def expire_many(broker: Broker) -> Prepared:
    """Many ids that expire at once."""
    broker.put_ids(IDS, TransactionState.EMPTY, 0)
    services = broker.rig.services
    return lambda: timeouts.expire_ids(services.transactions, services.metrics)


async def abort_many(broker: Broker) -> Prepared:
    """Many open transactions that time out at once."""
    broker.put_ids(LATE, TransactionState.ONGOING, 0)
    services = broker.rig.services
    return lambda: timeouts.abort_late(services.transactions, services.metrics)


async def describe_producers(broker: Broker) -> Prepared:
    """DescribeProducers of a partition with many."""
    log = broker.rig.services.partitions.get("one", 0).log
    now_ms = broker.rig.services.clock.now_ms()
    for number in range(IDS):
        batch = bytearray(frames.record_batch([b"x"], now_ms))
        raw.stamp(batch, 0, 50_000 + number, 0, 0)
        log.append(memoryview(batch), now_ms, TV2)
    asked = DescribeProducersRequest(topics=[TopicRequest(name="one", partition_indexes=[0])])
    return lambda: broker.send(asked, 0)


CASES: dict[str, Case] = {
    f"TxnOffsetCommit of {OFFSETS:,} partitions": txn_offset_commit,
    "EndTxn of these": end_of_offsets,
    f"OffsetCommit of {OFFSETS:,} partitions": offset_commit,
    f"Fetch that names {ABORTS:,} aborted transactions": fetch_of_aborted,
    f"AddPartitionsToTxn of {PARTITIONS:,} unknown partitions": add_unknown,
    f"AddPartitionsToTxn of {OFFSETS:,} partitions": add_known,
    f"EndTxn of {OFFSETS:,} partitions": end_of_known,
    f"the record of {PARTITIONS:,} partitions": add_wide,
    f"EndTxn of {PARTITIONS:,} deleted partitions": end_of_wide,
    f"DescribeTransactions of {PARTITIONS:,} partitions": describe_wide,
    f"DescribeTransactions of {IDS:,} ids": describe_many,
    f"ListTransactions of {IDS:,} ids": list_many,
    f"the load of {IDS:,} ids": load_many,
    f"the expiry of {IDS:,} ids": expire_many,
    f"the timeout of {LATE:,} transactions": abort_many,
    f"DescribeProducers of {IDS:,} producers": describe_producers,
}


async def measure(directory: Path, case: Case) -> Turns:
    """Run one case on a broker of its own."""
    broker = Broker(directory)
    await broker.open()
    await broker.create("one", 1)
    await broker.rig.call(FindCoordinatorRequest(key="g", key_type=0), 1)
    await broker.rig.call(FindCoordinatorRequest(key="t", key_type=1), 1)
    run = await case(broker)
    gc.collect()
    gc.freeze()
    turns = Turns()
    with turns.watched():
        await run()
        await asyncio.sleep(0)
    gc.unfreeze()
    del run
    await broker.rig.close()
    return turns


def main(arguments: Sequence[str]) -> int:
    """Run the cases whose names begin with one of the arguments."""
    interpreter.announce()
    sys.stdout.write("| work | longest turn, ms | all turns, ms |\n|---|---:|---:|\n")
    for name, case in CASES.items():
        if arguments and not any(name.startswith(part) for part in arguments):
            continue
        found = []
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.exists() else None) as directory:
                found.append(asyncio.run(measure(Path(directory), case)))
        longest, total = min(one.longest for one in found), min(one.total for one in found)
        row = f"| {name} | {longest * 1e3:.1f} | {total * 1e3:.0f} |"
        sys.stdout.write(f"{row}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
