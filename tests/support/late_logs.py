"""A broker that starts while the disk does not give some logs, and one transaction of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from broker.maintenance.transaction_duties import TransactionDuties
from broker.transactions.transaction_states import TransactionState
from protocol.control_records import Marker
from storage.errors import LogFailed
from storage.log import Log
from storage.opening import log_loading
from tests.support.broker_rig import Rig, batch
from tests.support.rig_client import crash, create
from tests.support.transaction_client import SETTINGS, Transactor, begin


def rig_of(directory: Path, **settings: str) -> Rig:
    """Return a broker."""
    return Rig(directory, **SETTINGS, **settings)


@contextmanager
def offline(*names: str) -> Iterator[None]:
    """Let the disk interrupt each recovery of the logs in these directories."""
    recover = log_loading.recover

    def interrupted(home: Any, segments: Any, *rest: Any) -> Any:
        if segments[0].files.directory.endswith(names):
            raise LogFailed(segments[0].log_file.path, "read at position 0 failed: EIO")
        return recover(home, segments, *rest)

    log_loading.recover = interrupted
    try:
        yield
    finally:
        log_loading.recover = recover


async def opened_transaction(directory: Path, *numbers: int) -> tuple[Rig, Transactor]:
    """Return a broker with three partitions, and a producer with data in some of them.

    The record of its transaction is in the log.
    """
    rig = rig_of(directory)
    await create(rig, "t", 3)
    producer = await begin(rig, "id")
    for number in numbers:
        assert (await producer.produce("t", number)).error_code == 0
    state_log = rig.services.transactions.store.log
    state_log.append_if_late(rig.services.transactions.find("id"))
    return rig, producer


def log_of(rig: Rig, number: int) -> Log:
    """Return the log of a partition of `t`."""
    return rig.services.partitions.get("t", number).log


def mark(rig: Rig, number: int, producer: Transactor, *, is_commit: bool = True) -> None:
    """Write a marker of an end whose Prepare will be lost."""
    marker = Marker(producer.producer_id, producer.epoch + 1, is_commit, 0)
    log_of(rig, number).append_marker(marker, 1)


def add_unrecorded(rig: Rig, number: int, producer: Transactor) -> None:
    """Write data of a transaction whose record will be lost."""
    pid, epoch = producer.producer_id, producer.epoch
    records = batch(
        b"x", producer_id=pid, producer_epoch=epoch, base_sequence=0, transactional=True
    )
    log_of(rig, number).append_own(bytearray(records), 1)


async def restarted(rig: Rig, producer: Transactor, *names: str, **settings: str) -> Rig:
    """Return the broker after a crash, with some logs offline."""
    for partition in rig.services.partitions.all():
        rig.services.commit.flush_now(partition)
    await crash(rig)
    with offline(*names):
        again = rig_of(Path(rig.services.logs.directory.path), **settings)
    await load(again)
    producer.rig = again
    return again


async def look_again(rig: Rig) -> None:
    """Do what the broker does every second."""
    await rig.services.topics.open_offline()
    rig.services.transactions.look_again()
    await load(rig)


async def load(rig: Rig) -> None:
    """Load the transactions; the load that the broker has begun by itself is over as well."""
    loading = rig.services.transactions.loading
    await loading.load()
    if loading._task is not None:
        await loading._task


async def time_out(rig: Rig) -> None:
    """Look for transactions that were open for too long: all were."""
    for transaction in rig.services.transactions.store.by_id.values():
        transaction.started_ms = 0
    await TransactionDuties(rig.services)._late_transactions()


def state_of(rig: Rig) -> TransactionState:
    """Return the state of the id."""
    state: TransactionState = rig.services.transactions.store.by_id["id"].state
    return state


def outcomes(rig: Rig, *numbers: int) -> list[bool | None]:
    """Return whether the last transaction is committed in partitions; None while it is open."""
    found: list[bool | None] = []
    for number in numbers:
        log = log_of(rig, number)
        is_open = log.last_stable_offset < log.end_offset
        found.append(None if is_open else not log.aborted(0, log.end_offset))
    return found
