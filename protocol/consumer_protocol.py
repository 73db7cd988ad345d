"""The messages between consumers inside JoinGroup and SyncGroup: the protocol type "consumer".

To a broker the members of a classic group exchange bytes: each puts a subscription into JoinGroup's
`metadata`, the leader an assignment for each member into SyncGroup's. For consumers these bytes are
a version (int16) and the body of that version::

    subscription   topics, user data, and from 1 on what the member still owns, from 2 on the
                   generation in which it got it, from 3 on its rack
    assignment     partitions by topic, and user data of the assignor

Readers read an unknown later version as the newest they know, and ignore the bytes behind it: later
versions may only add fields. A broker reads these bytes when it has to mix members of both
protocols in one group (KIP-848), and in descriptions of groups; a client writes and reads them.

Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json and
org.apache.kafka.clients.consumer.internals.ConsumerProtocol, Apache Kafka 4.3. KIP-429 (1),
KIP-792 (2), KIP-881 (3).
"""

import struct
from dataclasses import field
from typing import Annotated, Any, Final, TypeVar

from protocol.errors import DecodeError
from protocol.kafka.codec import decode_message, encode_message
from protocol.wire import Buffer, Bytes, Int32, Nullable, Since, String, message, structure

PROTOCOL_TYPE: Final = "consumer"
VERSION_MAX: Final = 3

_VERSION: Final = struct.Struct(">h")

_Body = TypeVar("_Body")


@structure
class TopicPartition:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32] = field(default_factory=list)


@message(api_key=-1, kind="data", versions=(0, VERSION_MAX), flexible_since=None)
@structure
class ConsumerProtocolSubscription:
    """The topics a member subscribes to; `generation_id` is -1 if it never had an assignment."""

    topics: list[String] = field(default_factory=list)
    user_data: Annotated[Bytes | None, Nullable()] = None
    owned_partitions: Annotated[list[TopicPartition], Since(1)] = field(default_factory=list)
    generation_id: Annotated[Int32, Since(2)] = -1
    rack_id: Annotated[String | None, Since(3), Nullable(since=3)] = None


@message(api_key=-1, kind="data", versions=(0, VERSION_MAX), flexible_since=None)
@structure
class ConsumerProtocolAssignment:
    """The partitions assigned to a member. All versions are alike."""

    assigned_partitions: list[TopicPartition] = field(default_factory=list)
    user_data: Annotated[Bytes | None, Nullable()] = None


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = 3) -> bytes:
    """Return the bytes for JoinGroup's `metadata`, in `version` (Kafka's consumers write 3)."""
    return _encode(subscription, version)


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Read what `encode_subscription` of any version wrote; DecodeError if it is anything else."""
    return _decode(ConsumerProtocolSubscription, data)


def decode_subscribed_topics(data: Buffer) -> list[str]:
    """Return the topics of a subscription of any version; DecodeError if there are none to read.

    Kafka's broker looks into classic members' subscriptions as version 0, with which every version
    begins. So clients whose later fields are missing or of their own are understood.
    """
    version_of(data)
    subscription: ConsumerProtocolSubscription
    subscription, _end = decode_message(ConsumerProtocolSubscription, 0, data, _VERSION.size)
    return subscription.topics


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = 3) -> bytes:
    """Return the bytes for SyncGroup's `assignment`, in `version` (Kafka's consumers write 3)."""
    return _encode(assignment, version)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """Read what `encode_assignment` of any version wrote; DecodeError if it is anything else."""
    return _decode(ConsumerProtocolAssignment, data)


def version_of(data: Buffer) -> int:
    """Return the version to decode `data` in, and to answer it in.

    Raises DecodeError.
    """
    if len(data) < _VERSION.size:
        raise DecodeError(f"{len(data)} bytes of a consumer's protocol: its version alone takes 2")
    version: int
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"version {version} of a consumer's protocol: the first is 0")
    return min(version, VERSION_MAX)


def _encode(body: Any, version: int) -> bytes:
    return _VERSION.pack(version) + encode_message(body, version)


def _decode(cls: type[_Body], data: Buffer) -> _Body:
    body: _Body
    body, _end = decode_message(cls, version_of(data), data, _VERSION.size)
    return body
