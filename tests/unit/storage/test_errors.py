"""Errors say found, expected and where, and their family is what the edge maps by."""

from __future__ import annotations

import errno
import inspect

import pytest

from storage import errors

CASES = [
    (errors.OffsetOutOfRange(7, 10, 20), ["7", "10 to 20"]),
    (errors.UnknownPartition("t", 3), ["t-3"]),
    (errors.BatchTooLarge(9, 8), ["9 bytes", "8", "segment.bytes"]),
    (errors.InvalidTimestamp(9, 1, 5), ["9 ms", "1 to 5", "message.timestamp.after.max.ms"]),
    (errors.OutOfOrderSequence(44, 9, 7), ["producer 44", "9", "expected 7"]),
    (errors.InvalidProducerEpoch(44, 1, 2), ["producer 44", "epoch 1", "2"]),
    (errors.NoTransaction(44), ["producer 44", "transaction"]),
    (errors.TransactionOpen(45, 17), ["producer 45", "offset 17", "expected"]),
    (errors.CoordinatorFenced(46, 2, 3), ["producer 46", "epoch 2", "3"]),
    (errors.ProducerInDoubt(44, 9, 7), ["producer 44", "sequence 9", "offset 7", "new epoch"]),
    (errors.AppendTimedOut("/d/t-0"), ["/d/t-0", "timeout", "nothing was appended"]),
    (errors.LogFailed("/d/x.log", "fsync failed"), ["/d/x.log", "fsync failed"]),
    (
        errors.AppendFailed("/d/x.log", 5, OSError(errno.EIO, "I/O"), rolled_back=True),
        ["/d/x.log", "position 5", "I/O", "cut back"],
    ),
    (
        errors.DamagedLog("/d/x.log", 5, 6, found="magic 1", wanted="2"),
        ["/d/x.log", "position 5", "offset 6", "magic 1", "expected 2"],
    ),
    (errors.DirectoryLocked("/d/.lock"), ["Failed to acquire lock on file .lock in /d", "Stop it"]),
    (errors.CorruptMetadata("/d/m", "empty"), ["/d/m", "empty"]),
    (errors.CheckpointError("/d/c", "line 3"), ["/d/c", "line 3"]),
]


@pytest.mark.parametrize(("error", "parts"), CASES)
def test_texts(error: errors.StorageError, parts: list[str]) -> None:
    for part in parts:
        assert part in str(error)


def test_the_table_above_has_every_class() -> None:
    classes = {c for _, c in inspect.getmembers(errors, inspect.isclass)
               if issubclass(c, errors.StorageError)}  # fmt: skip
    assert classes - {errors.StorageError} == {type(error) for error, _ in CASES}


def test_errors_of_a_failed_disk_are_one_family() -> None:
    assert issubclass(errors.AppendFailed, errors.LogFailed)
    assert issubclass(errors.DamagedLog, errors.LogFailed)
    assert not issubclass(errors.OffsetOutOfRange, errors.LogFailed)
