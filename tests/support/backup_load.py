"""Producers, a group and transactions beside backups, and what a broker on a backup must have.

Topic `plain` gets batches with acks=all; `pair` gets transactions that write one id to both of its
partitions, half of them aborted; `keyed` is compacted and `short` is deleted by size. A group
consumes `plain` and commits after each read.
"""

import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 2
GROUP = "backed-up"
SMALL = {"segment.bytes": "1048576", "segment.ms": "500", "file.delete.delay.ms": "0"}
TOPICS = {
    "plain": {},
    "pair": {},
    "keyed": SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
    "short": SMALL | {"retention.bytes": "1000000"},
}
WAIT_S = 60


@dataclass
class Acknowledged:
    """What was acknowledged so far: end offsets, ids of committed transactions, commits."""

    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    ids: set[bytes] = field(default_factory=set)
    committed: dict[int, int] = field(default_factory=dict)


class BackupLoad:
    """Clients of one broker, in threads, until `stop`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._acknowledged = Acknowledged()
        self._over = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._contained, args=[run])
            for run in (self._produce, self._transact, self._consume)
        ]

    def start(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._address})
        topics = [NewTopic(name, PARTITIONS, 1, config=config) for name, config in TOPICS.items()]
        for future in admin.create_topics(topics).values():
            future.result()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(WAIT_S)
        assert not self._failures, self._failures

    def acknowledged(self) -> Acknowledged:
        """Return what was acknowledged until now."""
        with self._lock:
            now = self._acknowledged
            return Acknowledged(dict(now.ends), set(now.ids), dict(now.committed))

    def _contained(self, run) -> None:
        try:
            run()
        except BaseException as error:
            self._failures.append(error)

    def _delivered(self, error, message) -> None:
        if error is not None:
            self._failures.append(KafkaException(error))
            return
        key = message.topic(), message.partition()
        with self._lock:
            ends = self._acknowledged.ends
            ends[key] = max(ends.get(key, 0), message.offset() + 1)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._address, "acks": "all", "linger.ms": 2})
        count = 0
        while not self._over.is_set():
            for topic in ("plain", "keyed", "short"):
                producer.produce(
                    topic,
                    value=b"%d " % count * 40,
                    key=b"%d" % (count % 50),
                    partition=count % PARTITIONS,
                    on_delivery=self._delivered,
                )
            count += 1
            producer.poll(0)
            while len(producer) > 2_000:
                producer.poll(0.1)
            time.sleep(0.0005)
        assert producer.flush(WAIT_S) == 0

    def _transact(self) -> None:
        producer = Producer({"bootstrap.servers": self._address, "transactional.id": "pairs"})
        producer.init_transactions(WAIT_S)
        count = 0
        while not self._over.is_set():
            name, is_aborted = b"%d" % count, count % 2 == 1
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce("pair", value=name, partition=partition)
            if is_aborted:
                producer.flush(WAIT_S)
                producer.abort_transaction(WAIT_S)
            else:
                producer.commit_transaction(WAIT_S)
                with self._lock:
                    self._acknowledged.ids.add(name)
            count += 1
            time.sleep(0.01)

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["plain"])
        while not self._over.is_set():
            messages = consumer.consume(100, 0.1)
            if messages:
                for one in consumer.commit(asynchronous=False):
                    with self._lock:
                        self._acknowledged.committed[one.partition] = one.offset
        consumer.close()


def check_backup(address: str, before: Acknowledged) -> int:
    """Check a broker on a backup against what was acknowledged before it; return its pairs."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        for (topic, partition), end in before.ends.items():
            _, found = bounds(consumer, TopicPartition(topic, partition))
            assert found >= end, (topic, partition, found, end)
        places = [TopicPartition("plain", number) for number in range(PARTITIONS)]
        ends_s = time.monotonic() + WAIT_S
        while True:
            try:
                commits = consumer.committed(places, 10)
                break
            except KafkaException:
                if time.monotonic() > ends_s:
                    raise
                time.sleep(0.2)
        for place in commits:
            start, end = bounds(consumer, TopicPartition("plain", place.partition))
            assert place.offset <= end, (place, start, end)
            assert place.offset >= before.committed.get(place.partition, -1001)
        ids = [committed_ids(consumer, number) for number in range(PARTITIONS)]
        assert ids[0] == ids[1], "a transaction is in one partition only"
        assert before.ids <= ids[0]
        assert all(int(one) % 2 == 0 for one in ids[0]), "an aborted transaction is committed"
        return len(ids[0])
    finally:
        consumer.close()


def bounds(consumer: Consumer, place: TopicPartition) -> tuple[int, int]:
    """Return the first and the end offset; a Kafka that has just started has no leaders yet."""
    ends_s = time.monotonic() + WAIT_S
    while True:
        try:
            return consumer.get_watermark_offsets(place, 10)
        except KafkaException:
            if time.monotonic() > ends_s:
                raise
            time.sleep(0.2)


def committed_ids(consumer: Consumer, partition: int) -> set[bytes]:
    """Return the values of one partition of `pair` up to its end, without what was aborted."""
    place = TopicPartition("pair", partition, 0)
    ends_s = time.monotonic() + WAIT_S
    _, end = bounds(consumer, place)
    consumer.assign([place])
    found = set()
    while True:
        for message in consumer.consume(500, 0.2):
            assert message.error() is None, message.error()
            found.add(message.value())
        (position,) = consumer.position([place])
        if position.offset >= end or not end:
            consumer.unassign()
            return found
        assert time.monotonic() < ends_s, (position, end, "a transaction is left open")
