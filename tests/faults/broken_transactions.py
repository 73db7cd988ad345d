"""Brokers with one promise of transactions broken on purpose; see `tests.faults.broken_brokers`.

A break shows in different ways, by where the crash falls: what is torn in one history is lost in
the next. So each variant shows as any of the ways in which a transaction can be damaged, besides
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from broker.groups.offsets import Offsets
from broker.transactions import adoption, reconcile, transaction_coordinator
from broker.transactions.endings import Endings
from broker.transactions.transaction_admission import TransactionAdmission
from broker.transactions.transaction_states import TransactionState
from storage.log_state import LogState
from storage.opening import abort_loading
from storage.producers.producer_state import ProducerState
from tests.faults.failpoints import Crash
from tests.faults.variant import Variant

DAMAGED = frozenset(
    {
        "torn",
        "lost-commit",
        "aborted-read",
        "early-read",
        "vanished",
        "hanging",
        "not-readable",
        "served-otherwise",
        "torn-offsets",
        "copied-twice",
        "not-copied",
        "duplicate",
    }
)
LONG_S = 1.0  # that an end takes, so that nearly every crash falls into one


def _complete_before_the_markers() -> None:
    async def hasty(self: Endings, transaction: Any, *, parallel: bool) -> None:
        markers = self._markers[transaction]
        self._complete(transaction)
        await self._store.log.late.finish()
        await self._store.log.durable(transaction.written)
        await asyncio.sleep(LONG_S)
        await self._writer.append_missing(markers)
        await self._writer.settle_durable(markers, None)

    Endings._carry_out = hasty  # type: ignore[method-assign]


def _write_markers_before_the_decision() -> None:
    carry_out = Endings._carry_out

    async def hasty(self: Endings, transaction: Any, *, parallel: bool) -> None:
        await carry_out(self, transaction, parallel=True)

    Endings._carry_out = hasty  # type: ignore[method-assign]


def _adopt_no_marker() -> None:
    reconcile._adopted = lambda *_: {}


def _show_what_is_open() -> None:
    LogState.last_stable_offset = property(lambda self: self.high_watermark)  # type: ignore[assignment, misc, method-assign]


def _keep_the_epoch() -> None:
    transaction_coordinator.END_BUMPS_VERSION = 99  # type: ignore[misc]
    # The next transaction of a client begins its sequences anew.
    ProducerState.check = lambda _self, _header: None  # type: ignore[method-assign]


def _admit_every_partition() -> None:
    def verify(
        self: TransactionAdmission, transactional_id: str, producer_id: int, epoch: int, *_: Any
    ) -> None:
        self._get(transactional_id).check_producer(producer_id, epoch)

    TransactionAdmission.verify = verify  # type: ignore[method-assign]


def _show_pending_offsets() -> None:
    def at_once(self: Any, key: Any, value: Any, record_offset: int, _producer_id: int) -> None:
        self.apply(key, value, record_offset)

    Offsets.apply_pending = at_once  # type: ignore[method-assign]


def _believe_every_list() -> None:
    def taken(segment: Any, data: bytes, _loaded: Any) -> bool:
        segment.aborts.take_all(data)
        return True

    abort_loading._is_taken = taken


def _time_out_what_is_decided() -> None:
    decide = adoption.reconcile

    def impatient(value: Any, evidence: Any, now_ms: int) -> Any:
        if value.transaction_status == TransactionState.PREPARE_COMMIT:
            value = replace(value, transaction_status=TransactionState.PREPARE_ABORT)
        return decide(value, evidence, now_ms)

    adoption.reconcile = impatient


KILL = Crash("kill")


def _transactional(apply: Any, *more: str, crash: Crash = KILL) -> Variant:
    return Variant(apply, "kill", [crash], DAMAGED | frozenset(more), transactional=True)


VARIANTS: Mapping[str, Variant] = {
    "complete-before-the-markers": _transactional(_complete_before_the_markers),
    "show-what-is-open": _transactional(_show_what_is_open, "open-below"),
    "keep-the-epoch": _transactional(_keep_the_epoch, "same-epoch", "refused"),
    "admit-every-partition": _transactional(_admit_every_partition, "not-added"),
    "show-pending-offsets": _transactional(_show_pending_offsets, "early-offsets", "H4"),
    "believe-every-list": _transactional(_believe_every_list, crash=Crash("lists", "lists")),
}

# These show if a cut falls between two fsyncs of the same end, and the client asks for another one.
# So they are caught where every state of the disk is met (`test_transaction_crash_states`).
NEED_A_STATE = {
    "complete-before-the-markers": _complete_before_the_markers,
    "write-markers-before-the-decision": _write_markers_before_the_decision,
    "adopt-no-marker": _adopt_no_marker,
    "time-out-what-is-decided": _time_out_what_is_decided,
}
