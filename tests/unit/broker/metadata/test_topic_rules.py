"""Kafka's rules for new topics; codes and texts as Kafka 4.3.0 gave them to the same requests."""

import pytest

from broker.metadata.image import ClusterImage, TopicInfo
from broker.metadata.topic_rules import (
    NewTopic,
    Placement,
    TopicError,
    check_name,
    check_new_name,
    check_partition_total,
    check_record_total,
    duplicate_names,
    partition_replicas,
)
from protocol.errors import ErrorCode

ONE_NODE = Placement(1, 1, 1, clamp=False)


def image_with(*names):
    image = ClusterImage()
    for name in names:
        topic = TopicInfo(name, name.encode().ljust(16, b"\1"))
        image.topics[name] = image.topics_by_id[topic.topic_id] = topic
        image.note_name(name)
    return image


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a/b", "'a/b' contains one or more characters"),
        ("a\0b", "'a\0b' contains one or more characters"),
        ("%2e%2e", "'%2e%2e' contains one or more characters"),
        ("a b", "'a b' contains one or more characters"),
        ("é", "'é' contains one or more characters"),
        ("٣", "'٣' contains one or more characters"),  # a digit, but not ASCII's
        ("a\n", "'a\n' contains one or more characters"),
    ],
)
def test_bad_names(name, reason):
    with pytest.raises(TopicError) as caught:
        check_name(name)
    assert caught.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert caught.value.message.startswith(f"Topic name is invalid: {reason}")


@pytest.mark.parametrize("name", ["a", "x" * 249, "...", "a.b_c-D9", "-", "_", "__x"])
def test_good_names(name):
    check_name(name)


@pytest.mark.parametrize(
    ("existing", "name", "code", "text"),
    [
        ([], "__cluster_metadata", 42, "Creation of internal topic __cluster_metadata is prohib"),
        (["plain"], "plain", 36, "Topic 'plain' already exists."),
        (["a_b"], "a.b", 17, "Topic 'a.b' collides with existing topic: a_b"),
        (["a.b"], "a_b", 17, "Topic 'a_b' collides with existing topic: a.b"),
        (["a.b_c"], "a_b.c", 17, "Topic 'a_b.c' collides with existing topic: a.b_c"),
        (["a_b", "a.b"], "a.b", 36, "Topic 'a.b' already exists."),
        (["a"], "a/b", 17, "Topic name is invalid"),
    ],
)
def test_new_names_that_are_refused(existing, name, code, text):
    with pytest.raises(TopicError) as caught:
        check_new_name(name, image_with(*existing))
    assert (caught.value.code, caught.value.message[: len(text)]) == (code, text)


@pytest.mark.parametrize(("existing", "name"), [("ab", "a.b"), ("a-b", "a_b"), ("A_b", "a.b")])
def test_names_that_do_not_collide(existing, name):
    check_new_name(name, image_with(existing))


@pytest.mark.parametrize(
    ("count", "factor", "assignments", "code", "text"),
    [
        (0, 1, (), 37, "Number of partitions was set to an invalid non-positive value."),
        (-2, 1, (), 37, "Number of partitions was set to an invalid non-positive value."),
        (1, 0, (), 38, "Replication factor must be larger than 0, or -1 to use the default"),
        (1, -2, (), 38, "Replication factor must be larger than 0, or -1 to use the default"),
        (0, 0, (), 38, "Replication factor must be larger than 0"),
        (0, 3, (), 37, "Number of partitions was set"),
        (1, 3, (), 38, "Unable to replicate the partition 3 time(s): The target replication fac"),
        (-1, -1, [(0, [2])], 39, "The manual partition assignment includes broker 2, but no such"),
        (-1, -1, [(0, [1, 1])], 39, "The manual partition assignment includes the broker 1 more"),
        (-1, -1, [(0, [])], 39, "The manual partition assignment includes an empty replica list."),
        (-1, -1, [(0, [1]), (0, [1])], 39, "Found multiple manual partition assignments for par"),
        (-1, -1, [(1, [1])], 39, "partitions should be a consecutive 0-based integer sequence"),
        (-1, -1, [(0, [1]), (2, [1])], 39, "partitions should be a consecutive 0-based"),
        (
            -1,
            -1,
            [(0, [-1])],
            39,
            "The manual partition assignment includes broker -1, but no",
        ),
        (1, -1, [(0, [1])], 42, "A manual partition assignment was specified, but numPartitions"),
        (-1, 1, [(0, [1])], 42, "A manual partition assignment was specified, but replication fa"),
        (2, 1, [(0, [1])], 42, "A manual partition assignment was specified, but replication fa"),
    ],
)
def test_counts_and_assignments_that_are_refused(count, factor, assignments, code, text):
    topic = NewTopic(
        name="t", partition_count=count, replication_factor=factor, assignments=assignments
    )
    with pytest.raises(TopicError) as caught:
        partition_replicas(topic, ONE_NODE)
    assert (caught.value.code, caught.value.message[: len(text)]) == (code, text)


@pytest.mark.parametrize(
    ("count", "factor", "assignments", "placement", "expected"),
    [
        (2, 1, (), ONE_NODE, [[1], [1]]),
        (-1, -1, (), Placement(7, 3, 1, clamp=False), [[7], [7], [7]]),
        (-1, -1, [(1, [1]), (0, [1])], ONE_NODE, [[1], [1]]),
        (1, 3, (), Placement(1, 1, 1, clamp=True), [[1]]),
        (1, -1, (), Placement(1, 1, 3, clamp=True), [[1]]),
    ],
)
def test_replicas(count, factor, assignments, placement, expected):
    topic = NewTopic(
        name="t", partition_count=count, replication_factor=factor, assignments=assignments
    )
    assert partition_replicas(topic, placement) == expected


def test_default_replication_factor_above_one_is_refused_as_kafka_does():
    with pytest.raises(TopicError) as caught:
        partition_replicas(NewTopic(name="t"), Placement(1, 1, 3, clamp=False))
    assert caught.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("counts", "is_refused"),
    [
        ([10_000], False),  # the count of records refuses this one
        ([10_001], True),
        ([6_000, 6_000], True),
        ([-1, 10_000], True),  # -1 counts as the default, 1
        ([-5, 10_000], False),
        ([1_000_000], True),
    ],
)
def test_partitions_of_a_request(counts, is_refused):
    topics = [NewTopic(name=f"t{i}", partition_count=count) for i, count in enumerate(counts)]
    if is_refused:
        with pytest.raises(TopicError) as caught:
            check_partition_total(topics, 1)
        assert caught.value.code == ErrorCode.POLICY_VIOLATION
    else:
        check_partition_total(topics, 1)


def test_assigned_partitions_are_counted():
    assignments = [(i, [1]) for i in range(10_001)]
    with pytest.raises(TopicError, match="Excessively large number of partitions"):
        check_partition_total([NewTopic(name="t", assignments=assignments)], 1)


def test_records_of_a_request():
    check_record_total(10_000)
    with pytest.raises(TopicError) as caught:
        check_record_total(10_001)
    assert caught.value.code == ErrorCode.POLICY_VIOLATION


def test_duplicate_names():
    topics = [NewTopic(name=name) for name in "abcbac"]
    assert duplicate_names(topics) == ["a", "b", "c"]
    assert duplicate_names(topics[:3]) == []


def test_an_error_that_is_kept_holds_no_frames():
    """Of a caught one they hold the outcomes, and so the error: a circle for each refusal."""
    try:
        try:
            int("x")
        except ValueError as error:
            raise TopicError(ErrorCode.INVALID_CONFIG, "a reason") from error
    except TopicError as caught:
        kept = caught.kept()
    assert (kept.code, kept.message, str(kept)) == (ErrorCode.INVALID_CONFIG, *["a reason"] * 2)
    assert kept.__traceback__ is kept.__cause__ is kept.__context__ is None
