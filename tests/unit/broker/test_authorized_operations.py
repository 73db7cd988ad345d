"""The authorized operations are those that Kafka 4.3 without an authorizer answers."""

from broker.authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS


def test_bits_are_kafkas() -> None:
    assert (CLUSTER_OPERATIONS, TOPIC_OPERATIONS) == (8096, 3576)
