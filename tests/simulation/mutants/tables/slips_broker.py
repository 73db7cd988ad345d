"""Slips in the broker: topics, metadata, configs, single handlers."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "await-between-plan-and-record",
        "other changes of topics come between the check of a new topic and its record",
        "broker/topics.py",
        """\
            async with self._planning:
                if await _undecided_of(""",
        """\
            if True:
                if await _undecided_of(""",
        (
            (
                "broker/topics.py",
                """\
                now_ms = self._clock.now_ms()
                batch = None
""",
                """\
                await asyncio.sleep(0.001)
                now_ms = self._clock.now_ms()
                batch = None
""",
            ),
        ),
    ),
    Mutant(
        "unclean-start-keeps-the-leader-epoch",
        "two runs of the broker stamp the same leader epoch after a crash",
        "broker/metadata/leadership.py",
        """\
    if is_leader and is_tidy and has_directory and not unclean:
""",
        """\
    if is_leader and is_tidy and has_directory:
""",
    ),
    Mutant(
        "leader-epochs-not-fenced",
        "clients with an older or newer leader epoch are served",
        "broker/partitions/epoch_fencing.py",
        """\
    if current_leader_epoch in (NO_EPOCH, log.leader_epoch):
        return None
""",
        """\
    if current_leader_epoch >= NO_EPOCH:
        return None
""",
    ),
    Mutant(
        "earliest-is-the-first-segment",
        "the earliest offset is that of the first segment, not the log start offset",
        "broker/handlers/list_offsets.py",
        """\
        answer.offset = log.start_offset
""",
        """\
        answer.offset = log.segments.all[0].base_offset
""",
    ),
    Mutant(
        "latest-is-the-end",
        "the latest offset is the end of the log, durable or not",
        "broker/handlers/list_offsets.py",
        """\
        answer.offset = log.last_stable_offset if progress.is_committed else log.high_watermark
""",
        """\
        answer.offset = log.last_stable_offset if progress.is_committed else log.end_offset
""",
        (
            (
                "broker/handlers/list_offsets.py",
                """\
    if timestamp in NOTHING_WAITED_FOR or log.high_watermark >= log.end_offset:
""",
                """\
    if timestamp in (LATEST, *NOTHING_WAITED_FOR) or log.high_watermark >= log.end_offset:
""",
            ),
        ),
        only_with=frozenset({"lookup"}),
    ),
    Mutant(
        "grown-topic-leads-nothing-new",
        "partitions that are added to a topic are not led by the broker",
        "broker/metadata/controller.py",
        """\
            self._led |= {(topic.topic_id, info.partition) for info in added}
""",
        """\
            if plan.added is None:
                self._led |= {(topic.topic_id, info.partition) for info in added}
""",
    ),
    Mutant(
        "topic-configs-not-applied",
        "a changed config of a topic takes effect at the next start",
        "broker/configs/live.py",
        """\
            log.update_config(config)
""",
        "",
    ),
    Mutant(
        "queued-appends-of-a-deleted-topic-lost",
        "appends that wait for a partition are forgotten when its topic is deleted",
        "broker/partitions/append_queue.py",
        """\
            self._refuse(partition.queue.popleft(), error)
""",
        """\
            partition.queue.popleft()
""",
        only_with=frozenset({"topic that goes"}),
    ),
    Mutant(
        "queued-appends-out-of-order",
        "the append that was queued last is the first to get its turn",
        "broker/partitions/append_queue.py",
        """\
                queued = partition.queue.popleft()
""",
        """\
                queued = partition.queue.pop()
""",
    ),
    Mutant(
        "append-passes-the-queue",
        "a batch is appended before those that wait in the queue of its partition",
        "broker/partitions/append_queue.py",
        """\
        return not (partition.queue or self._must_wait(partition)) and (
""",
        """\
        return not self._must_wait(partition) and (
""",
    ),
    Mutant(
        "error-without-acks-kept",
        "an error of a produce with acks=0 does not close the connection",
        "broker/handlers/produce.py",
        """\
    if progress.failures:
        request.connection.abort(""",
        """\
    if progress.failures and request.body.acks:
        request.connection.abort(""",
    ),
    Mutant(
        "failed-flush-answered-as-success",
        "producers that waited for a failed fsync are told that it succeeded",
        "broker/partitions/group_commit.py",
        """\
        if log.failed is not None:
            self.drop(partition, code_of_failed_log(partition.log))
        elif error is not None""",
        """\
        if log.failed is not None:
            self.drop(partition, ErrorCode.NONE)
        elif error is not None""",
        only_with=frozenset({"disk error"}),
    ),
    Mutant(
        "batch-without-timestamp-refused",
        "a batch whose records have no timestamps is refused as too old",
        "storage/appending.py",
        """\
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
""",
        """\
        if not earliest <= timestamp <= latest:
""",
        only_with=frozenset({"timeless producer"}),
    ),
    Mutant(
        "topic-gone-before-its-removal-is-durable",
        "the directories of a deleted topic go before the removal is on the disk",
        "broker/topics.py",
        """\
        await self._durable(end_offset, [life])
        life.move(TopicEvent.GONE)
        await self._topic_logs.drop(life)
""",
        """\
        life.move(TopicEvent.GONE)
        await self._topic_logs.drop(life)
        await self._changes.durable(end_offset)
""",
    ),
    Mutant(
        "name-free-before-the-logs-are-dropped",
        "a name may be taken again while the directories of its last topic are renamed",
        "broker/topics.py",
        """\
        await self._topic_logs.drop(life)
        await self._telling.passed()
        life.move(TopicEvent.DROPPED)
        self._controller.forget(life)
""",
        """\
        life.move(TopicEvent.DROPPED)
        self._controller.forget(life)
        await self._topic_logs.drop(life)
""",
        only_with=frozenset({"topic taken again"}),
    ),
    Mutant(
        "half-closed-connection-drops-its-requests",
        "requests that a client sent before it closed its side are dropped",
        "broker/network/connection.py",
        """\
        if self.frames and not self.reading.holds & Hold.CLOSING:
""",
        """\
        if self.frames and self.reading.holds & Hold.CLOSING:
""",
        only_with=frozenset({"parting producer"}),
    ),
    Mutant(
        "frame-lost-between-two-reads",
        "a size that arrives in pieces is read wrongly",
        "protocol/framing.py",
        """\
        position = SIZE_BYTES - len(self._head)
""",
        """\
        position = SIZE_BYTES - 1
""",
    ),
)
