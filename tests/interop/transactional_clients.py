"""One life of a transactional producer, told to each client library: `LIVES`.

The life: two records and a group's offset are committed; a record and another offset are aborted;
a record is committed by itself. A second instance takes over, and the first one finds out when it
ends its next transaction; the second commits a record. Another producer takes longer than its
timeout, finds out when it commits, and a new instance of it commits a record.

A life returns the errors of the two that found out: names of the library's, in short.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import client.places
from client.kafka.transactional_producer import TransactionalProducer
from client.transactions.errors import TransactionError
from client.transactions.transaction_settings import TransactionSettings
from tests.interop.java_process import compiled
from tests.interop.oracle.kafka import CHECKOUT, older_clients

COMMITTED = [b"c1", b"c2", b"c3", b"c4", b"c5"]
GROUP_OFFSET = 2  # the aborted one is 9
TIMEOUT_MS = 1_000  # of the transaction that takes too long: librdkafka's least
OVER_S = 2.0
PATIENCE_S = 30


class Place(NamedTuple):
    """Where a life takes place. The topics have one partition, and `source` two records."""

    address: str
    topic: str
    source: str
    group: str
    name: str  # of the transactional id
    directory: str  # for what must be built


Life = Callable[[Place], list[str]]


def by_confluent(place: Place) -> list[str]:
    """librdkafka, by confluent-kafka."""
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    def start(name: str, timeout_ms: int = 60_000) -> Any:
        made = Producer(
            {
                "bootstrap.servers": place.address,
                "transactional.id": name,
                "transaction.timeout.ms": timeout_ms,
                "log_level": 0,
            }
        )
        made.init_transactions(PATIENCE_S)
        return made

    def send(producer: Any, *values: str) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(place.topic, value, partition=0)
        producer.flush(PATIENCE_S)

    def ended(producer: Any, *values: str) -> str:
        try:
            if values:
                send(producer, *values)
            producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            return str(error.args[0].name())
        return "committed"

    reader = Consumer({"bootstrap.servers": place.address, "group.id": place.group})
    reader.assign([TopicPartition(place.source, 0, 0)])
    first = start(place.name)
    for values, offset, end in (
        (("c1", "c2"), GROUP_OFFSET, first.commit_transaction),
        (("a1",), 9, first.abort_transaction),
    ):
        send(first, *values)
        offsets = [TopicPartition(place.source, 0, offset)]
        first.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), PATIENCE_S)
        end(PATIENCE_S)
    reader.close()
    send(first, "c3")
    assert ended(first) == "committed"
    second = start(place.name)
    send(second, "c4")
    found = [ended(first, "f1"), ended(second)]
    assert found.pop() == "committed"
    late = start(f"{place.name}-late", TIMEOUT_MS)
    send(late, "l1")
    time.sleep(OVER_S)
    found.append(ended(late))
    again = start(f"{place.name}-late")
    send(again, "c5")
    assert ended(again) == "committed"
    return found


def by_kafka_python(place: Place) -> list[str]:
    """kafka-python."""
    from kafka import KafkaProducer, TopicPartition
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    with contextlib.ExitStack() as open_ones:

        def start(name: str, timeout_ms: int = 60_000) -> Any:
            made = KafkaProducer(
                bootstrap_servers=place.address,
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
            )
            open_ones.callback(made.close, timeout=0)
            made.init_transactions()
            return made

        def send(producer: Any, *values: str) -> None:
            producer.begin_transaction()
            for value in values:
                producer.send(place.topic, value.encode(), partition=0)
            producer.flush()

        def ended(producer: Any) -> str:
            try:
                producer.commit_transaction()
            except KafkaError as error:
                return type(error).__name__
            return "committed"

        first = start(place.name)
        for values, offset, end in (
            (("c1", "c2"), GROUP_OFFSET, first.commit_transaction),
            (("a1",), 9, first.abort_transaction),
        ):
            send(first, *values)
            offsets = {TopicPartition(place.source, 0): OffsetAndMetadata(offset, "", -1)}
            first.send_offsets_to_transaction(offsets, place.group)
            end()
        send(first, "c3")
        assert ended(first) == "committed"
        second = start(place.name)
        send(second, "c4")
        send(first, "f1")
        found = [ended(first), ended(second)]
        assert found.pop() == "committed"
        late = start(f"{place.name}-late", TIMEOUT_MS)
        send(late, "l1")
        time.sleep(OVER_S)
        found.append(ended(late))
        again = start(f"{place.name}-late")
        send(again, "c5")
        assert ended(again) == "committed"
    return found


def by_aiokafka(place: Place) -> list[str]:
    """aiokafka."""
    from aiokafka import AIOKafkaProducer, TopicPartition
    from aiokafka.errors import KafkaError

    async def live() -> list[str]:
        async with contextlib.AsyncExitStack() as open_ones:

            async def start(name: str, timeout_ms: int = 60_000) -> Any:
                made = AIOKafkaProducer(
                    bootstrap_servers=place.address,
                    transactional_id=name,
                    transaction_timeout_ms=timeout_ms,
                )
                return await open_ones.enter_async_context(made)

            async def send(producer: Any, *values: str) -> None:
                await producer.begin_transaction()
                for value in values:
                    await producer.send(place.topic, value.encode(), partition=0)
                with contextlib.suppress(KafkaError):
                    await producer.flush()

            async def ended(producer: Any) -> str:
                try:
                    await producer.commit_transaction()
                except (KafkaError, AssertionError) as error:  # the latter once it is fenced
                    return type(error).__name__
                return "committed"

            first = await start(place.name)
            for values, offset, end in (
                (("c1", "c2"), GROUP_OFFSET, first.commit_transaction),
                (("a1",), 9, first.abort_transaction),
            ):
                await send(first, *values)
                offsets = {TopicPartition(place.source, 0): offset}
                await first.send_offsets_to_transaction(offsets, place.group)
                await end()
            await send(first, "c3")
            assert await ended(first) == "committed"
            second = await start(place.name)
            await send(second, "c4")
            await send(first, "f1")
            found = [await ended(first), await ended(second)]
            assert found.pop() == "committed"
            late = await start(f"{place.name}-late", TIMEOUT_MS)
            await send(late, "l1")
            await asyncio.sleep(OVER_S)
            found.append(await ended(late))
            again = await start(f"{place.name}-late")
            await send(again, "c5")
            assert await ended(again) == "committed"
            return found

    return asyncio.run(live())


def run_java(
    program: str, directory: Path | str, *arguments: str, jars: Path | None = None
) -> list[str]:
    """Compile a program of ours into a directory and run it: its lines; needs a JDK."""
    done = subprocess.run(
        [*compiled(program, Path(directory), jars), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout.splitlines()


def by_java(place: Place, jars: Path | None = None) -> list[str]:
    """The Java client of Kafka's jars."""
    arguments = (place.address, place.topic, place.source, place.group, place.name)
    times = (str(TIMEOUT_MS), str(int(OVER_S * 1000)))
    return run_java("Transactions", place.directory, *arguments, *times, jars=jars)


def by_older_java(place: Place) -> list[str]:
    """The Java client 3.9."""
    directory = Path(place.directory) / "older"
    directory.mkdir()
    return by_java(place._replace(directory=str(directory)), older_clients())


def by_franz_go(place: Place) -> list[str]:
    """franz-go, by a program that `go_program` has built into the directory."""
    program = Path(place.directory) / "franz_go"
    times = (str(TIMEOUT_MS), str(int(OVER_S * 1000)))
    arguments = (place.address, place.topic, place.source, place.group, place.name, *times)
    done = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout.splitlines()


def by_ours(place: Place) -> list[str]:
    """The client of this repository."""
    source = client.places.Place(place.source, 0)
    with contextlib.ExitStack() as open_ones:

        def start(name: str, timeout_ms: int = 60_000) -> TransactionalProducer:
            settings = TransactionSettings(timeout_ms=timeout_ms)
            return open_ones.enter_context(TransactionalProducer(place.address, name, settings))

        def send(producer: TransactionalProducer, *values: str, offset: int | None = None) -> None:
            for value in values:
                producer.send(place.topic, value.encode(), partition=0)
            if offset is not None:
                producer.send_offsets(place.group, {source: offset})
            producer.flush()

        first = start(place.name)
        with first.transaction():
            send(first, "c1", "c2", offset=GROUP_OFFSET)
        with contextlib.suppress(ZeroDivisionError), first.transaction():
            send(first, "a1", offset=9)
            raise ZeroDivisionError
        with first.transaction():
            send(first, "c3")
        second = start(place.name)
        found = []
        with second.transaction():
            send(second, "c4")
            try:
                with first.transaction():
                    send(first, "f1")
            except TransactionError as error:
                found.append(type(error).__name__)
        late = start(f"{place.name}-late", TIMEOUT_MS)
        try:
            with late.transaction():
                send(late, "l1")
                time.sleep(OVER_S)
        except TransactionError as error:
            found.append(type(error).__name__)
        again = start(f"{place.name}-late")
        with again.transaction():
            send(again, "c5")
    return found


LIVES: dict[str, Life] = {
    "java": by_java,
    "java-3.9": by_older_java,
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
    "franz-go": by_franz_go,
    "ours": by_ours,
}


def run(library: str, place: Place) -> list[str]:
    """Let a client live in a process of its own: threads and warnings stay there."""
    command = [sys.executable, "-m", "tests.interop.transactional_clients", library, *place]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, cwd=CHECKOUT
    )
    assert done.returncode == 0, f"{library}: {done.stderr[-3000:]}"
    return done.stdout.splitlines()


if __name__ == "__main__":
    print("\n".join(LIVES[sys.argv[1]](Place(*sys.argv[2:]))))
