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
            await self._store.log.late.finish()
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
        return self.due_ns < now_ns
""",
        """\
        return self.due_ns < 0 * now_ns
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
    Mutant(
        "owed-markers-are-forgotten",
        "a marker that a failed flush has lost counts as written",
        "broker/transactions/markers.py",
        """\
        elif code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            markers.missing[place] = None  # owed until the log is opened again
""",
        "",
        only_with=frozenset({"disk error at an end"}),
    ),
    Mutant(
        "failed-logs-may-vouch-for-markers",
        "after a start, a marker that a failed flush has lost counts as written, since the log in"
        " memory knows it",
        "broker/transactions/markers.py",
        """\
    if partition.log.failed is not None:
        return False
    entry""",
        """\
    entry""",
        only_with=frozenset({"disk error", "disk error at an end"}),
    ),
    Mutant(
        "offline-partitions-need-no-marker",
        "a partition that cannot be opened is left out of the end",
        "broker/transactions/markers.py",
        """\
        except StorageError:  # offline
            return None
""",
        """\
        except StorageError:  # offline
            del markers.missing[place]
            return None
""",
        only_with=frozenset({"absent partition"}),
    ),
    Mutant(
        "recovery-point-passes-unsettled-markers",
        "a checkpoint moves past markers whose decision may not be on the disk",
        "storage/log_state.py",
        """\
        return min(self.durable_offset, unsettled_from)
""",
        """\
        return self.durable_offset
""",
        only_with=frozenset({"slow log at an end"}),
    ),
    Mutant(
        "replayed-markers-are-let-go-at-once",
        "a start lets recovery points pass markers before what they say is written",
        "broker/transactions/transaction_loading.py",
        """\
            started_ns = self._clock.monotonic_ns()
            numbers = [
""",
        """\
            await self._let_go()
            started_ns = self._clock.monotonic_ns()
            numbers = [
""",
    ),
    Mutant(
        "data-come-before-their-ongoing-after-tv1",
        "an implicit add after an end of TV1 waits for nothing",
        "broker/transactions/reopening.py",
        """\
    if _is_complete_of_tv1(transaction):
        return True
    return transaction.awaited is not None and not transaction.awaited.is_durable
""",
        """\
    return False
""",
        only_with=frozenset({"changing transactor"}),
    ),
    Mutant(
        "hand-markers-tear",
        "a marker by hand is written into a transaction that the coordinator has open",
        "broker/transactions/hand_markers.py",
        """\
        if not is_open:
            return None
""",
        """\
        if is_open or not is_open:
            return None
""",
    ),
    Mutant(
        "hand-markers-above-the-epoch",
        "a marker by hand may have an epoch above that of the id's producer",
        "broker/transactions/hand_markers.py",
        """\
        if marker.producer_epoch > owner.epoch:
""",
        """\
        if marker.producer_epoch > owner.epoch + 32_767:
""",
        only_with=frozenset({"bold operator"}),
    ),
    Mutant(
        "aborted-transactions-are-not-named",
        "an answer to read_committed names no aborted transaction",
        "broker/partitions/aborted_names.py",
        """\
        elif found:
""",
        """\
        elif found and len(found) > NAMED_PER_STEP:
""",
    ),
    Mutant(
        "open-data-are-not-the-current-transaction",
        "a start does not add a partition whose record was lost",
        "broker/transactions/reconcile.py",
        """\
        is_whole = set(self._current) <= set(listed)
""",
        """\
        is_whole = True
""",
        only_with=frozenset({"power cut in a transaction"}),
    ),
    Mutant(
        "pending-offsets-behind-the-marker-are-taken",
        "a late marker takes the pending offsets of the next transaction, too",
        "broker/groups/pending.py",
        """\
        if self._first.get(producer_id, OFFSET_MAX) >= marker_offset:
""",
        """\
        if self._first.get(producer_id, OFFSET_MAX) >= OFFSET_MAX:
""",
    ),
)
