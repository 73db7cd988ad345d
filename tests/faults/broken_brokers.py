"""Brokers with one promise broken on purpose; the harness must detect each of them.

A promise is broken in the broker's own process (`tests.faults.faulty_broker`). Those of
transactions are in `tests.faults.broken_transactions`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from broker.groups.group_log import GroupLog
from broker.metadata import controller
from broker.metadata_changes import MetadataChanges
from broker.partitions.group_commit import GroupCommit
from broker.produce_progress import ProduceProgress
from protocol.errors import ErrorCode
from protocol.record_batch import read_header
from storage import offset_checkpoints
from storage.clean_stop import Steps
from storage.files import filenames
from storage.flush import Flush
from storage.log import Log
from storage.log_manager import LogManager
from storage.opening import log_loading, producer_replay, recovery
from storage.producers.producer_state import ProducerState
from tests.faults import broken_transactions
from tests.faults.failpoints import DATA_LOG, GROUP_LOG, Crash
from tests.faults.variant import LOSS, Variant

# The time between an append and its fsync, long enough that a crash falls into it.
SLOW_FSYNC = f"delay:60 before fdatasync {DATA_LOG} 1+"


def _acknowledge_before_fsync() -> None:
    wait = GroupCommit.wait

    def hasty(
        self: GroupCommit, partition: Any, end: int, timeout_ms: int, answer: Any, **more: bool
    ) -> None:
        answer(ErrorCode.NONE)
        wait(self, partition, end, timeout_ms, lambda _code: None, **more)

    GroupCommit.wait = hasty  # type: ignore[method-assign]


def _acknowledge_commits_before_fsync() -> None:
    GroupLog.when_durable = lambda _self, _number, _end, done: done(ErrorCode.NONE)  # type: ignore[method-assign]


def _skip_deduplication() -> None:
    ProducerState.check = lambda _self, _header: None  # type: ignore[method-assign]


def _forget_producers() -> None:
    producer_replay.take_producer = lambda *_: None  # type: ignore[assignment]
    ProducerState.replace = lambda *_: None  # type: ignore[method-assign]


def _truncate_at_the_first_bad_crc() -> None:
    recover = log_loading.recover

    def eager(home: Any, segments: Any, _point: int, *rest: Any) -> Any:
        return recover(home, segments, segments[0].base_offset, *rest)

    log_loading.recover = eager


def _retry_a_failed_fsync() -> None:
    run = Flush.run

    def stubborn(self: Flush) -> None:
        try:
            run(self)
        except OSError:
            run(self)

    Flush.run = stubborn  # type: ignore[method-assign]


def _show_what_is_not_durable() -> None:
    write = Log._write

    def early(self: Log, *arguments: Any) -> int:
        base_offset = write(self, *arguments)
        self.high_watermark = self.end_offset
        return base_offset

    Log._write = early  # type: ignore[method-assign]


def _reissue_producer_ids() -> None:
    blocks = itertools.count(0, controller.PRODUCER_IDS_PER_BLOCK)
    reserve = controller.Controller.next_producer_id_block

    def anew(self: controller.Controller, now_ms: int) -> Any:
        return replace(reserve(self, now_ms), start=next(blocks))

    controller.Controller.next_producer_id_block = anew  # type: ignore[method-assign]


def _forget_the_log_start() -> None:
    write = offset_checkpoints.write_offsets

    def forgetful(filesystem: Any, path: str, offsets: Any) -> None:
        if not path.endswith(filenames.LOG_START_CHECKPOINT):
            write(filesystem, path, offsets)

    offset_checkpoints.write_offsets = forgetful


def _mark_clean_before_the_flush() -> None:
    def hasty(
        self: LogManager, *, clean: bool, are_decided: bool = False, broker_epoch: int = -1
    ) -> Steps:
        for log in self.all():
            log.recovery_point = log.end_offset
        self.home.checkpoint_changes += 1
        self.write_checkpoints()
        self.directory.write_clean_mark(broker_epoch)
        self.abandon()
        yield ()
        return clean

    async def drained(self: GroupCommit) -> None:
        self._schedule = lambda *_, **__: None  # type: ignore[method-assign, assignment]
        self._due.clear()
        while self.is_flushing:
            self._idle.clear()
            await self._idle.wait()

    GroupCommit.drained = drained  # type: ignore[method-assign]
    LogManager.closing = hasty  # type: ignore[method-assign]


def _believe_every_crc() -> None:
    recovery.verified_run = lambda *_: []
    recovery.verify_any = read_header  # type: ignore[assignment]


def _answer_the_next_offset() -> None:
    appended = ProduceProgress.appended

    def off_by_one(self: ProduceProgress, partition: Any, answer: Any, result: Any) -> None:
        appended(self, partition, answer, result)
        answer.base_offset += 1

    ProduceProgress.appended = off_by_one  # type: ignore[method-assign]


def _do_not_wait_for_metadata() -> None:
    async def at_once(*_: Any) -> None:
        return

    MetadataChanges.durable = at_once  # type: ignore[method-assign]


def _forget_acknowledged_pages() -> None:
    """Keep a log's last batches in the process and serve acks=1 from there, not the page cache."""
    from storage.files.os_filesystem import OsFile
    from tests.faults.faulty_filesystem import FaultyFile

    def late(self: FaultyFile, buffer: Any, position: int) -> None:
        self.writes += 1
        if self.path.endswith(".log") and "metadata" not in self.path:
            held.setdefault(self.path, []).append((bytes(buffer), position))
        else:
            OsFile.pwrite(self, buffer, position)

    def sync(self: FaultyFile) -> None:
        for data, position in held.pop(self.path, []):
            OsFile.pwrite(self, data, position)
        OsFile.fdatasync(self)

    held: dict[str, list[tuple[bytes, int]]] = {}
    FaultyFile.pwrite = late  # type: ignore[assignment]
    FaultyFile.fdatasync = sync  # type: ignore[method-assign]


POWER = Crash("power", "power", serving=[SLOW_FSYNC])
KILL = Crash("kill")

VARIANTS = {
    "acknowledge-before-fsync": Variant(_acknowledge_before_fsync, "power", [POWER]),
    "acknowledge-commits-before-fsync": Variant(
        _acknowledge_commits_before_fsync,
        "power",
        [Crash("power", "power", serving=[f"delay:60 before fdatasync {GROUP_LOG} 1+"])],
        frozenset({"H4"}),
    ),
    "skip-deduplication": Variant(
        _skip_deduplication, "kill", [KILL], frozenset({"duplicate", "inconsistent-offsets"})
    ),
    "forget-producers": Variant(_forget_producers, "kill", [KILL], frozenset({"duplicate"})),
    "truncate-at-the-first-bad-crc": Variant(
        _truncate_at_the_first_bad_crc, "kill", [KILL, Crash("flip", "flip")], LOSS
    ),
    "retry-a-failed-fsync": Variant(
        _retry_a_failed_fsync,
        "power",
        [Crash("eio, power", "power", serving=[f"eio before fdatasync {DATA_LOG} 20"])],
    ),
    "show-what-is-not-durable": Variant(_show_what_is_not_durable, "power", [POWER]),
    "reissue-producer-ids": Variant(_reissue_producer_ids, "kill", [KILL], frozenset({"H6"})),
    "forget-the-log-start": Variant(_forget_the_log_start, "kill", [KILL], frozenset({"H4"})),
    "mark-clean-before-the-flush": Variant(
        _mark_clean_before_the_flush,
        "power",
        [Crash("stop", "stop", serving=[SLOW_FSYNC], power_after=True)],
        LOSS | {"H2", "H4", "H8"},
    ),
    "believe-every-crc": Variant(
        _believe_every_crc,
        "kill",
        [Crash("torn", serving=[f"kill half pwrite {DATA_LOG} 30"])],
        LOSS | {"H1", "H2"},
    ),
    "answer-the-next-offset": Variant(_answer_the_next_offset, "kill", [KILL]),
    "do-not-wait-for-metadata": Variant(
        _do_not_wait_for_metadata,
        "power",
        [Crash("power", "power", serving=["delay:100 before fdatasync *metadata*.log 1+"])],
        LOSS | {"lost-topic", "H6"},
    ),
    "forget-acknowledged-pages": Variant(_forget_acknowledged_pages, "kill", [KILL]),
    **broken_transactions.VARIANTS,
}
