"""Acknowledged, then gone or wrong: defects that the broker once had."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "half-a-roll",
        "an error of writing the indexes ends a roll half done: the new segment's files exist,"
        " and the log goes on in the old one",
        "storage/rolling.py",
        """\
    state.segments.push(new)
    state.producers.end_offset = new.base_offset
    try:
        old.on_roll()
    except (OSError, LogFailed) as error:
        # Indexes are caches: entries that are not written stay in memory.
        if not (isinstance(error, OSError) and home.room.note(error)):
            _log.warning(
                "Could not write the indexes of %(file)s at its roll: %(error)s",
                {"file": old, "error": error},
            )
""",
        """\
    try:
        old.on_roll()
    except (OSError, LogFailed) as error:
        raise LogFailed(state.directory, f"cannot roll: {error}") from error
    state.segments.push(new)
    state.producers.end_offset = new.base_offset
""",
    ),
    Mutant(
        "flush-forgets-a-mended-segment",
        "a flush leaves out a rolled segment whose indexes a checkpoint has rebuilt since",
        "storage/checkpointing.py",
        """\
            state.segments.replace(checkpoint.mended)
""",
        """\
            state.segments.replace(checkpoint.mended)
            state.unsynced.files = [
                file
                for file in state.unsynced.files
                if file.path != checkpoint.mended.log_file.path
            ]
""",
    ),
    Mutant(
        "late-metadata-is-given-up",
        "a change of topics whose fsync takes longer than its client waits is left half done",
        "broker/metadata_changes.py",
        """\
            raise too_late()
        if (error := task.result()) is not None:
""",
        """\
            task.cancel()
            raise too_late()
        if (error := task.result()) is not None:
""",
    ),
    Mutant(
        "checkpoint-writes-into-the-successor",
        "the checkpoint of a deleted log writes into the log that has its name now",
        "storage/checkpointing.py",
        """\
            if is_ours:
                self._write_by_name()
""",
        """\
            self._write_by_name()
""",
        only_with=frozenset({"deleter"}),
    ),
    Mutant(
        "second-opening-forgets-the-directory",
        "a log that is opened at the second attempt never has its directory's name synced",
        "storage/opening/log_opening.py",
        """\
            if attempt.is_unsynced:
                self._unsynced.add(key)
""",
        "",
        only_with=frozenset({"late opening"}),
    ),
    Mutant(
        "dirty-files-are-evicted",
        "a file with writes that no fsync has covered leaves the table of open files, and the"
        " next flush leaves it out",
        "storage/files/open_files.py",
        """\
            if file.dirty or file.recent:
""",
        """\
            if file.recent:
""",
        (
            (
                "storage/segments/log_file.py",
                """\
        file, self._unsynced = self._unsynced, None
        return file
""",
                """\
        file, self._unsynced = self._files.peek(self.path), None
        return file if file is not None and file.dirty else None
""",
            ),
        ),
    ),
    Mutant(
        "groups-of-all-partitions-in-one-registry",
        "all partitions of __consumer_offsets are loaded into one registry, in the order of their"
        " numbers: after the topic has grown, an older commit wins over a newer one",
        "broker/groups/loading.py",
        """\
    registry = Registry()
    replayer""",
        """\
    registry = shard.registry
    replayer""",
        (
            (
                "broker/groups/coordinator.py",
                """\
        self._shards = [Shard(number) for number in range(self.log.count())]
""",
                """\
        self._shards = [Shard(number) for number in range(self.log.count())]
        for shard in self._shards:
            shard.registry = self._shards[0].registry
""",
            ),
            (
                "broker/groups/replay.py",
                """\
            self.elsewhere_count += 1
            return
""",
                """\
            self.elsewhere_count += 1
""",
            ),
        ),
    ),
    Mutant(
        "index-takes-what-does-not-fit",
        "an index entry of a damaged base offset does not fit its columns: checkpoints of the log"
        " fail from then on",
        "storage/segments/offset_index.py",
        """\
        if relative > RELATIVE_OFFSET_MAX or position > POSITION_MAX:
            return
""",
        "",
        (
            (
                "storage/segments/time_index.py",
                """\
        if timestamp <= last[0] or not last[1] < relative <= RELATIVE_OFFSET_MAX:
""",
                """\
        if timestamp <= last[0] or not last[1] < relative:
""",
            ),
        ),
        only_with=frozenset({"flip"}),
    ),
    Mutant(
        "second-signal-ends-without-the-disk",
        "a second signal during a stop ends the broker without a clean shutdown",
        "broker/lifecycle/stop_signals.py",
        """\
            self.hurry.set()
""",
        """\
            self.hurry.set()
            self.force.set()
""",
    ),
    Mutant(
        "unclean-stop-says-clean",
        "a stop that could not write everything exits with 0",
        "broker/lifecycle/shutdown.py",
        """\
        return EXIT_CLEAN if is_clean else EXIT_FAILED
""",
        """\
        return EXIT_CLEAN
""",
    ),
    Mutant(
        "lost-snapshot-is-not-replayed",
        "after a clean stop whose producer snapshot is lost, producers are not replayed",
        "storage/opening/log_loading.py",
        """\
        producer_replay.replay(segments, producers, end_offset, self.now_ms, self.report)
""",
        "",
        only_with=frozenset({"prudent producer"}),
    ),
    Mutant(
        "offsets-of-a-deleted-topic-survive-loading",
        "a topic that is deleted while its groups are loaded keeps its committed offsets, which a"
        " new topic of that name then has",
        "broker/groups/forgetting.py",
        """\
        elif shard.state is not ShardState.REFUSED:
            shard.deleted_topics.add(name)
""",
        "",
    ),
    Mutant(
        "offset-of-a-deleted-topic-under-the-new-id",
        "an OffsetFetch of all topics gives an offset of a deleted topic the id of its successor",
        "broker/groups/commits.py",
        """\
            elif committed.is_of(topic_id):  # else a deleted topic of that name had it
                answer.partitions.append(_answer(number, committed))
""",
        """\
            else:
                answer.partitions.append(_answer(number, committed))
""",
        only_with=frozenset({"topic made anew"}),
    ),
    Mutant(
        "offsets-of-deleted-topics-stay",
        "committed offsets outlive their topic",
        "broker/groups/coordinator.py",
        """\
                self._deleted_topics.forget(shard, name)
""",
        """\
                pass
""",
        only_with=frozenset({"topic made anew"}),
    ),
)
