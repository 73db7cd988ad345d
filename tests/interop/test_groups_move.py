"""A directory with groups moves between Apache Kafka 4.3 and Barnabas, and back.

Offsets with and without members, metadata of commits, a member that is still within its session,
and a deleted group: what the one broker knew the next one knows.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.oracle.kafka import KafkaNode, libs
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}
PARTITIONS = 3
ANSWER_S = 60  # on a machine that is busy with other work
NOT_YET = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR)


def admin_of(broker: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def commit(admin: AdminClient, asked: list[ConsumerGroupTopicPartitions]) -> None:
    admin.alter_consumer_group_offsets(asked)[asked[0].group_id].result(ANSWER_S)


def retried(call: Callable[[], Any]) -> Any:
    """Call until the coordinator is ready: Kafka creates its partitions one by one."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def commit_simply(admin: AdminClient, group: str) -> None:
    """Commit for a group without members, as an administrator does."""
    offsets = [
        TopicPartition("t", number, 10 + number, f"note {number}") for number in range(PARTITIONS)
    ]
    retried(partial(commit, admin, [ConsumerGroupTopicPartitions(group, offsets)]))


def fill(broker: Any) -> Consumer:
    """Leave offsets, a group without members, a deleted one, and one whose member is alive."""
    admin = admin_of(broker)
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(ANSWER_S)
    for group in ("simple", "gone"):
        commit_simply(admin, group)
    try:
        retried(lambda: admin.delete_consumer_groups(["gone"])["gone"].result(ANSWER_S))
    except KafkaException as error:  # librdkafka retries if an answer is late
        if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise
    member = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "live",
            "session.timeout.ms": 120_000,
            "enable.auto.commit": False,
        }
    )
    member.subscribe(["t"])
    deadline = time.monotonic() + 30
    while len(member.assignment()) < PARTITIONS:
        assert time.monotonic() < deadline, "no assignment"
        member.poll(0.1)
    member.commit(offsets=[TopicPartition("t", 1, 77)], asynchronous=False)
    return member


def offsets_of(admin: AdminClient, asked: list[ConsumerGroupTopicPartitions]) -> Any:
    found = admin.list_consumer_group_offsets(asked)[asked[0].group_id].result(ANSWER_S)
    return found.topic_partitions


def known(broker: Any) -> dict[str, Any]:
    """Return a broker's description of all groups."""
    admin = admin_of(broker)
    found: dict[str, Any] = {}
    deadline = time.monotonic() + 30
    while not found:
        assert time.monotonic() < deadline, "no groups"
        listed = admin.list_consumer_groups().result(ANSWER_S)
        found = {
            one.group_id: [str(one.state), str(one.type)]
            for one in listed.valid
            if not listed.errors
        }
        time.sleep(0.1)
    for group in found:
        asked = [ConsumerGroupTopicPartitions(group)]
        offsets = retried(partial(offsets_of, admin, asked))
        found[group].append(
            sorted((one.partition, one.offset, one.metadata or "") for one in offsets)
        )
        described = admin.describe_consumer_groups([group])[group].result(ANSWER_S)
        for member in described.members:
            shares = sorted(one.partition for one in member.assignment.topic_partitions)
            found[group].append((member.member_id, member.client_id, shares))
    return found


def known_in_the_end(broker: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the description after the groups are loaded: Kafka lists those it has so far."""
    deadline = time.monotonic() + 30
    while (found := known(broker)) != wanted and time.monotonic() < deadline:
        pass
    return found


@pytest.fixture(autouse=True)
def _oracle() -> None:
    libs()


@pytest.mark.parametrize("first", ["kafka", "barnabas"])
def test_groups_are_known_to_the_next_broker(tmp_path: Path, first: str) -> None:
    kafka: Any = KafkaNode(tmp_path, settings=SETTINGS)
    ours: Any = broker_on(tmp_path, SETTINGS)
    before, after = (kafka, ours) if first == "kafka" else (ours, kafka)
    members = []
    brokers = [before, after, before]
    wanted: dict[str, Any] = {}
    try:
        for turn, broker in enumerate(brokers):
            broker.start()
            if turn == 0:
                members.append(fill(broker))
                wanted = known(broker)
                deadline = time.monotonic() + 30
                while set(wanted) != {"simple", "live"}:
                    # Kafka lists what it holds for committed, and does not always hear that of the
                    # first records of a partition that it has just made: one more moves it on.
                    assert time.monotonic() < deadline, wanted
                    commit_simply(admin_of(broker), "simple")
                    wanted = known(broker)
                assert wanted["live"][0].endswith("STABLE")
            else:
                assert known_in_the_end(broker, wanted) == wanted
            if turn == 1:
                broker.kill()
            else:
                broker.stop()
    finally:
        for broker in (kafka, ours):
            if broker.running:
                broker.kill()
