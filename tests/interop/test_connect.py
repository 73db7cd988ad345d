"""Kafka Connect with exactly-once sources (KIP-618): what a source counts arrives exactly once.

A connector of ours counts without an end, in two or three tasks, in transactions of half a second
(`programs/java/Counting.java`). Each of its two workers is killed in mid-transaction, and so is the
broker; a worker that is stopped long enough to be replaced finds itself fenced when it goes on; and
the leader fences all producers of a generation (`Admin.fenceProducers`) when there are more tasks.
At the end the connector is stopped: what `read_committed` shows of each counter is every number
below its offset, once and in order.

With BARNABAS_TEST_AGAINST=kafka the broker is an Apache Kafka.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from client.kafka.connection import Connection
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.interop.connect_worker import (
    CONNECTOR,
    PATIENCE_S,
    POLL_S,
    SESSION_MS,
    Worker,
    build,
    transactional_id,
)
from tests.interop.oracle.kafka import KafkaNode, libs, need_javac
from tests.support.broker_process import BrokerProcess
from tests.support.under_test import broker_on

pytestmark = pytest.mark.interop

NAME = "counting"
TOPIC = "counted"
COUNTERS = 4
TASKS = 2
SETTINGS = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
CONFIG = {
    "connector.class": CONNECTOR,
    "topic": TOPIC,
    "counters": str(COUNTERS),
    "tasks.max": str(TASKS),
    "exactly.once.support": "required",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "500",
}
FENCED = ("ProducerFencedException", "InvalidProducerEpochException")
Broker = BrokerProcess | KafkaNode


def until(done: Callable[[], bool], what: str) -> None:
    """Wait until `done`; AssertionError when it takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(POLL_S)


class Scene:
    """A broker, and what is in it of the connector."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def create_topic(self) -> None:
        """Create the topic that is counted into."""
        topic = CreatableTopic(name=TOPIC, num_partitions=COUNTERS, replication_factor=1)
        with Connection(self.broker.address, PATIENCE_S) as connection:
            answer = connection.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer

    def state_of(self, task: int) -> tuple[str, int]:
        """Return the state and the epoch of a task's transactional id."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id(NAME, task)])
        with Connection(self.broker.address, PATIENCE_S) as connection:
            answer = connection.call(request, DescribeTransactionsResponse)
        (found,) = answer.transaction_states
        return found.transaction_state, found.producer_epoch

    @contextmanager
    def reader(self, isolation: str) -> Iterator[Consumer]:
        """Open a consumer."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "reader",
                "isolation.level": isolation,
                "enable.partition.eof": False,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def ends(self, isolation: str) -> list[int]:
        """Return the end of each partition."""
        with self.reader(isolation) as consumer:
            places = [TopicPartition(TOPIC, counter) for counter in range(COUNTERS)]
            return [consumer.get_watermark_offsets(one, PATIENCE_S)[1] for one in places]

    def await_more(self) -> None:
        """Wait until something of each counter has been committed that is not yet."""
        before = self.ends("read_uncommitted")
        until(
            lambda: all(
                now > then for now, then in zip(self.ends("read_committed"), before, strict=True)
            ),
            "commits of each counter",
        )

    def read(self, isolation: str) -> dict[int, list[str]]:
        """Return the values of each partition, by offset."""
        ends = self.ends(isolation)
        found: dict[int, list[str]] = {counter: [] for counter in range(COUNTERS)}
        with self.reader(isolation) as consumer:
            places = [TopicPartition(TOPIC, counter, 0) for counter in range(COUNTERS)]
            consumer.assign(places)
            deadline = time.monotonic() + PATIENCE_S
            while [one.offset for one in consumer.position(places)] != ends:
                assert time.monotonic() < deadline, f"{consumer.position(places)} of {ends}"
                message = consumer.poll(POLL_S)
                if message is not None:
                    assert message.error() is None, message.error()
                    found[message.partition()].append(message.value().decode())
        return found


class Cluster:
    """Two workers, each with one of two tasks."""

    def __init__(self, scene: Scene, workers: list[Worker]) -> None:
        self.scene = scene
        self.workers = workers

    def places(self) -> dict[str, int]:
        """Return the task of each worker that has one, when all tasks are running."""
        status = self.workers[0].ask("GET", f"/connectors/{NAME}/status")
        states = [task["state"] for task in status["tasks"]]
        assert "FAILED" not in states, status
        running = states == ["RUNNING"] * TASKS
        return {one["worker_id"]: one["id"] for one in status["tasks"]} if running else {}

    def task_in_mid_transaction(self, worker: Worker) -> int:
        """Wait until each worker has a task that commits, and this one's is in a transaction."""
        until(lambda: len(self.places()) == TASKS, "a task at each worker")
        self.scene.await_more()
        task = self.places()[worker.worker_id]
        until(lambda: self.scene.state_of(task)[0] == "Ongoing", f"a transaction of task {task}")
        return task

    def kill_worker(self, worker: Worker) -> None:
        """Kill it in mid-transaction; the other one takes its task."""
        task = self.task_in_mid_transaction(worker)
        worker.kill()
        state, epoch = self.scene.state_of(task)
        assert state == "Ongoing", "the worker died between two transactions"
        worker.launch()
        until(lambda: self.scene.state_of(task)[1] > epoch, f"another producer of task {task}")

    def kill_broker(self) -> None:
        """Kill it in mid-transaction; the tasks go on."""
        self.task_in_mid_transaction(self.workers[0])
        self.scene.broker.kill()
        self.scene.broker.start()
        self.scene.await_more()

    def replace(self, worker: Worker) -> None:
        """Stop it in mid-transaction until the other one has its task, and let it go on."""
        task = self.task_in_mid_transaction(worker)
        worker.send_signal(signal.SIGSTOP)
        epoch = self.scene.state_of(task)[1]
        self.scene.await_more()
        assert self.scene.state_of(task)[1] > epoch
        worker.send_signal(signal.SIGCONT)
        until(lambda: any(words in worker.output() for words in FENCED), "it is fenced")
        self.scene.await_more()


def fence_a_generation(scene: Scene, worker: Worker) -> None:
    """Have one more task: the leader fences the producers of the tasks before."""
    worker.ask("PUT", f"/connectors/{NAME}/config", {**CONFIG, "tasks.max": str(TASKS + 1)})
    until(lambda: scene.state_of(TASKS)[0] == "Ongoing", "a transaction of the new task")
    scene.await_more()


def judge(scene: Scene, worker: Worker) -> None:
    """Stop the connector; compare what it wrote with its offsets."""
    worker.ask("PUT", f"/connectors/{NAME}/stop")
    until(
        lambda: not worker.ask("GET", f"/connectors/{NAME}/status")["tasks"],
        "the end of the tasks",
    )
    until(
        lambda: all(scene.state_of(task)[0] != "Ongoing" for task in range(TASKS + 1)), "their ends"
    )
    listed = worker.ask("GET", f"/connectors/{NAME}/offsets")["offsets"]
    offsets = {int(one["partition"]["counter"]): one["offset"]["next"] for one in listed}
    wanted = {
        counter: [f"{counter} {number}" for number in range(offsets[counter])]
        for counter in range(COUNTERS)
    }
    assert scene.read("read_committed") == wanted
    aborted = sum(map(len, scene.read("read_uncommitted").values())) - sum(offsets.values())
    assert aborted > 0, "no kill was in mid-transaction"


def live(broker: Broker, directory: Path) -> None:
    """Let a connector live, on ours as on Apache Kafka."""
    plugins = directory / "plugins"
    build(plugins)
    workers = [Worker(directory / f"worker-{n}", plugins, broker.address) for n in range(TASKS)]
    with ExitStack() as stack:
        broker.start()
        stack.callback(broker.end)
        scene = Scene(broker)
        scene.create_topic()
        for worker in workers:
            worker.launch()
            stack.callback(worker.end)
        workers[0].ask("PUT", f"/connectors/{NAME}/config", CONFIG)
        cluster = Cluster(scene, workers)
        cluster.kill_worker(workers[1])
        cluster.kill_broker()
        cluster.kill_worker(workers[0])
        cluster.kill_broker()
        cluster.replace(workers[1])
        fence_a_generation(scene, workers[0])
        judge(scene, workers[0])


def test_each_number_is_written_once(tmp_path: Path) -> None:
    libs()
    need_javac()
    live(broker_on(tmp_path / "broker", SETTINGS), tmp_path)
