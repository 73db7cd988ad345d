"""`barnabas groups` on Apache Kafka 4.3 and on Barnabas: the same history, the same output.

Groups of both kinds, with members and without, asked for, set back and deleted. What differs by
nature is replaced: addresses and the ids of members.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from client import cli
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

TIMEOUT_S = 20
TOPIC = "orders"
PARTITIONS = 2
COUNT = 20
WITH_A_MEMBER = (
    "list",
    "describe {group}",
    "describe {group} --json",
    "reset-offsets {group} --to-earliest",
    "delete {group} --yes",
)
WITHOUT = (
    "list",
    "list --json",
    "describe classic consumer",
    "describe classic consumer --json",
    "describe consumr",
    "reset-offsets consumer --shift-by -5 --dry-run",
    "reset-offsets consumer --shift-by -5 --topic orders:1",
    "reset-offsets consumer --shift-by -50",
    "reset-offsets classic --to-offset 3",
    "reset-offsets classic --to-time 2020-01-01",
    "reset-offsets classic --by-duration 0s",
    "reset-offsets fresh --to-latest --topic orders",
    "reset-offsets fresh --to-latest --topic orders:2",
    "reset-offsets nobody --to-latest",
    "reset-offsets consumer --to-earliest --json",
    "describe fresh consumer classic",
    "delete fresh --dry-run",
    "delete fresh nobody --yes",
    "delete fresh consumer --yes",
    "list",
    "describe fresh",
)


def member(broker: Any, group: str) -> Consumer:
    """A member of a group named after its protocol, after it read and committed everything."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "group.protocol": group,
            "client.id": "app",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    read = 0
    while read < COUNT:
        messages = consumer.consume(COUNT, TIMEOUT_S)
        assert messages, "nothing came in time"
        read += len([one for one in messages if one.error() is None])
    consumer.commit(asynchronous=False)
    return consumer


def history(broker: Any) -> Iterator[str]:
    """Yield the output of each command, in turn."""

    def say(command: str) -> str:
        result = CliRunner().invoke(
            cli.main, ["groups", *command.split()], env={"BARNABAS_BOOTSTRAP": broker.address}
        )
        said = result.output.replace(broker.address, "ADDRESS")
        for member_id in sorted(
            set(re.findall(r"app-[0-9a-f-]{36}|[\w+/-]{22}(?![\w+/-])(?:==)?", said))
        ):
            said = said.replace(member_id, "MEMBER")
        said = re.sub(r" +", " ", said)
        return f"$ {command} -> {result.exit_code}\n{said}"

    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(COUNT):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0
    yield say("list")
    for group in ("classic", "consumer"):
        consumer = member(broker, group)
        yield from map(say, (command.format(group=group) for command in WITH_A_MEMBER))
        consumer.close()
    yield from map(say, WITHOUT)


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Any]]:
    libs()
    settings = {"offsets.topic.num.partitions": "4"}
    made = [
        KafkaNode(tmp_path_factory.mktemp("kafka"), settings=settings),
        BrokerProcess(tmp_path_factory.mktemp("ours") / "data", settings),
    ]
    try:
        for broker in made:
            broker.start()
        yield made
    finally:
        for broker in made:
            if broker.running:
                broker.kill()


def test_both_brokers_have_the_commands_say_the_same(brokers: list[Any]) -> None:
    kafka, ours = (list(history(broker)) for broker in brokers)
    for theirs, said in zip(kafka, ours, strict=True):
        assert said == theirs
    assert sum("-> 0" in said for said in ours) > len(ours) / 2
