"""Every error that storage and records can raise has a code of its own choosing."""

import pytest

import protocol.record_errors
import storage.errors
from broker.error_mapping import (
    ERROR_CODES,
    code_of_failed_log,
    code_of_failed_read,
    error_code_of,
)
from broker.metadata.topic_rules import TopicError
from protocol.errors import ErrorCode
from protocol.record_errors import InvalidRecord, RecordError
from storage.errors import AppendFailed, LogFailed, OffsetOutOfRange, StorageError
from tests.support.log_house import House


def family(base: type[Exception]) -> list[type[Exception]]:
    found = []
    for kind in base.__subclasses__():
        found += [kind, *family(kind)]
    return found


@pytest.mark.parametrize(
    "kind",
    [*family(StorageError), *family(RecordError)],
    ids=lambda kind: kind.__name__,
)
def test_every_type_is_covered_by_more_than_its_base(kind: type[Exception]) -> None:
    bases = {StorageError, RecordError}
    assert any(parent in ERROR_CODES and parent not in bases for parent in kind.__mro__)


def test_families_are_whole() -> None:
    assert len(family(StorageError)) > 8, storage.errors
    assert len(family(RecordError)) > 3, protocol.record_errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OffsetOutOfRange(9, 0, 5), ErrorCode.OFFSET_OUT_OF_RANGE),
        (InvalidRecord("x"), ErrorCode.INVALID_RECORD),
        (
            AppendFailed("p", 0, OSError(28, "No space left"), rolled_back=True),
            ErrorCode.KAFKA_STORAGE_ERROR,
        ),
        (OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR),
        (TopicError(ErrorCode.INVALID_PARTITIONS, "0"), ErrorCode.INVALID_PARTITIONS),
        (ZeroDivisionError(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_codes(error: Exception, code: ErrorCode) -> None:
    assert error_code_of(error) is code


def test_a_read_of_a_log_that_is_closed_meanwhile() -> None:
    """Its topic is deleted, and the disk is sound."""
    house = House()
    house.open()
    log = house.log()
    moved = LogFailed("p", "cannot be opened: [Errno 2] No such file or directory")
    assert code_of_failed_read(log, moved) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of_failed_log(log) is ErrorCode.KAFKA_STORAGE_ERROR
    house.delete_log("t", 0)
    assert code_of_failed_read(log, moved) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of_failed_log(log) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of_failed_read(log, ZeroDivisionError()) is ErrorCode.UNKNOWN_SERVER_ERROR
