"""From what members ask for to topics that exist: names, regular expressions, and their digest.

A regular expression is resolved by the broker (KIP-848): the topics whose whole name matches it,
by RE2, whose time grows with the name and not with what the expression does (decision 0072).
What it resolved to is kept in the group's log, so that all members see one set.

`metadata_hash` stands for the topics a group reads, with their ids and partition counts: when it
moves, the group needs a new target. It is a digest of our own, Kafka's has other bits: who takes
over the other's directory finds a hash that differs, and computes one more target.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.errors import GroupError
from broker.metadata.image import TopicInfo
from broker.topics import Topics
from protocol.errors import ErrorCode

NO_HASH = 0


class ResolvedRegex(NamedTuple):
    """What an expression matched when it was last looked at."""

    topics: frozenset[str]
    timestamp_ms: int


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a whole name matches; GroupError if none can be made."""
    import re2  # the first regular subscription pays for it, not every start

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        reason = reason.decode() if isinstance(reason, bytes) else reason
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.",
        ) from error
    return lambda name: compiled.fullmatch(name) is not None


def resolve(pattern: str, topics: Topics, now_ms: int) -> ResolvedRegex:
    """Look which topics `pattern` matches. Raises GroupError for one that cannot be used."""
    matches = matcher(pattern)
    return ResolvedRegex(
        frozenset(topic.name for topic in topics.all() if matches(topic.name)), now_ms
    )


def topic_names(
    member: ConsumerGroupMember, regexes: Mapping[str, ResolvedRegex]
) -> frozenset[str]:
    """Return what a member asks for; an expression that is not resolved matches nothing."""
    resolved = regexes.get(member.topic_regex)
    return member.topic_names if resolved is None else member.topic_names | resolved.topics


def existing(names: Iterable[str], topics: Topics) -> list[TopicInfo]:
    """Return those topics that there are, by name."""
    return [topic for name in sorted(set(names)) if (topic := topics.by_name(name)) is not None]


def topic_ids(names: Iterable[str], topics: Topics) -> frozenset[bytes]:
    """Return the ids of those topics that there are."""
    return frozenset(topic.topic_id for topic in existing(names, topics))


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Return a signed 64-bit digest of those topics that there are; NO_HASH if there are none."""
    found = existing(names, topics)
    if not found:
        return NO_HASH
    digest = hashlib.blake2b(digest_size=8)
    for topic in found:
        digest.update(topic.topic_id)
        digest.update(len(topic.partitions).to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
