"""The longest turn of the loop that a large request of transactions, groups or quotas makes.

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
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from benchmarks import frames, interpreter
from benchmarks import transaction_frames as raw
from benchmarks.transaction_frames import TV2
from benchmarks.turns import Broker, Turns
from broker.groups.apply import apply_offset
from broker.transactions import timeouts
from broker.transactions.transaction_states import TransactionState
from protocol.control_records import Marker
from protocol.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlteration,
    QuotaOperation,
)
from protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

IDS, PARTITIONS, ABORTS = 100_000, 100_000, 70_000
OFFSETS = 3_000  # partitions of the topic `many`
COMMITTED = 12_000  # offsets of one commit: about what fits into its batch
GROUPS = 100_000
QUOTAS = 10_000  # of one request: Kafka's bound on its records
OLD_RECORDS, IDS_OF_OLD = 1_000_000, 10_000
LATE = 5_000  # open transactions
ROUNDS = 3
MEMORY = Path("/dev/shm")  # a disk would only take time


Prepared = Callable[[], Awaitable[object]]
Case = Callable[[Broker], Awaitable[Prepared]]


async def txn_offset_commit(broker: Broker) -> Prepared:
    """Offsets of many partitions, in a transaction."""
    await broker.create("many", OFFSETS)
    producer_id, epoch = await broker.begin("offsets")
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=number % OFFSETS, committed_offset=7)
        for number in range(COMMITTED)
    ]
    asked = TxnOffsetCommitRequest(
        transactional_id="offsets",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="many", partitions=partitions)],
    )
    return broker.ready(asked, 5)


async def end_of_offsets(broker: Broker) -> Prepared:
    """The commit of the same."""
    await (await txn_offset_commit(broker))()
    producer_id, epoch = broker.producer_of("offsets")
    return lambda: broker.end("offsets", producer_id, epoch)


async def offset_commit(broker: Broker) -> Prepared:
    """Offsets of many partitions, without a transaction."""
    await broker.create("many", OFFSETS)
    partitions = [
        OffsetCommitRequestPartition(partition_index=number % OFFSETS, committed_offset=7)
        for number in range(COMMITTED)
    ]
    asked = OffsetCommitRequest(
        group_id="plain",
        topics=[OffsetCommitRequestTopic(name="many", partitions=partitions)],
    )
    return broker.ready(asked, 8)


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
    return broker.ready(asked, 12)


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
    return broker.ready(asked, 3)


async def add_known(broker: Broker) -> Prepared:
    """AddPartitionsToTxn of those that exist."""
    await broker.create("many", OFFSETS)
    asked = _add(await broker.begin("wide"), "many", OFFSETS)
    return broker.ready(asked, 3)


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
    return broker.ready(DescribeTransactionsRequest(transactional_ids=["wide"]), 0)


async def describe_many(broker: Broker) -> Prepared:
    """DescribeTransactions of many ids."""
    broker.put_ids(IDS, TransactionState.EMPTY, broker.rig.services.clock.now_ms())
    names = [f"id-{number}" for number in range(IDS)]
    return broker.ready(DescribeTransactionsRequest(transactional_ids=names), 0)


async def list_many(broker: Broker) -> Prepared:
    """ListTransactions of many ids."""
    broker.put_ids(IDS, TransactionState.EMPTY, broker.rig.services.clock.now_ms())
    return broker.ready(ListTransactionsRequest(duration_filter=-1), 2)


async def load_many(broker: Broker) -> Prepared:
    """Loading many ids after a start."""
    broker.put_ids(IDS, TransactionState.EMPTY, broker.rig.services.clock.now_ms())
    await broker.rig.close()
    return broker.loaded


async def load_old(broker: Broker) -> Prepared:
    """Loading few ids with many old records."""
    now_ms = broker.rig.services.clock.now_ms()
    for _ in range(OLD_RECORDS // IDS_OF_OLD):
        broker.put_ids(IDS_OF_OLD, TransactionState.EMPTY, now_ms)
    await broker.rig.close()
    return broker.loaded


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
    return broker.ready(asked, 0)


async def write_markers(broker: Broker) -> Prepared:
    """WriteTxnMarkers that names many partitions; a marker is written to some of them."""
    await broker.create("many", OFFSETS)
    numbers = [number % (2 * OFFSETS) for number in range(PARTITIONS)]
    topic = WritableTxnMarkerTopic(name="many", partition_indexes=numbers)
    marker = WritableTxnMarker(
        producer_id=77,
        producer_epoch=1,
        transaction_result=False,
        coordinator_epoch=0,
        topics=[topic],
    )
    return broker.ready(WriteTxnMarkersRequest(markers=[marker]), 2)


async def find_many(broker: Broker) -> Prepared:
    """FindCoordinator of many ids."""
    names = [f"id-{number}" for number in range(IDS)]
    return broker.ready(FindCoordinatorRequest(coordinator_keys=names, key_type=1), 6)


def _quotas(value: float, *, removes: bool = False) -> AlterClientQuotasRequest:
    ops = [QuotaOperation(key="producer_byte_rate", value=value, remove=removes)]
    users = [
        AlteredQuotaEntity(entity_type="user", entity_name=f"user-{number}")
        for number in range(QUOTAS)
    ]
    entries = [QuotaAlteration(entity=[user], ops=ops) for user in users]
    return AlterClientQuotasRequest(entries=entries)


async def alter_quotas(broker: Broker) -> Prepared:
    """AlterClientQuotas that sets many."""
    return broker.ready(_quotas(1e6), 1)


async def remove_quotas(broker: Broker) -> Prepared:
    """AlterClientQuotas that removes them."""
    await broker.send(_quotas(1e6), 1)
    return broker.ready(_quotas(0, removes=True), 1)


async def describe_quotas(broker: Broker) -> Prepared:
    """DescribeClientQuotas of them."""
    await broker.send(_quotas(1e6), 1)
    return broker.ready(DescribeClientQuotasRequest(components=[], strict=False), 1)


def _put_offsets(broker: Broker, group_of: Callable[[int], str], count: int) -> None:
    groups = broker.rig.services.groups
    for number in range(count):
        key = OffsetCommitKey(group=group_of(number), topic="one", partition=number)
        value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=0)
        apply_offset(groups.registry_of(key.group), groups, key, value, number)


async def fetch_offsets(broker: Broker) -> Prepared:
    """OffsetFetch of all offsets of a group."""
    _put_offsets(broker, lambda _: "g", PARTITIONS)
    asked = OffsetFetchRequestGroup(group_id="g", topics=None)
    return broker.ready(OffsetFetchRequest(groups=[asked], require_stable=True), 9)


async def list_groups(broker: Broker) -> Prepared:
    """ListGroups of many."""
    _put_offsets(broker, lambda number: f"group-{number}", GROUPS)
    return broker.ready(ListGroupsRequest(), 5)


async def describe_groups(broker: Broker) -> Prepared:
    """DescribeGroups of many."""
    _put_offsets(broker, lambda number: f"group-{number}", GROUPS)
    names = [f"group-{number}" for number in range(GROUPS)]
    return broker.ready(DescribeGroupsRequest(groups=names), 6)


CASES: dict[str, Case] = {
    f"TxnOffsetCommit of {COMMITTED:,} offsets": txn_offset_commit,
    "EndTxn of these": end_of_offsets,
    f"OffsetCommit of {COMMITTED:,} offsets": offset_commit,
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
    f"the load of {OLD_RECORDS:,} old records": load_old,
    f"the expiry of {IDS:,} ids": expire_many,
    f"the timeout of {LATE:,} transactions": abort_many,
    f"DescribeProducers of {IDS:,} producers": describe_producers,
    f"WriteTxnMarkers to {PARTITIONS:,} partitions": write_markers,
    f"FindCoordinator of {IDS:,} ids": find_many,
    f"OffsetFetch of all {PARTITIONS:,} offsets of a group": fetch_offsets,
    f"AlterClientQuotas that sets {QUOTAS:,}": alter_quotas,
    f"AlterClientQuotas that removes {QUOTAS:,}": remove_quotas,
    f"DescribeClientQuotas of {QUOTAS:,}": describe_quotas,
    f"ListGroups of {GROUPS:,}": list_groups,
    f"DescribeGroups of {GROUPS:,}": describe_groups,
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
