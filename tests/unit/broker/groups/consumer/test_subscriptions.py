"""Subscriptions: names and expressions, matched against the existing topics."""

from __future__ import annotations

import pytest

from broker.groups.consumer.consumer_member import ConsumerGroupMember
from broker.groups.consumer.subscriptions import (
    NO_HASH,
    ResolvedRegex,
    existing,
    metadata_hash,
    resolve,
    topic_ids,
    topic_names,
)
from broker.groups.errors import GroupError
from protocol.errors import ErrorCode
from tests.support.fake_topics import FakeTopics, topic_id


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("orders", {"orders"}),
        ("order", set()),  # the whole name must match
        ("order.*", {"orders", "orders.eu"}),
        (".*\\.eu", {"orders.eu"}),
        ("(?i)ORDERS", {"orders"}),
        ("", set()),
        ("a|b", {"a"}),
    ],
)
def test_an_expression_matches_whole_names(pattern: str, matched: set[str]) -> None:
    topics = FakeTopics(orders=1, a=1)
    topics.set("orders.eu", 1)
    assert resolve(pattern, topics, 5) == ResolvedRegex(frozenset(matched), 5)


@pytest.mark.parametrize("pattern", ["(", "[a", "a**", "(?<x>", "\\", "(?=a)"])
def test_an_invalid_expression_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(GroupError) as refused:
        resolve(pattern, FakeTopics(), 0)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert f"`{pattern}`" in str(refused.value)


def test_matching_takes_linear_time_in_the_name() -> None:
    """A backtracking matcher would not end here."""
    assert resolve("(a+)+(a|aa)*b", FakeTopics(**{"a" * 249: 1}), 0).topics == frozenset()


def test_a_member_subscribes_to_names_and_to_matches_of_its_expression() -> None:
    member = ConsumerGroupMember(member_id="m", topic_names=frozenset({"a"}), topic_regex="b.*")
    assert topic_names(member, {}) == {"a"}
    assert topic_names(member, {"b.*": ResolvedRegex(frozenset({"b1"}), 0)}) == {"a", "b1"}


def test_only_existing_topics_count() -> None:
    topics = FakeTopics(a=1, b=2)
    assert [topic.name for topic in existing(["b", "x", "a", "b"], topics)] == ["a", "b"]
    assert topic_ids(["a", "x"], topics) == {topic_id("a")}


def test_the_digest_changes_only_with_the_topics() -> None:
    before = FakeTopics(a=1, b=2, c=3)
    digest = metadata_hash(["a", "b"], before)
    assert digest == metadata_hash(["b", "a", "a", "x"], before)
    assert -(2**63) <= digest < 2**63
    moved = {
        metadata_hash(["a"], before),
        metadata_hash(["a", "b", "c"], before),
        metadata_hash(["a", "b"], FakeTopics(a=2, b=2)),
        metadata_hash(["a", "b"], FakeTopics(a=1)),
    }
    assert digest not in moved
    assert len(moved) == 4 - 1, "a alone equals a with a missing b"
    assert metadata_hash(["x"], before) == NO_HASH
