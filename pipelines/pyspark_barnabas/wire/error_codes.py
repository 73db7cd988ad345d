"""Kafka's error codes: their names, and what each means for whoever sent the request.

A code that another try may clear is raised as Retriable, which `Cluster.persist` catches; any other
is final and raised as BrokerRefused.
"""

from __future__ import annotations

from typing import Final

from pyspark_barnabas.wire.errors import BrokerRefused

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER = 1, 3, 5, 6
ERRORS: Final = {
    -1: "UNKNOWN_SERVER_ERROR", 1: "OFFSET_OUT_OF_RANGE", 2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION", 5: "LEADER_NOT_AVAILABLE", 6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT", 9: "REPLICA_NOT_AVAILABLE", 10: "MESSAGE_TOO_LARGE",
    13: "NETWORK_EXCEPTION", 14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE", 16: "NOT_COORDINATOR",
    17: "INVALID_TOPIC_EXCEPTION", 18: "RECORD_LIST_TOO_LARGE",
    19: "NOT_ENOUGH_REPLICAS", 20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    29: "TOPIC_AUTHORIZATION_FAILED", 32: "INVALID_TIMESTAMP", 35: "UNSUPPORTED_VERSION",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER", 46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH", 48: "INVALID_TXN_STATE", 49: "INVALID_PRODUCER_ID_MAPPING",
    50: "INVALID_TRANSACTION_TIMEOUT", 51: "CONCURRENT_TRANSACTIONS",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 55: "OPERATION_NOT_ATTEMPTED",
    56: "KAFKA_STORAGE_ERROR", 74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH", 78: "OFFSET_NOT_AVAILABLE", 87: "INVALID_RECORD",
    89: "THROTTLING_QUOTA_EXCEEDED", 90: "PRODUCER_FENCED",
    105: "TRANSACTIONAL_ID_NOT_FOUND", 120: "TRANSACTION_ABORTABLE",
}  # fmt: skip
# A coordinator is loading, unavailable, or another broker: all of that passes.
COORDINATOR_PASSING: Final = frozenset({14, 15, 16})
CONCURRENT_TRANSACTIONS: Final = 51  # the one before is being ended
RETRIABLE: Final = frozenset({5, 6, 7, 9, 13, 19, 20, 56, 74, 75, 78, 89})


class Retriable(Exception):
    """A failure that another try may clear; the text says what failed."""


def error_name(code: int) -> str:
    """Return Kafka's name for an error code."""
    return ERRORS.get(code, f"error code {code}")


def check(code: int, what: str, said: str = "") -> None:
    """Return if `code` is 0; raise Retriable if another try may help, else BrokerRefused.

    `what` was being done, and `said` is the broker's own message, if it sent one.
    """
    if code == 0:
        return
    text = f"{what}: the broker answers {error_name(code)}{f' ({said})' if said else ''}"
    if code in RETRIABLE:
        raise Retriable(text)
    raise BrokerRefused(code, text)


def check_partition(code: int, what: str, said: str = "") -> None:
    """As `check`, for the answer of a partition's leader.

    A leader that does not know a partition may not have created it yet, or no longer have it: new
    metadata tell.
    """
    if code == UNKNOWN_TOPIC:
        raise Retriable(f"{what}: the broker answers {error_name(code)}")
    check(code, what, said)
