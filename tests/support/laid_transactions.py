"""Records of `__transaction_state`, and data of transactions, laid into the logs of a rig."""

from broker.metadata.topic_rules import TRANSACTION_TOPIC
from broker.transactions.transaction_states import TransactionState
from protocol.control_records import Marker
from protocol.records import Record, build
from protocol.transaction_records import (
    TransactionKey,
    TransactionValue,
    encode_key,
    encode_value,
)
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import crash


async def loaded(rig: Rig) -> None:
    """Load and judge all ids."""
    await rig.services.transactions.loading.load()


def put(rig: Rig, name: str, value: TransactionValue, *, number: int | None = None) -> None:
    """Write a record of an id to `__transaction_state`."""
    number = rig.services.transactions.store.log.number_of(name) if number is None else number
    record = Record(0, 1, encode_key(TransactionKey(transactional_id=name)), encode_value(value))
    log = rig.services.partitions.get(TRANSACTION_TOPIC, number).log
    log.append_own(build([record]), 1)


def value(
    state: TransactionState, epoch: int, *, pid: int = 7_000, version: int = 2, started_ms: int = 1
) -> TransactionValue:
    """Return a record."""
    return TransactionValue(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_timeout_ms=60_000,
        transaction_status=state,
        transaction_partitions=None if state is TransactionState.EMPTY else [],
        transaction_last_update_timestamp_ms=1,
        transaction_start_timestamp_ms=started_ms,
        client_transaction_version=version,
    )


def open_data(rig: Rig, number: int, epoch: int, pid: int = 7_000) -> None:
    """Put data of a transaction into a log of `t`."""
    records = batch(
        b"x", producer_id=pid, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    rig.services.partitions.get("t", number).log.append_own(bytearray(records), 1)


def close_data(rig: Rig, number: int, epoch: int, is_commit: bool, pid: int = 7_000) -> None:
    """Put a marker behind them."""
    log = rig.services.partitions.get("t", number).log
    log.append_marker(Marker(pid, epoch, is_commit, 0), 1)


async def died(rig: Rig) -> None:
    """Leave everything on the disk, and no clean mark: the decisions of markers are lost."""
    for partition in rig.services.partitions.all():
        rig.services.commit.flush_now(partition)
    await crash(rig)
