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
    UnknownPartition,
)

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


def error_code_of(error: Exception) -> ErrorCode:
    """Return the code for `error`; UNKNOWN_SERVER_ERROR if it is unexpected."""
    if isinstance(error, TopicError):
        return error.code
    for kind in type(error).__mro__:
        code = ERROR_CODES.get(kind)
        if code is not None:
            return code
    return ErrorCode.UNKNOWN_SERVER_ERROR
