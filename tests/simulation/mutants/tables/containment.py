"""One failure that takes others with it, and wake-ups that are missing after one."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "read-error-escapes-into-the-round",
        "an error of counting what a parked fetch waits for reaches the end of the round of"
        " flushes: the other partitions of the round are never finished",
        "broker/partitions/fetch_reading.py",
        """\
        except (StorageError, OSError, Cold):
            return True
""",
        """\
        except Cold:
            return True
""",
        (
            (
                "broker/partitions/purgatory.py",
                """\
        try:
            is_satisfied = fetch.is_satisfied()
        except Exception as error:  # the read that follows answers it
            owners.failed(Owner.PARKED_FETCH, error, "counting what a parked fetch waits for")
            is_satisfied = True
        if is_satisfied:
""",
                """\
        if fetch.is_satisfied():
""",
            ),
            (
                "broker/partitions/group_commit.py",
                """\
        try:
            self._advanced(partition)
        except Exception as error:
            owners.failed(Owner.FLUSH, error, f"waking fetches and appends of {partition.log}")
""",
                """\
        self._advanced(partition)
""",
            ),
            (
                "broker/partitions/group_commit.py",
                """\
            try:
                self._finish(partition, flush, error)
            except Exception as failure:
                owners.failed(Owner.FLUSH, failure, f"the end of a flush of {partition.log}")
""",
                """\
            self._finish(partition, flush, error)
""",
            ),
        ),
        only_with=frozenset({"disk error"}),
    ),
    Mutant(
        "one-rotten-partition-fails-the-fetch",
        "a partition whose bytes cannot be read fails the whole fetch, sound partitions too",
        "broker/partitions/fetch_reading.py",
        """\
        except Exception as error:
            self._fail(data, log, error)
            return data, 0
""",
        "",
    ),
    Mutant(
        "queue-of-appends-drained-within-itself",
        "letting queued appends through calls itself when an append advances the log at once",
        "broker/partitions/append_queue.py",
        """\
        if self._draining or not to_look_at:
            return
""",
        """\
        if not to_look_at:
            return
""",
        (
            (
                "broker/partitions/append_queue.py",
                """\
                if partition.queue:
                    to_look_at[partition] = None
                else:
                    self.queued.pop(partition, None)
                self._metrics.appends_queued_now -= 1
                self._prepared.let_go(queued)
                self._append_now(queued)
""",
                """\
                self._metrics.appends_queued_now -= 1
                self._prepared.let_go(queued)
                self._append_now(queued)
                if partition.queue:
                    to_look_at[partition] = None
                else:
                    del self.queued[partition]
""",
            ),
        ),
    ),
    Mutant(
        "empty-control-batch-ends-the-loading-of-groups",
        "a control batch without records in __consumer_offsets, as Kafka's cleaner leaves, makes"
        " the groups of its partition unavailable",
        "broker/groups/replay.py",
        """\
        marker = next(records, None)
""",
        """\
        marker = list(records)[0]
""",
    ),
    Mutant(
        "one-partition-of-groups-ends-the-loading-of-all",
        "a partition of __consumer_offsets that cannot be read ends the loading of all later ones",
        "broker/groups/loading.py",
        """\
        shard.refuse()
        return 0
    if not shard.is_dropped:
""",
        """\
        raise
    if not shard.is_dropped:
""",
        only_with=frozenset({"disk error", "flip"}),
    ),
    Mutant(
        "only-one-waiter-told-of-a-failed-flush",
        "after a failed fsync the first waiting producer is told, the others are never answered",
        "broker/partitions/group_commit.py",
        """\
        while partition.waiters:
            partition.waiters.popleft().tell(code)
""",
        """\
        if partition.waiters:
            partition.waiters.popleft().tell(code)
""",
        only_with=frozenset({"many producers"}),
    ),
    Mutant(
        "flush-not-continued",
        "records appended while a flush runs are not flushed after it",
        "broker/partitions/group_commit.py",
        """\
        elif log.end_offset > durable_offset:
            self._schedule(
                partition, urgent=bool(waiters or partition.watchers or partition.sleepers)
            )
""",
        "",
    ),
    Mutant(
        "late-commits-never-answered",
        "requests that wait for a disk that does not answer have no deadline, and a stuck round"
        " of flushes is not passed",
        "broker/maintenance/housekeeping.py",
        """\
        self._services.commit.sweep()
""",
        "",
    ),
    Mutant(
        "late-appends-never-refused",
        "a queued append has no deadline",
        "broker/partitions/append_queue.py",
        """\
            late = [queued for queued in partition.queue if queued.deadline_ns <= now_ns]
""",
        """\
            late: list[QueuedAppend] = []
""",
    ),
    Mutant(
        "walks-not-begun-after-others",
        "batches whose records must be checked wait for ever behind the first two",
        "broker/runtime/record_work.py",
        """\
        self._running -= 1
        self._begin_next()
""",
        """\
        self._running -= 1
""",
    ),
    Mutant(
        "no-worker-woken-for-the-rest",
        "a worker whose slice is used up rests without waking the next for the requests left",
        "broker/runtime/request_queue.py",
        """\
        self._worker_awake = False
        if self._items:
            self._wake()
""",
        """\
        self._worker_awake = False
""",
    ),
    Mutant(
        "full-connection-never-read-again",
        "a connection that had its most requests in flight is not read again after the answers",
        "broker/network/connection.py",
        """\
_UNANSWERED: Final = Hold.IN_FLIGHT | Hold.ANSWERS
""",
        """\
_UNANSWERED: Final = Hold.ANSWERS
""",
    ),
    Mutant(
        "slow-reader-never-read-again",
        "a client that once did not read its answers is not read again when it does",
        "broker/network/connection.py",
        """\
        self.account.all_sent()
        self.release(Hold.UNSENT)
""",
        """\
        self.account.all_sent()
""",
    ),
    Mutant(
        "budget-with-room-tells-nobody",
        "connections held while the budget was full stay held when it has room",
        "broker/network/processor.py",
        """\
            else:
                connection.release(Hold.BUDGET)
""",
        "",
    ),
    Mutant(
        "room-told-to-one-connection-only",
        "when the queue has room for several, one waiting connection is told and the rest wait",
        "broker/network/processor.py",
        """\
            queue.tell_next()
""",
        "",
    ),
    Mutant(
        "no-descriptor-ends-the-broker",
        "accepting while the process has no descriptor left ends the broker",
        "broker/network/acceptor.py",
        """\
                if error.errno not in CAPACITY_ERRNOS:
                    raise
""",
        """\
                raise
""",
    ),
    Mutant(
        "answers-out-of-order",
        "an answer that is ready is sent before those of earlier requests",
        "broker/network/connection.py",
        """\
        if slots[0] is not request:
            self.account.keep(own_bytes(buffers))
            return
""",
        """\
        if slots[0] is not request:
            slots.remove(request)
            slots.appendleft(request)
""",
    ),
    Mutant(
        "deleted-topic-leaves-its-producers-waiting",
        "producers that wait for a partition are not answered when its topic is deleted",
        "broker/topic_logs.py",
        """\
                self._commit.drop(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
""",
        "",
    ),
    Mutant(
        "parked-fetch-not-woken-by-a-flush",
        "a parked fetch is not woken when records become visible",
        "broker/partitions/purgatory.py",
        """\
        if is_satisfied:
            self._release(fetch)
""",
        "",
    ),
    Mutant(
        "parked-fetches-hold-the-stop",
        "a stop waits for the deadlines of parked fetches",
        "broker/lifecycle/shutdown.py",
        """\
        services.purgatory.stop()
""",
        "",
    ),
    Mutant(
        "waiting-group-members-hold-the-stop",
        "a stop does not answer the members that wait for their group",
        "broker/lifecycle/shutdown.py",
        """\
        if services.has_groups:
            services.groups.stop()
""",
        "",
        only_with=frozenset({"classic member", "mixed member"}),
    ),
    Mutant(
        "first-batch-larger-than-the-limit-never-read",
        "a fetch whose limit is smaller than the next batch gets nothing, for ever",
        "broker/partitions/fetch_reading.py",
        """\
                piece = log.read(offset, bytes_max, at_least_one_batch=first, end_offset=limit)
""",
        """\
                piece = log.read(offset, bytes_max, at_least_one_batch=False, end_offset=limit)
""",
    ),
    Mutant(
        "fetch-at-the-end-is-out-of-range",
        "a fetch at the end of the log is answered OFFSET_OUT_OF_RANGE",
        "storage/log_reader.py",
        """\
            if start_offset > self.end_offset:
""",
        """\
            if start_offset >= self.end_offset:
""",
    ),
)
