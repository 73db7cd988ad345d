"""Work on the loop that belongs into a thread, or in steps: other clients wait meanwhile."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "records-checked-on-the-loop",
        "the records of a batch for a compacted topic are checked on the loop, however many",
        "broker/handlers/produce.py",
        """\
            if prepare is not None and not partition.queue and progress.may_open_here(records):
""",
        """\
            if prepare is not None and not partition.queue:
""",
    ),
    Mutant(
        "compressed-records-opened-on-the-loop",
        "the loop opens small batches even if they are compressed",
        "broker/partitions/preparation.py",
        """\
    return len(batch) <= bytes_left and (len(batch) < HEADER_SIZE or _codec_of(batch) == NONE)
""",
        """\
    return len(batch) <= bytes_left
""",
    ),
    Mutant(
        "answers-of-records-encoded-on-the-loop",
        "the loop opens the records that a fetch in maps answers with",
        "broker/dispatch.py",
        """\
        if header.opens_records and header.wants_thread(response):
""",
        """\
        if False:
""",
        only_with=frozenset({"msgpack fetcher"}),
    ),
    Mutant(
        "cold-bytes-read-on-the-loop",
        "a fetch waits on the loop for bytes that are not in memory",
        "broker/partitions/fetch_reading.py",
        """\
        if self._pulled.starts_left:
            with without_waiting(self._pulled):
                response = self._read()
        else:
            response = self._read()
""",
        """\
        response = self._read()
""",
        (
            (
                "broker/partitions/fetch_asked.py",
                """\
                with without_waiting(NOTHING):
                    available = log.available_bytes(offset, limit)
""",
                """\
                available = log.available_bytes(offset, limit)
""",
            ),
        ),
    ),
    Mutant(
        "topics-deleted-on-the-loop",
        "the directories of a deleted topic are renamed and synced on the loop",
        "broker/topic_logs.py",
        """\
                await self._pool.run(deletion.run)
""",
        """\
                deletion.run()
""",
    ),
    Mutant(
        "logs-opened-on-the-loop",
        "the logs of a new topic are made and opened on the loop",
        "broker/topic_logs.py",
        """\
            await self._pool.run(opening.make)
""",
        """\
            opening.make()
""",
    ),
    Mutant(
        "trash-removed-on-the-loop",
        "deleted files are unlinked on the loop",
        "broker/maintenance/housekeeping.py",
        """\
            await self._services.pool.run(purge.run)
""",
        """\
            purge.run()
""",
    ),
    Mutant(
        "snapshot-of-metadata-on-the-loop",
        "a snapshot of the metadata is written on the loop",
        "broker/maintenance/housekeeping.py",
        """\
                await pool.run(snapshot.run)
""",
        """\
                snapshot.run()
""",
    ),
    Mutant(
        "end-of-log-loaded-on-the-loop",
        "the first append to a log after the start waits on the loop for the log's last batches",
        "broker/partitions/append_queue.py",
        """\
        return not (partition.queue or self._must_wait(partition)) and (
            partition.log.is_end_loaded or self._load_end(partition)
        )
""",
        """\
        return not (partition.queue or self._must_wait(partition))
""",
    ),
)
