"""Slips about files: what is synced, in which order, and what a start makes of it."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "rolled-segment-not-synced",
        "the next flush leaves out the segment that a roll has closed",
        "storage/rolling.py",
        """\
    state.unsynced.note_rolled(state.directory, old.log_file.take_unsynced())
""",
        """\
    state.unsynced.note_rolled(state.directory, None)
""",
    ),
    Mutant(
        "name-of-a-new-segment-not-synced",
        "the directory is not synced after a roll",
        "storage/log_state.py",
        """\
        if directory not in self.directories:
            self.directories.append(directory)
        if file is not None:
""",
        """\
        if file is not None:
""",
    ),
    Mutant(
        "name-of-a-new-partition-not-synced",
        "the data directory is not synced after a partition's directory was made",
        "storage/opening/log_opening.py",
        """\
            log.unsynced.note_created([path], [self._directory.path, known.directory])
""",
        """\
            log.unsynced.note_created([path], [known.directory])
""",
    ),
    Mutant(
        "error-of-a-flush-swallowed",
        "a failed fsync counts as done",
        "broker/partitions/flush_round.py",
        """\
            except OSError as caught:
                error = caught
""",
        """\
            except OSError:
                pass
""",
        only_with=frozenset({"disk error"}),
    ),
    Mutant(
        "durable-up-to-the-present-end",
        "a flush that ends makes everything durable, also what was appended since it began",
        "storage/flush.py",
        """\
    state.durable_offset = flush.end_offset
""",
        """\
    state.durable_offset = state.end_offset
""",
    ),
    Mutant(
        "visible-up-to-the-present-end",
        "a flush that ends makes visible what was appended since it began",
        "storage/flush.py",
        """\
        state.high_watermark = max(state.high_watermark, flush.end_offset)
""",
        """\
        state.high_watermark = max(state.high_watermark, state.end_offset)
""",
    ),
    Mutant(
        "position-of-the-durable-end-is-the-present-one",
        "reads end at the segment's present size in place of its durable size",
        "storage/flush.py",
        """\
    state.segments.note_durable(flush.end_offset, flush.segment_base_offset, flush.segment_position)
""",
        """\
    state.segments.note_durable(
        flush.end_offset, flush.segment_base_offset, state.segments.active.size
    )
""",
    ),
    Mutant(
        "failed-write-not-undone",
        "what a failed write has left of a batch stays at the end of the file",
        "storage/segments/log_file.py",
        """\
        try:
            file.truncate(self.size)
        except OSError:
            return False
        return True
""",
        """\
        return file.size() >= self.size
""",
    ),
    Mutant(
        "recovery-does-not-sync",
        "what recovery has found good counts as durable without an fsync",
        "storage/opening/recovery.py",
        """\
        for file in self.to_sync:
            file.fdatasync()
""",
        "",
    ),
    Mutant(
        "recovery-does-not-rewrite",
        "recovery reads good batches without writing them again: after a failed fsync they never"
        " reach the disk",
        "storage/opening/recovery.py",
        """\
            file.pwrite(view[:at], position)
""",
        "",
        only_with=frozenset({"disk error"}),
    ),
    Mutant(
        "holes-anywhere-in-a-compacted-log",
        "a recovery keeps what follows the lost end of a segment of a compacted log",
        "storage/opening/recovery.py",
        """\
        below = max(cleaned_offset, recovery_point) if has_checkpoint else OFFSET_MAX
""",
        """\
        below = OFFSET_MAX
""",
        only_with=frozenset({"careless writer"}),
    ),
    Mutant(
        "first-log-is-made-before-it-is-named",
        "the first log of a directory is created while no file of recovery points is there, and"
        " recovery takes any hole in it for compaction's",
        "storage/offset_checkpoints.py",
        """\
        must_write = not (self.has_recovery_points or self._captured)
""",
        """\
        must_write = False
""",
        only_with=frozenset({"careless writer"}),
    ),
    Mutant(
        "recovery-does-not-sync-the-directory",
        "names that a killed process has made count as durable after recovery",
        "storage/opening/recovery.py",
        """\
        self.home.filesystem.sync_directory(self.directory)
""",
        "",
    ),
    Mutant(
        "recovery-point-ahead-of-the-disk",
        "a checkpoint moves the recovery point to the end of the log, flushed or not",
        "storage/checkpointing.py",
        """\
    target = state.checkpointable_offset
""",
        """\
    target = state.end_offset
""",
    ),
    Mutant(
        "damage-below-the-recovery-point-is-cut",
        "recovery cuts the log at damage below its recovery point, with all that follows",
        "storage/opening/recovery_start.py",
        """\
        if next_offset >= recovery_point:
            return Start(
""",
        """\
        if next_offset >= 0:
            return Start(
""",
        only_with=frozenset({"flip"}),
    ),
    Mutant(
        "name-reused-with-old-checkpoints",
        "a log that is created takes over the recovery point that a file has for its name",
        "storage/offset_checkpoints.py",
        """\
        if not must_write:
            return None
""",
        """\
        if must_write or not must_write:
            return None
""",
    ),
    Mutant(
        "directory-of-another-topic-is-taken",
        "a directory that a deleted topic has left is taken for that of its successor",
        "storage/opening/log_opening.py",
        """\
        if found == wanted.topic_id:
            return False
""",
        """\
        if found:
            return False
""",
        only_with=frozenset({"topic taken again"}),
    ),
    Mutant(
        "deleted-directory-removed-by-its-old-name",
        "the directory of a deleted topic is removed under its former name, which its successor"
        " has now",
        "storage/log_manager.py",
        """\
            self.home.trash.toss_directory(gone.due_ms, gone.moved_to)
""",
        """\
            self.home.trash.toss_directory(gone.due_ms, gone.directory)
""",
    ),
    Mutant(
        "checkpoint-files-overwritten-in-place",
        "the files of recovery points and log starts are overwritten, not replaced",
        "storage/files/text_files.py",
        """\
    filesystem.replace(path, encode_offsets(offsets))
""",
        """\
    file = filesystem.open(path, create=True)
    file.truncate(0)
    file.pwrite(encode_offsets(offsets), 0)
    file.fdatasync()
    file.close()
""",
    ),
    Mutant(
        "deleted-records-not-noted",
        "the start offset that DeleteRecords has moved is not written before the answer",
        "broker/handlers/delete_records.py",
        """\
    if cuts:
        await _make_durable(services, cuts)
    return response
""",
        """\
    for log, offset, result in cuts:
        log.start_offset = max(log.start_offset, offset)
        result.low_watermark = log.start_offset
    return response
""",
    ),
    Mutant(
        "start-seen-before-it-is-durable",
        "readers see a log start offset as soon as retention or DeleteRecords moves it",
        "storage/trimming.py",
        """\
        state.next_start_offset = offset
        state.home.checkpoint_changes += 1
""",
        """\
        state.next_start_offset = offset
        state.home.checkpoint_changes += 1
        reach_start(state, offset)
""",
    ),
    Mutant(
        "start-above-the-durable-end",
        "records of a write.caching topic are deleted before they are durable",
        "storage/trimming.py",
        """\
    if offset > state.durable_offset:
""",
        """\
    if offset > state.high_watermark:
""",
        (
            (
                "broker/handlers/delete_records.py",
                """\
            if target > log.durable_offset:
""",
                """\
            if target > log.high_watermark:
""",
            ),
        ),
        only_with=frozenset({"eager trimmer"}),
    ),
    Mutant(
        "deletion-on-a-full-disk-not-synced",
        "where the log start checkpoint has no room, deleted segments move the start at once",
        "storage/trimming.py",
        """\
        if self._sync:
            home.filesystem.sync_directory(self._directory)
""",
        "",
        only_with=frozenset({"disk full"}),
    ),
    Mutant(
        "compacted-segment-not-synced",
        "a compacted segment replaces its sources before it is on the disk",
        "storage/compaction/one_pass.py",
        """\
            swap.sync()
""",
        "",
    ),
    Mutant(
        "interrupted-swap-is-undone",
        "a start removes a complete compacted segment whose sources are gone",
        "storage/opening/swap_recovery.py",
        """\
    swaps = [name for name in swaps if name not in undone]
    is_any_used = False
""",
        """\
    _remove(home, directory, [name for name in swaps if name not in undone])
    swaps = []
    is_any_used = False
""",
        only_with=frozenset({"hasty compactor"}),
    ),
    Mutant(
        "snapshot-of-metadata-ahead-of-its-log",
        "a snapshot of the metadata is written at an end that the log on the disk may not reach",
        "broker/metadata/snapshot_keeper.py",
        """\
        if now_ms < self._retry_ms or log.failed is not None or not metadata_log.is_durable:
""",
        """\
        if now_ms < self._retry_ms or log.failed is not None:
""",
    ),
    Mutant(
        "snapshot-of-metadata-shares-its-topics",
        "a snapshot of the metadata sees topics that are made while it is written",
        "broker/metadata/image.py",
        """\
        captured.topics = {
            name: TopicInfo(name, topic.topic_id, topic.partitions[:], topic.configs.copy())
            for name, topic in self.topics.items()
        }
""",
        "",
    ),
    Mutant(
        "clean-mark-without-a-sync-of-the-logs",
        "a stop writes its clean mark without flushing the logs",
        "storage/clean_stop.py",
        """\
        job = StopJob(flush.run)
""",
        """\
        job = StopJob(lambda: None)
""",
    ),
)
