"""Transactions: the order of their writes, their epochs, and what readers see of them."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "transaction-complete-before-its-markers",
        "the end of a transaction is recorded as complete before its markers are durable",
        "broker/transactions/endings.py",
        """\
        await self._writer.settle_durable(markers, prepared)
        if not markers.missing and not markers.appended:
            self._complete(transaction)
""",
        """\
        if not markers.missing:
            self._complete(transaction)
        await self._writer.settle_durable(markers, prepared)
""",
    ),
    Mutant(
        "markers-before-the-decision",
        "the markers of TV1 go to the disk beside the decision, which says alone whom they end",
        "broker/transactions/endings.py",
        """\
        if prepared is not None and not parallel:
            await self._store.log.durable(prepared)
""",
        "",
    ),
    Mutant(
        "durable-markers-are-not-adopted",
        "a start does not take a marker for the decision whose record was lost",
        "broker/transactions/reconcile.py",
        """\
        self._adopted = _adopted(evidence.of(current.producer_id), current.epoch)
""",
        """\
        self._adopted: dict[int, bool] = {}
""",
    ),
    Mutant(
        "stable-offset-is-the-high-watermark",
        "readers of committed records are served what open transactions write",
        "storage/log_state.py",
        """\
        if first_unstable >= high_watermark:
""",
        """\
        if first_unstable >= 0:
""",
    ),
    Mutant(
        "end-of-a-transaction-raises-no-epoch",
        "an end of TV2 leaves the epoch as it was",
        "broker/transactions/transaction.py",
        """\
            changed |= {"epoch": self.epoch + 1, "last_epoch": self.epoch}
""",
        """\
            changed |= {"epoch": self.epoch, "last_epoch": self.epoch}
""",
    ),
    Mutant(
        "new-instance-raises-no-epoch",
        "InitProducerId answers the epoch that the instance before has",
        "broker/transactions/transaction.py",
        """\
            "epoch": self.epoch + 1,
            "last_epoch": self.epoch,
        }
        if self.wants_producer_id(expected):
""",
        """\
            "epoch": max(self.epoch, 0),
            "last_epoch": self.epoch,
        }
        if self.wants_producer_id(expected):
""",
    ),
    Mutant(
        "partitions-are-not-verified",
        "a batch of TV1 is taken in a partition that is not in the transaction",
        "broker/transactions/transaction_admission.py",
        """\
        if not (is_written and transaction.is_open_in(topic, partition)):
""",
        """\
        if not is_written:
""",
    ),
    Mutant(
        "pending-offsets-are-shown",
        "offsets of an open transaction count as committed at once",
        "broker/groups/apply.py",
        """\
    if producer_id == NO_PRODUCER_ID:
""",
        """\
    if producer_id >= NO_PRODUCER_ID:
""",
    ),
    Mutant(
        "lists-of-aborts-are-not-rebuilt",
        "a list of aborted transactions that was lost stays empty",
        "storage/opening/abort_loading.py",
        """\
    if wrong:
        _rebuild(segments, wrong, end_offset, before, now_ms, report)
""",
        """\
    for segment in wrong:
        segment.aborts.begin_anew()
""",
    ),
    Mutant(
        "prepared-commit-becomes-an-abort",
        "a start ends as an abort what its broker had decided to commit",
        "broker/transactions/endings.py",
        """\
            is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
""",
        """\
            is_commit=transaction.state is TransactionState.PREPARE_COMMIT and not only_open,
""",
    ),
    Mutant(
        "fenced-end-is-taken-for-a-retry",
        "an EndTxn of a fenced instance is answered with its successor's epoch",
        "broker/transactions/transaction.py",
        """\
        if self.state is done and is_retry and self.client_version < TV2:
""",
        """\
        if self.state is done and is_retry and self.client_version < TV1:
""",
    ),
    Mutant(
        "transactions-do-not-time-out",
        "a transaction that was left open stays so",
        "broker/transactions/transaction.py",
        """\
            and self.started_ms + self.timeout_ms < now_ms
""",
        """\
            and self.started_ms + self.timeout_ms < 0 * now_ms
""",
    ),
    Mutant(
        "volatile-data-is-committed",
        "a transaction is committed though its data are in the page cache alone",
        "broker/transactions/markers.py",
        """\
        if missing:
            await self._flush(missing)
""",
        "",
    ),
)
