"""The table of error codes against those of two other implementations, and the exceptions' text."""

import warnings

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from protocol.errors import (
    DecodeError,
    EncodeError,
    ErrorCode,
    FrameTooLarge,
    ProtocolError,
    UnknownApiKey,
    UnsupportedVersion,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its schemas use a deprecated interface
    import kafka.errors

# kafka-python keeps older names for these. It also treats a damaged batch as not retriable, but
# Kafka's CorruptRecordException is a RetriableException.
KAFKA_PYTHON_NAMES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UNKNOWN",
    ErrorCode.NONE: "NO_ERROR",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_FOR_PARTITION",
    ErrorCode.MESSAGE_TOO_LARGE: "MESSAGE_SIZE_TOO_LARGE",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "INVALID_TOPIC",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "INVALID_REPLICATION_ASSIGNMENT",
}
KAFKA_PYTHON_RETRIABLE = {ErrorCode.CORRUPT_MESSAGE: False}
KAFKA_PYTHON_LAST = ErrorCode.VOTER_NOT_FOUND


def test_same_as_kio() -> None:
    ours = {(code.value, code.name.lower(), code.retriable) for code in ErrorCode}
    assert ours == {(code.value, code.name, code.retriable) for code in KioErrorCode}


def test_same_as_kafka_python() -> None:
    theirs = {
        error.errno: (error.message, error.retriable)
        for error in vars(kafka.errors).values()
        if isinstance(error, type) and issubclass(error, kafka.errors.BrokerResponseError)
        if error.errno is not None
    }
    ours = {
        code.value: (
            KAFKA_PYTHON_NAMES.get(code, code.name),
            KAFKA_PYTHON_RETRIABLE.get(code, code.retriable),
        )
        for code in ErrorCode
        if code <= KAFKA_PYTHON_LAST
    }
    assert ours == theirs


def test_codes_of_kafka_4_3_without_gaps() -> None:
    assert sorted(ErrorCode) == list(range(-1, 134))


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_messages_are_sentences(code: ErrorCode) -> None:
    assert code.message.endswith(".")
    assert code.message.isascii()
    assert sum(other.message == code.message for other in ErrorCode) == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UnknownApiKey(9999), "Unknown API key 9999"),
        (
            UnsupportedVersion(0, 2, 3, 13),
            (
                "Received request api key 0 with version 2 which is not enabled: "
                "versions 3 to 13 are served"
            ),
        ),
        (FrameTooLarge(-1, 100), "Invalid receive (size = -1)"),
        (FrameTooLarge(101, 100), "Invalid receive (size = 101 larger than 100)"),
    ],
)
def test_text_of_errors(error: ProtocolError, text: str) -> None:
    assert str(error) == text
    assert isinstance(error, ProtocolError)


def test_an_encode_error_is_no_fault_of_the_peer() -> None:
    assert not issubclass(EncodeError, ProtocolError)
    assert issubclass(DecodeError, ProtocolError)
