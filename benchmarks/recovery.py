"""The speed of recovery over unsynced data: `python -m benchmarks.recovery`.

Writes BYTES of batches of BATCH_BYTES into one log with the recovery point at 0, as a killed broker
leaves them, and opens it, REPEATS times. Prints MiB a second, in total and without the fsync.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import interpreter
from config.topic import TopicConfig
from protocol.record_batch import stamp
from protocol.records import Record, build
from storage.files.os_filesystem import OsFile, OsFileSystem
from storage.log_manager import LogManager, ManagerSettings

MIB = 1024 * 1024
NOW_MS = 1_700_000_000_000


def manager(directory: Path) -> LogManager:
    """Open the directory as a broker does."""
    made = LogManager(
        OsFileSystem(), str(directory), ManagerSettings(random_bytes=os.urandom), lambda: NOW_MS
    )
    made.open()
    return made


def fill(directory: Path, size_bytes: int, batch_bytes: int, producer_id: int) -> None:
    """Append batches up to this size, and leave the log as a crash does."""
    logs = manager(directory)
    log = logs.open_log("t", 0, bytes(16), TopicConfig(), 0, create=True)
    batch = build([Record(0, NOW_MS, None, b"x" * (batch_bytes - 75))])
    if producer_id >= 0:
        batch = build(
            [Record(0, NOW_MS, None, b"x" * (batch_bytes - 75))],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=-1,
        )
    stamp(batch, 0, 0, 0)
    log.append_own(batch, NOW_MS)
    for job, finish in ((log.begin_flush(), log.finish_flush),):
        assert job is not None
        job.run()
        finish(job, None)
    checkpoint = log.begin_checkpoint()  # leader epochs, as a broker has after a second
    assert checkpoint is not None
    checkpoint.run()
    log.finish_checkpoint(checkpoint, None)
    for _ in range(size_bytes // len(batch) - 1):
        log.append_own(batch, NOW_MS)
    logs.abandon()


def main() -> int:
    """Parse, fill and measure."""
    interpreter.announce()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--batch-bytes", type=int, default=1_024)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="barnabas-recovery-"))
    synced = [0.0]
    fdatasync = OsFile.fdatasync

    def timed(file: OsFile) -> None:
        began = time.perf_counter()
        fdatasync(file)
        synced[0] += time.perf_counter() - began

    OsFile.fdatasync = timed  # type: ignore[method-assign,assignment]
    try:
        fill(directory, options.mib * MIB, options.batch_bytes, -1)
        for _ in range(options.repeats):
            (directory / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
            logs = manager(directory)
            synced[0] = 0.0
            began = time.perf_counter()
            log = logs.open_log("t", 0, bytes(16), TopicConfig(), 1)
            seconds = time.perf_counter() - began
            assert log.end_offset > 0
            logs.abandon()
            sys.stdout.write(
                f"{options.mib} MiB in batches of {options.batch_bytes} bytes: {seconds:.3f} s, "
                f"{options.mib / seconds:.0f} MiB/s; without fsync "
                f"{options.mib / (seconds - synced[0]):.0f} MiB/s\n"
            )
    finally:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
