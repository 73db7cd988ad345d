"""Resolves subscriptions to existing topics: names and regular expressions, and their digest.

The broker resolves regular expressions (KIP-848) to the topics whose whole name matches. It uses
RE2, whose time is linear in the name (decision 0072). The group's log keeps the result, so that all
members see the same topics.

`metadata_hash` is a digest of the topics a group reads, with their ids and partition counts. When
it changes, the group needs new targets. Kafka's digest differs: a broker that takes over the
other's directory finds another hash, and computes the targets once more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.errors import GroupError
from broker.metadata.image import TopicInfo
from broker.runtime.expressions import whole_matcher
from broker.topics import Topics
from protocol.errors import ErrorCode

NO_HASH = 0


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched when it was last resolved."""

    topics: frozenset[str]
    timestamp_ms: int


class MemberSubscription(NamedTuple):
    """What a member subscribes to: names of topics, and an expression, which may be empty."""

    names: frozenset[str]
    regex: str


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for whole names. Raises GroupError for an invalid expression."""
    try:
        return whole_matcher(pattern)
    except ValueError as error:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from error


def resolve(
    pattern: str,
    topics: Topics,
    now_ms: int,
    may_describe: Callable[[str], bool] | None = None,
) -> ResolvedRegex:
    """Return the topics that `pattern` matches. Raises GroupError for an invalid expression.

    As in Kafka, a group's expression matches what the member may describe that has it resolved: the
    first to use it, or the first to send a heartbeat after topics or ACLs have changed. Kafka looks
    at changed ACLs within group.consumer.regex.refresh.interval.ms, or when topics change.
    """
    matches = matcher(pattern)
    names = (topic.name for topic in topics.all() if matches(topic.name))
    return ResolvedRegex(frozenset(filter(may_describe, names)), now_ms)


def topic_names(
    member: ConsumerGroupMember, regexes: Mapping[str, ResolvedRegex]
) -> frozenset[str]:
    """Return the topics a member subscribes to; an unresolved expression matches none."""
    resolved = regexes.get(member.topic_regex)
    return member.topic_names if resolved is None else member.topic_names | resolved.topics


def topic_sets(
    subscriptions: Collection[MemberSubscription], regexes: Mapping[str, ResolvedRegex]
) -> Iterator[frozenset[str]]:
    """Yield the sets of topics that together are what `subscriptions` read."""
    for regex in dict.fromkeys(one.regex for one in subscriptions):
        if (resolved := regexes.get(regex)) is not None:
            yield resolved.topics
    for one in subscriptions:
        yield one.names


def existing(names: Iterable[str], topics: Topics) -> list[TopicInfo]:
    """Return the topics that exist, sorted by name."""
    return [topic for name in sorted(set(names)) if (topic := topics.by_name(name)) is not None]


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[bytes]:
    """Return the ids of the topics that exist."""
    return frozenset(topic.topic_id for topic in existing(names, topics))


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return a signed 64-bit digest of the topics that exist; NO_HASH if there are none."""
    found = existing(names, topics)
    if not found:
        return NO_HASH
    digest = hashlib.blake2b(digest_size=8)
    for topic in found:
        digest.update(topic.topic_id)
        digest.update(len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
