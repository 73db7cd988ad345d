"""The error code that clients see for each exception of storage and records: one table.

A type covers its subclasses; the nearest type wins. `tests/unit/broker/test_error_mapping.py`
checks that every type of both families has more than the base as its cover.
"""

from __future__ import annotations

from broker.metadata.topic_rules import TopicError
from broker.runtime.record_work import WalkAbandoned
from broker.runtime.steps import AnswerTooLarge
from protocol.errors import ErrorCode
from protocol.record_errors import (
    CorruptBatch,
    DecompressedTooLarge,
    InvalidRecord,
    RecordBatchTooLarge,
    RecordError,
    RecordsWithoutKey,
    TooManyRecords,
    UnsupportedCompression,
)
from storage.errors import (
    AppendTimedOut,
    BatchTooLarge,
    CheckpointError,
    CoordinatorFenced,
    CorruptMetadata,
    DirectoryLocked,
    InvalidProducerEpoch,
    InvalidTimestamp,
    LogFailed,
    NoTransaction,
    OffsetOutOfRange,
    OutOfOrderSequence,
    ProducerInDoubt,
    StorageError,
    TransactionOpen,
    UnknownPartition,
)
from storage.log import Log


class BatchRefused(Exception):
    """A batch may not be appended, at its turn; `code` is what its client sees."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.message)
        self.code = code


ERROR_CODES: dict[type[Exception], ErrorCode] = {
    AnswerTooLarge: ErrorCode.INVALID_REQUEST,  # final: a retry would get the same
    CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    InvalidRecord: ErrorCode.INVALID_RECORD,
    RecordsWithoutKey: ErrorCode.INVALID_RECORD,
    UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    DecompressedTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    TooManyRecords: ErrorCode.MESSAGE_TOO_LARGE,
    RecordBatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    RecordError: ErrorCode.CORRUPT_MESSAGE,
    OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    UnknownPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    BatchTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    NoTransaction: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,  # tried: Kafka's answer
    TransactionOpen: ErrorCode.INVALID_TXN_STATE,
    CoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    AppendTimedOut: ErrorCode.REQUEST_TIMED_OUT,
    ProducerInDoubt: ErrorCode.KAFKA_STORAGE_ERROR,
    LogFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    DirectoryLocked: ErrorCode.KAFKA_STORAGE_ERROR,
    CorruptMetadata: ErrorCode.KAFKA_STORAGE_ERROR,
    CheckpointError: ErrorCode.KAFKA_STORAGE_ERROR,
    StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
    WalkAbandoned: ErrorCode.REQUEST_TIMED_OUT,  # retriable
}


def code_of_failed_read(log: Log, error: Exception) -> ErrorCode:
    """Return the code for `error` of a read that was under way while its topic may be deleted."""
    if log.is_closed and isinstance(error, StorageError | OSError):
        return code_of_failed_log(log)
    return error_code_of(error)


def code_of_failed_log(log: Log) -> ErrorCode:
    """Return the code for requests to a log that has failed or, with its topic, is deleted."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if log.is_closed else ErrorCode.KAFKA_STORAGE_ERROR


def error_code_of(error: Exception) -> ErrorCode:
    """Return the code for `error`; UNKNOWN_SERVER_ERROR if it is unexpected."""
    if isinstance(error, TopicError | BatchRefused):
        return error.code
    for kind in type(error).__mro__:
        code = ERROR_CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
