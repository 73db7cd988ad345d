"""Brokers with one promise of docs/durability.md broken."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "acknowledge-before-fsync",
        "acks=all is answered when the records are in the page cache",
        "broker/partitions/group_commit.py",
        """\
        if (log.durable_offset if on_disk else log.high_watermark) >= end_offset:
""",
        """\
        if log.end_offset >= end_offset:
            self._schedule(partition, urgent=True)
""",
    ),
    Mutant(
        "acknowledge-commits-before-fsync",
        "commits of offsets and groups are answered before they are durable",
        "broker/groups/group_log.py",
        """\
        self._commit.wait(
            partition,
            wanted,
            self._config.offsets_commit_timeout_ms,
            lambda code: done(code_of_write(code)),
            on_disk=on_disk,
        )
""",
        """\
        done(ErrorCode.NONE if wanted else code_of_write(ErrorCode.NONE))
""",
    ),
    Mutant(
        "skip-deduplication",
        "a retried batch of an idempotent producer is appended again",
        "storage/log.py",
        """\
            original = self.producers.check(header)
""",
        """\
            original = None
""",
    ),
    Mutant(
        "forget-producers",
        "idempotent producers are forgotten by each start",
        "storage/opening/producer_replay.py",
        """\
    if not header.is_control:
        producers.take(header, header.base_offset, now_ms)
        return None
""",
        """\
    if not header.is_control:
        return None
""",
        (
            (
                "storage/producers/snapshot_files.py",
                """\
            state.replace(entries, offset)
""",
                """\
            state.replace([], offset)
""",
            ),
        ),
    ),
    Mutant(
        "truncate-at-the-first-bad-crc",
        "recovery checks the whole log, and cuts it at the first damaged batch",
        "storage/opening/log_loading.py",
        """\
            segments,
            recovery_point,
            config,
""",
        """\
            segments,
            segments[0].base_offset,
            config,
""",
    ),
    Mutant(
        "retry-a-failed-fsync",
        "a failed fsync is tried again, and the second success is believed",
        "storage/flush.py",
        """\
        for file in self._files:
            file.fdatasync()
""",
        """\
        for file in self._files:
            try:
                file.fdatasync()
            except OSError:
                file.fdatasync()
""",
        only_with=frozenset({"disk error"}),
    ),
    Mutant(
        "show-what-is-not-durable",
        "records are visible as soon as they are appended",
        "storage/log.py",
        """\
        if self.write_caching:
            self.high_watermark = last_offset + 1
        else:
            self.home.unflushed_bytes += size
""",
        """\
        self.high_watermark = last_offset + 1
        if not self.write_caching:
            self.home.unflushed_bytes += size
""",
    ),
    Mutant(
        "reissue-producer-ids",
        "each start gives out the same producer ids",
        "broker/metadata/controller.py",
        """\
        start = self.image.next_producer_id
""",
        """\
        start = 0
""",
    ),
    Mutant(
        "forget-the-log-start",
        "the file of log start offsets is never written",
        "storage/offset_checkpoints.py",
        """\
                    if offsets != self._written[name]:
""",
        """\
                    if offsets != self._written[name] and name != filenames.LOG_START_CHECKPOINT:
""",
    ),
    Mutant(
        "mark-clean-before-the-flush",
        "a stop writes its clean mark first, and flushes then",
        "storage/log_manager.py",
        """\
        are_closed = yield from stop_logs(self.all(), self._warn, are_decided=are_decided)
""",
        """\
        for log in self.logs.values():
            log.recovery_point = log.end_offset
        self.home.checkpoint_changes += 1
        self.write_checkpoints()
        self.directory.write_clean_mark(broker_epoch)
        are_closed = yield from stop_logs(self.all(), self._warn, are_decided=are_decided)
""",
    ),
    Mutant(
        "believe-every-crc",
        "recovery looks at the headers of batches, not at their checksums",
        "storage/opening/recovery.py",
        """\
                header = verify_any(view, at)
""",
        """\
                header = read_header(view, at)
""",
        (
            (
                "storage/opening/recovery.py",
                """\
        run = verified_run(view, 0, self.next_offset)
""",
                """\
        run: list[BatchHeader] = []
""",
            ),
            (
                "storage/opening/recovery.py",
                """\
    BatchHeader,
    verified_run,
""",
                """\
    BatchHeader,
    read_header,
    verified_run,
""",
            ),
        ),
    ),
    Mutant(
        "answer-the-next-offset",
        "a producer is told the offset after its batch's",
        "broker/produce_progress.py",
        """\
        answer.base_offset = appended.base_offset
""",
        """\
        answer.base_offset = appended.base_offset + 1
""",
    ),
    Mutant(
        "do-not-wait-for-metadata",
        "changes of topics and configs are answered before they are durable",
        "broker/metadata_changes.py",
        """\
        code = await self._commit.durable(self._metadata_partition, end_offset, NEVER_MS)
""",
        """\
        self._commit.flush_now(self._metadata_partition)
        code = 0
""",
    ),
    Mutant(
        "forget-acknowledged-pages",
        "the last batches of a log are kept in the process until the next flush: a kill loses"
        " what acks=1 acknowledged",
        "storage/segments/log_file.py",
        """\
            file.pwrite(buffer, position)
""",
        """\
            if self.path.endswith(".log"):
                self._held.append((bytes(buffer), position))
                file.writes += 1
            else:
                file.pwrite(buffer, position)
""",
        (
            (
                "storage/segments/log_file.py",
                """\
    __slots__ = ("_files", "_unsynced", "path", "size")
""",
                """\
    __slots__ = ("_files", "_held", "_unsynced", "path", "size")
""",
            ),
            (
                "storage/segments/log_file.py",
                """\
        self._unsynced: File | None = None  # appended to since `take_unsynced`
""",
                """\
        self._unsynced: File | None = None  # appended to since `take_unsynced`
        self._held: list[tuple[bytes, int]] = []
""",
            ),
            (
                "storage/segments/log_file.py",
                """\
        file, self._unsynced = self._unsynced, None
        return file
""",
                """\
        file, self._unsynced = self._unsynced, None
        held, self._held = self._held, []
        for data, position in held:
            assert file is not None
            file.pwrite(data, position)
        return file
""",
            ),
        ),
    ),
)
