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
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.oracle.kafka import CHECKOUT, libs

COMMITTED = [b"c1", b"c2", b"c3", b"c4", b"c5"]
GROUP_OFFSET = 2  # the aborted one is 9
TIMEOUT_MS = 1_000  # of the transaction that takes too long: librdkafka's least
OVER_S = 2.0
PATIENCE_S = 30
JAVA_PROGRAMS = Path(__file__).parent / "programs" / "java"
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=OFF")


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


def run_java(program: str, directory: Path | str, *arguments: str) -> list[str]:
    """Compile a program of ours into a directory and run it: its lines; needs a JDK."""
    jars = f"{libs()}/*"
    assert shutil.which("javac"), "needs javac (a JDK, 17 or later) on the PATH"
    source = str(JAVA_PROGRAMS / f"{program}.java")
    build = ["javac", "-proc:none", "-cp", jars, "-d", str(directory), source]
    subprocess.run(build, check=True, capture_output=True)
    done = subprocess.run(
        ["java", *JAVA_FLAGS, "-cp", f"{directory}:{jars}", program, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}{done.stderr[-3000:]}"
    return done.stdout.splitlines()


def by_java(place: Place) -> list[str]:
    """The Java client of Kafka's jars."""
    arguments = (place.address, place.topic, place.source, place.group, place.name)
    times = (str(TIMEOUT_MS), str(int(OVER_S * 1000)))
    return run_java("Transactions", place.directory, *arguments, *times)


LIVES: dict[str, Life] = {
    "java": by_java,
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


def run(client: str, place: Place) -> list[str]:
    """Let a client live in a process of its own: threads and warnings stay there."""
    command = [sys.executable, "-m", "tests.interop.transactional_clients", client, *place]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=180, check=False, cwd=CHECKOUT
    )
    assert done.returncode == 0, f"{client}: {done.stderr[-3000:]}"
    return done.stdout.splitlines()


if __name__ == "__main__":
    print("\n".join(LIVES[sys.argv[1]](Place(*sys.argv[2:]))))
