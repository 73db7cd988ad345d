"""kill -9 under load: with acks=all and an idempotent producer nothing is lost or duplicated.

One librdkafka producer outlives all the kills and retries for as long as necessary. The broker is
killed, and started again on its directory, N times at moments that progress and chance determine.
After each start the log must still hold the bytes from before the kill (H1 byte identity, H4 no
end offset goes back). At the end everything is consumed and checked: dense offsets (H2), and the
history of all clients (tests/support/history_checker.py). A cycle without acknowledgements would
prove nothing, so each waits for progress (H9).
"""

import hashlib
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.broker_process import BrokerProcess
from tests.support.history_checker import OK, FinalLog, History, Op, Poll, Send, check
from tests.support.raw_client import RawClient
from tests.support.under_test import broker_on

TOPIC = "orders"
PARTITIONS = 4
ACKS_PER_CYCLE = 500
PATIENCE_SECONDS = 60.0


class Load:
    """A producer in a thread: number after number to each partition, and the acknowledgements."""

    def __init__(self, address: str) -> None:
        self.acknowledged: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
        self.sent = 0
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "acks": "all",
                "max.in.flight.requests.per.connection": 5,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "message.timeout.ms": 300_000,
                "request.timeout.ms": 10_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "log_level": 2,
            },
        )
        self._thread = threading.Thread(target=self._run, name="load")

    @property
    def count(self) -> int:
        """Records acknowledged so far."""
        return sum(len(one) for one in self.acknowledged)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def finish(self) -> None:
        """Stop sending, and wait until every record is acknowledged or has failed."""
        self._stop.set()
        self._thread.join()
        assert not self.failures, self.failures[:3]
        assert self._producer.flush(PATIENCE_SECONDS) == 0, "records got no delivery report"

    def _told(self, error: KafkaError | None, message: Message) -> None:
        partition, value = message.partition(), message.value()
        if error is not None or partition is None or value is None:
            self.failures.append(f"{value!r}: {error}")
            return
        offset = message.offset()
        assert offset is not None
        self.acknowledged[partition][int(value)] = offset

    def _run(self) -> None:
        while not self._stop.is_set() and not self.failures:
            try:
                for partition in range(PARTITIONS):
                    value = b"%d" % self.sent
                    self._producer.produce(
                        TOPIC, value, partition=partition, on_delivery=self._told
                    )
                    self.sent += 1
            except BufferError:
                pass
            except KafkaException as error:  # fatal: the producer may never send again
                self.failures.append(str(error))
                return
            # the queue is bounded, so that each kill meets records in every state
            self._producer.poll(0.001 if len(self._producer) > 2000 else 0)


def wait_for(what: str, condition: Callable[[], bool]) -> None:
    """Return when `condition` holds; it must within a minute."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {PATIENCE_SECONDS} s"
        time.sleep(0.002)


def bytes_of(broker: BrokerProcess, partition: int, end_offset: int) -> str:
    """Digest of the batches of a partition below `end_offset`, as the broker serves them (H1).

    Base offset and leader epoch are part of it: neither changes once a batch is stored.
    """
    digest = hashlib.sha256()
    offset = 0
    with RawClient(broker.host, broker.port) as client:
        while offset < end_offset:
            answer = client.fetch(TOPIC, offset, partition, size_max=4 << 20)
            assert answer.error == 0
            assert answer.records, f"nothing at {offset} of {TOPIC}-{partition}, end {end_offset}"
            position = 0
            while position + 61 <= len(answer.records) and offset < end_offset:
                head = answer.records[position : position + 61]
                size = 12 + int.from_bytes(head[8:12], "big")
                if position + size > len(answer.records):
                    break
                digest.update(answer.records[position : position + size])
                offset = int.from_bytes(head[:8], "big") + int.from_bytes(head[23:27], "big") + 1
                position += size
    return digest.hexdigest()


def consumed(address: str, counts: list[int]) -> list[list[tuple[int, bytes]]]:
    """(offset, value) of every record of every partition, as a consumer reads them."""
    out: list[list[tuple[int, bytes]]] = [[] for _ in counts]
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(len(counts))])
    wanted = sum(counts)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while wanted > 0:
        assert time.monotonic() < deadline, f"{wanted} of {sum(counts)} records did not arrive"
        for message in consumer.consume(2000, 0.2):
            assert message.error() is None, message.error()
            partition, value, offset = message.partition(), message.value(), message.offset()
            assert partition is not None
            assert value is not None
            assert offset is not None
            out[partition].append((offset, value))
            wanted -= 1
    consumer.close()
    return out


def ends(broker: BrokerProcess) -> list[int]:
    """The end offsets of all partitions."""
    with RawClient(broker.host, broker.port) as client:
        return [client.end_offset(TOPIC, number) for number in range(PARTITIONS)]


def live_through_kills(directory: Path, cycles: int) -> None:
    """Run the whole test: `cycles` kills under load, then the checks."""
    chance = random.Random(20261120)
    broker = broker_on(directory)
    broker.start()
    load = Load(broker.address)
    try:
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic(TOPIC, PARTITIONS) == 0
        load.start()
        for cycle in range(cycles):
            goal = load.count + ACKS_PER_CYCLE
            wait_for(
                f"progress in cycle {cycle}",
                lambda goal=goal: load.count >= goal or bool(load.failures),
            )
            assert not load.failures, load.failures[:3]
            told = [max(one.values(), default=-1) + 1 for one in load.acknowledged]
            before = [bytes_of(broker, number, end) for number, end in enumerate(told)]
            time.sleep(chance.random() * 0.1)
            broker.kill()
            broker.start()
            after = ends(broker)
            assert all(now >= then for now, then in zip(after, told, strict=True)), "H4"
            assert before == [bytes_of(broker, n, end) for n, end in enumerate(told)], "H1"
        load.finish()
        assert not load.failures, load.failures[:3]
        assert load.count == load.sent, "some records were never acknowledged"
        read = consumed(broker.address, ends(broker))
    finally:
        load._stop.set()
        if broker.running:
            broker.kill()
        sys.stderr.write(broker.output()[-4000:])  # shown by pytest when the test fails
    history = History()
    for partition, (acknowledged, records) in enumerate(zip(load.acknowledged, read, strict=True)):
        key = TOPIC, partition
        assert [offset for offset, _ in records] == list(range(len(records))), f"H2: {key}"
        history.final[key] = FinalLog(0, records)
        history.ops += [
            Op(partition, OK, sends=[Send(key, b"%d" % number, offset)])
            for number, offset in sorted(acknowledged.items())
        ]
        history.ops.append(Op(PARTITIONS, OK, polls=[Poll(key, 0, records)]))
    assert check(history).anomalies == []


def test_five_kills_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    live_through_kills(tmp_path, 5)


@pytest.mark.slow
def test_fifty_kills_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    live_through_kills(tmp_path, 50)
