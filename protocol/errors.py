"""The errors of the protocol, of two kinds.

`ErrorCode` is the error in a *response*: all codes of Apache Kafka 4.3 (`Errors`), with whether a
client may retry, and a message of our own for the responses that carry one.

`ProtocolError` is raised when a *peer's bytes* allow no response; the connection is closed, except
after a BadRequest::

    ProtocolError
    ├── DecodeError         the bytes are not the message that they claim to be
    ├── UnknownApiKey       a request for an API that does not exist or is not served
    ├── BadRequest          a request that cannot be read, and yet be answered: msgpack's
    ├── UnsupportedVersion  a version of a served API that is not served
    └── FrameTooLarge       a frame whose announced size is out of bounds

    EncodeError (ValueError)  a response cannot be written: our fault, not the peer's

A damaged record batch does not close the connection: see `protocol.record_errors`.
"""

from enum import IntEnum, unique
from typing import Self

from protocol.likely_mistakes import of_size, said


class ProtocolError(Exception):
    """The peer's bytes are no request; its connection is closed, except after a BadRequest."""


class DecodeError(ProtocolError):
    """The bytes are not the message that they claim to be."""


class UnknownApiKey(ProtocolError):
    """The request is for an API that does not exist, or that is not served."""

    def __init__(self, api_key: int, likely: str = "") -> None:
        super().__init__(f"Unknown API key {api_key}{said(likely)}")
        self.api_key = api_key


class UnsupportedVersion(ProtocolError):
    """The request is of a version of its API that is not served."""

    def __init__(self, api_key: int, api_version: int, version_min: int, version_max: int) -> None:
        super().__init__(
            f"Received request api key {api_key} with version {api_version} which is not enabled: "
            f"versions {version_min} to {version_max} are served"
        )
        self.api_key = api_key
        self.api_version = api_version
        self.version_min = version_min
        self.version_max = version_max


class BadRequest(ProtocolError):
    """A request that cannot be read but can be answered; its connection stays open.

    `answer` is the whole frame of that answer, to be sent in the connection's order.
    """

    def __init__(self, correlation_id: int, reason: str, answer: bytes) -> None:
        super().__init__(reason)
        self.correlation_id = correlation_id
        self.answer = answer


class TakesLong(ProtocolError):
    """A frame that would take the loop too long to decode: decode it in a thread."""


class FrameTooLarge(ProtocolError):
    """The announced size of a frame is negative or above socket.request.max.bytes."""

    def __init__(self, size: int, size_max: int) -> None:
        limit = f" larger than {size_max}" if size > size_max else ""
        super().__init__(f"Invalid receive (size = {size}{limit}){said(of_size(size))}")
        self.size = size
        self.size_max = size_max


class EncodeError(ValueError):
    """A message of ours does not fit its declaration: a null, or a number out of range."""


@unique
class ErrorCode(IntEnum):
    """An error code of a response: its number, whether clients may retry, and its meaning.

    Numbers, names and `retriable` are those of Kafka's `Errors` (retriable: its exception is a
    RetriableException). On the wire: never renumber.
    """

    retriable: bool
    message: str

    def __new__(cls, number: int, retriable: bool, message: str) -> Self:  # noqa: FBT001
        """Make one row of the table."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.retriable = retriable
        code.message = message
        return code

    # fmt: off
    UNKNOWN_SERVER_ERROR = -1, False, "The broker met an error that it did not foresee."
    NONE = 0, False, "No error."
    OFFSET_OUT_OF_RANGE = 1, False, "The offset lies outside the range that the partition holds."
    CORRUPT_MESSAGE = 2, True, "The record batch is damaged: its size or its checksum is wrong."
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This broker has no such topic or partition."
    INVALID_FETCH_SIZE = 4, False, "The fetch size is not allowed."
    LEADER_NOT_AVAILABLE = 5, True, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = (
        6, True, "This broker is not the partition's leader, nor a replica of it."
    )
    REQUEST_TIMED_OUT = 7, True, "The time given to the request ran out."
    BROKER_NOT_AVAILABLE = 8, False, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, True, "The replica is not available."
    MESSAGE_TOO_LARGE = 10, False, "The record batch is larger than the topic allows."
    STALE_CONTROLLER_EPOCH = 11, False, "The controller has moved to another broker."
    OFFSET_METADATA_TOO_LARGE = (
        12, False, "The metadata given with the committed offset is too long."
    )
    NETWORK_EXCEPTION = 13, True, "The connection ended before a response came."
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, True, "The coordinator is not available."
    NOT_COORDINATOR = 16, True, "This broker is not the coordinator."
    INVALID_TOPIC_EXCEPTION = (
        17, False, "The topic's name is not allowed, or the topic is not open to this request."
    )
    RECORD_LIST_TOO_LARGE = 18, False, "The record batch is larger than a segment may be."
    NOT_ENOUGH_REPLICAS = 19, True, "Fewer replicas are in sync than the topic requires."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20, True, "The records were written to fewer in-sync replicas than the topic requires."
    )
    INVALID_REQUIRED_ACKS = 21, False, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, False, "The generation is not the group's current one."
    INCONSISTENT_GROUP_PROTOCOL = (
        23, False, "The member's protocols do not go with those of the group."
    )
    INVALID_GROUP_ID = 24, False, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, False, "The group has no such member."
    INVALID_SESSION_TIMEOUT = (
        26, False, "The session timeout lies outside the range that the broker allows."
    )
    REBALANCE_IN_PROGRESS = 27, False, "The group is rebalancing; rejoin it."
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "The commit is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, False, "The topic may not be accessed by this principal."
    GROUP_AUTHORIZATION_FAILED = 30, False, "The group may not be accessed by this principal."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "The cluster may not be accessed by this principal."
    INVALID_TIMESTAMP = 32, False, "The timestamp lies outside the range that the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, False, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = (
        34, False, "This request is not allowed in the current state of SASL authentication."
    )
    UNSUPPORTED_VERSION = 35, False, "This version of the API is not served."
    TOPIC_ALREADY_EXISTS = 36, False, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, False, "The number of partitions is not allowed."
    INVALID_REPLICATION_FACTOR = (
        38, False, "The replication factor is not allowed, or larger than the number of brokers."
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "The assignment of replicas is not allowed."
    INVALID_CONFIG = 40, False, "The configuration is not allowed."
    NOT_CONTROLLER = 41, True, "This broker is not the controller."
    INVALID_REQUEST = 42, False, "The request contradicts itself or breaks a rule of its API."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43, False, "The message format of the log does not support this request."
    )
    POLICY_VIOLATION = 44, False, "A policy of the cluster forbids this."
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45, False, "The producer's sequence number does not follow the one before."
    )
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "The producer's sequence number was used before."
    INVALID_PRODUCER_EPOCH = 47, False, "A producer with a newer epoch has taken over."
    INVALID_TXN_STATE = 48, False, "The transaction is not in a state that allows this."
    INVALID_PRODUCER_ID_MAPPING = (
        49, False, "The producer id is not the one of this transactional id."
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50, False, "The transaction timeout is larger than the broker allows."
    )
    CONCURRENT_TRANSACTIONS = (
        51, True, "The previous transaction of this transactional id is still being completed."
    )
    TRANSACTION_COORDINATOR_FENCED = (
        52, False, "The transaction coordinator that wrote this marker is not the current one."
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53, False, "The transactional id may not be used by this principal."
    )
    SECURITY_DISABLED = 54, False, "Security features are disabled on this broker."
    OPERATION_NOT_ATTEMPTED = (
        55, False, "The operation was not tried, because an earlier one of the request failed."
    )
    KAFKA_STORAGE_ERROR = 56, True, "The log's storage has failed; see the broker's log."
    LOG_DIR_NOT_FOUND = 57, False, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, False, "SASL authentication failed."
    UNKNOWN_PRODUCER_ID = (
        59, False, "The broker does not know this producer id, or has forgotten it."
    )
    REASSIGNMENT_IN_PROGRESS = 60, False, "A reassignment of this partition is under way."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "Delegation tokens are disabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63, False, "The delegation token belongs to another principal."
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64, False, "Delegation token requests are not allowed on this connection."
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65, False, "The delegation token may not be accessed by this principal."
    )
    DELEGATION_TOKEN_EXPIRED = 66, False, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, False, "This type of principal is not supported."
    NON_EMPTY_GROUP = 68, False, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, False, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "There is no such fetch session."
    INVALID_FETCH_SESSION_EPOCH = 71, True, "The epoch is not the next one of the fetch session."
    LISTENER_NOT_FOUND = 72, True, "The leader has no endpoint at the listener that was asked."
    TOPIC_DELETION_DISABLED = 73, False, "Deletion of topics is disabled."
    FENCED_LEADER_EPOCH = 74, True, "The leader epoch in the request is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, True, "The leader epoch in the request is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "The compression type is not supported here."
    STALE_BROKER_EPOCH = 77, False, "The broker's epoch has changed."
    OFFSET_NOT_AVAILABLE = (
        78, True, "The leader's high watermark has not yet caught up after its election."
    )
    MEMBER_ID_REQUIRED = (
        79, False, "Join again, with the member id that was given in this response."
    )
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "The group has as many members as it may have."
    FENCED_INSTANCE_ID = 82, False, "Another member has taken over this static instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "No replica that may become leader is available."
    ELECTION_NOT_NEEDED = 84, True, "The partition's leader needs no election."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "No reassignment of this partition is under way."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "A member of the group subscribes to this topic."
    INVALID_RECORD = 87, False, "The record batch is whole, but what it says is not allowed."
    UNSTABLE_OFFSET_COMMIT = 88, True, "Offsets of an open transaction are not yet settled."
    THROTTLING_QUOTA_EXCEEDED = 89, True, "The quota of the client is used up."
    PRODUCER_FENCED = 90, False, "Another producer with this transactional id has taken over."
    RESOURCE_NOT_FOUND = 91, False, "There is no such resource."
    DUPLICATE_RESOURCE = 92, False, "The resource is named twice, or exists already."
    UNACCEPTABLE_CREDENTIAL = 93, False, "The credential is not acceptable."
    INCONSISTENT_VOTER_SET = 94, False, "The sets of voters differ."
    INVALID_UPDATE_VERSION = 95, False, "The update of the feature is not allowed."
    FEATURE_UPDATE_FAILED = 96, False, "The update of the features failed."
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97, False, "The principal of a forwarded request could not be read."
    )
    SNAPSHOT_NOT_FOUND = 98, False, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, False, "The position lies outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, True, "This broker has no topic of this id."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "A broker of this id is registered already."
    BROKER_ID_NOT_REGISTERED = 102, False, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, True, "The topic id is not the one of the partition's log."
    INCONSISTENT_CLUSTER_ID = 104, False, "The cluster id is not the one of this cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106, True, "The fetch session mixes requests with and without topic ids."
    )
    INELIGIBLE_REPLICA = 107, False, "A replica named for the in-sync set may not be in it."
    NEW_LEADER_ELECTED = 108, False, "The in-sync set was changed, and the leader with it."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = (
        110, False, "The member's epoch was fenced; give up its partitions and join again."
    )
    UNRELEASED_INSTANCE_ID = 111, False, "Another member of the group still holds this instance id."
    UNSUPPORTED_ASSIGNOR = 112, False, "The group does not support this assignor, or its version."
    STALE_MEMBER_EPOCH = (
        113, False, "The member's epoch is old; retry with the one of the next heartbeat."
    )
    MISMATCHED_ENDPOINT_TYPE = 114, False, "The request went to the wrong type of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "This type of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, False, "There is no such controller."
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "The telemetry subscription id is not the current one."
    TELEMETRY_TOO_LARGE = 118, False, "The telemetry push is larger than the broker accepts."
    INVALID_REGISTRATION = 119, False, "The controller did not accept the broker's registration."
    TRANSACTION_ABORTABLE = (
        120, False, "The transaction must be aborted; after that its transactional id may go on."
    )
    INVALID_RECORD_STATE = (
        121, False, "The record is not in a state that allows this acknowledgement."
    )
    SHARE_SESSION_NOT_FOUND = 122, True, "There is no such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, True, "The epoch is not the next one of the share session."
    FENCED_STATE_EPOCH = 124, False, "The epoch of the share group's state is not the current one."
    INVALID_VOTER_KEY = 125, False, "The voter's key is not the one of the replica."
    DUPLICATE_VOTER = 126, False, "The voter is in the set of voters already."
    VOTER_NOT_FOUND = 127, False, "The voter is not in the set of voters."
    INVALID_REGULAR_EXPRESSION = 128, False, "The regular expression cannot be compiled."
    REBOOTSTRAP_REQUIRED = 129, False, "The client's metadata is outdated; it must bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, False, "The topology of the streams group is not allowed."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "The epoch of the topology is not allowed."
    STREAMS_TOPOLOGY_FENCED = 132, False, "The epoch of the topology is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, True, "The broker has as many share sessions as it may have."
    # fmt: on
