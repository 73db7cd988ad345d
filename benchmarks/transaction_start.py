"""The time of a start with many transactions: `python -m benchmarks.transaction_start`.

Two directories for each broker, Apache Kafka 4.3 and ours, which is stopped while records are
appended to its files, the same ones for both:

- `--ids` transactional ids in `__transaction_state`, as InitProducerId writes them;
- `--aborts` aborted transactions of one record in one partition, of 100 producers in turn.

Each directory is then started after a crash that has left all of these records unflushed
("recovered"), after a clean stop, and after SIGKILL. Printed are the seconds from the start of the
process to its first ApiVersions answer and until it serves: InitProducerId of a known id succeeds,
the last committed record is fetched. And the CPU seconds and the memory of the process by then.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import frames, interpreter, load, servers
from benchmarks import transaction_frames as raw
from benchmarks.frames import LoadError
from benchmarks.servers import DEFAULT_DIRECTORY, Server
from broker.groups.group_log import partition_of
from protocol.records import Record, build
from protocol.transaction_records import (
    TransactionKey,
    TransactionValue,
    encode_key,
    encode_value,
)

STATE_TOPIC, STATE_PARTITIONS = "__transaction_state", 50
TOPIC = "aborts"
PRODUCERS, PRODUCER_ID = 100, 1_000_000
SERVED_SECONDS_MAX = 600
CLEAN_STOP = ".kafka_cleanshutdown"
CHECKPOINT_SECONDS = 2.0  # ours writes recovery points once a second

Served = Callable[[Server], None]


def id_batch(transactional_id: str, producer_id: int, now_ms: int) -> bytes:
    """Return the record of a new id, as a batch at offset 0."""
    value = TransactionValue(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        transaction_status=0,  # Empty
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=now_ms,
        transaction_start_timestamp_ms=-1,
    )
    key = encode_key(TransactionKey(transactional_id=transactional_id))
    return bytes(build([Record(0, now_ms, key, encode_value(value))]))


def put_ids(data: Path, count: int) -> None:
    """Append the records of ids to a stopped broker's `__transaction_state`."""
    now_ms = time.time_ns() // 1_000_000
    logs = [bytearray() for _ in range(STATE_PARTITIONS)]
    ends = [0] * STATE_PARTITIONS
    for number in range(count):
        name = f"id-{number}"
        place = partition_of(name, STATE_PARTITIONS)
        batch = id_batch(name, PRODUCER_ID + number, now_ms)
        logs[place] += struct.pack(">q", ends[place]) + batch[8:]
        ends[place] += 1
    for place, log in enumerate(logs):
        (data / f"{STATE_TOPIC}-{place}" / f"{0:020}.log").write_bytes(log)


def put_aborts(data: Path, count: int) -> int:
    """Write aborted transactions, and one record behind them, to a stopped broker's topic.

    Returns the offset of that record.
    """
    now_ms = time.time_ns() // 1_000_000
    record = bytearray(frames.record_batch([b"x" * 20], now_ms))
    markers = [
        raw.control_batch(PRODUCER_ID + number, 0, now_ms, is_commit=False)
        for number in range(PRODUCERS)
    ]
    with (data / f"{TOPIC}-0" / f"{0:020}.log").open("wb") as file:
        for number in range(count):
            producer, sequence = number % PRODUCERS, number // PRODUCERS
            raw.stamp(record, 0, PRODUCER_ID + producer, 0, sequence)
            struct.pack_into(">q", record, 0, 2 * number)
            file.write(record + struct.pack(">q", 2 * number + 1) + markers[producer][8:])
        last = bytearray(frames.record_batch([b"last"], now_ms))
        struct.pack_into(">q", last, 0, 2 * count)
        file.write(last)
    return 2 * count


def until(server: Server, ask: Callable[[], bool]) -> None:
    """Ask until the answer is what it should be."""
    deadline = time.perf_counter() + SERVED_SECONDS_MAX
    while True:
        try:
            if ask():
                return
        except (LoadError, OSError):
            pass  # not led yet
        if time.perf_counter() > deadline:
            raise LoadError(f"{server.name} does not serve after {SERVED_SECONDS_MAX} s")
        time.sleep(0.02)


def ids_served(count: int) -> Served:
    """Return what waits until the last id is given its producer id again."""

    def ask(server: Server) -> bool:
        with load.connect(server.port) as sock:
            asked = raw.init_producer_id(f"id-{count - 1}")
            error, producer_id, _ = raw.inited(load.exchange(sock, asked))
        if not error and producer_id != PRODUCER_ID + count - 1:
            raise SystemExit(f"{server.name} has not read the ids: producer id {producer_id}")
        return not error

    return lambda server: until(server, lambda: ask(server))


def aborts_served(offset: int) -> Served:
    """Return what waits until the last record is fetched, and has seen aborted transactions."""

    def ask(server: Server) -> bool:
        with load.connect(server.port) as sock:
            for at in (offset, 0):
                asked, _ = raw.fetch(TOPIC, 0, at, isolation=1, wait_ms=0)
                answer = raw.Fetched(memoryview(load.exchange(sock, asked)), TOPIC)
                if answer.last_stable_offset <= offset or not answer.size:
                    return False
        return answer.aborted_count > 0

    return lambda server: until(server, lambda: ask(server))


def make_topics(server: Server) -> None:
    """Let a broker make the topics whose files are written to."""
    with load.connect(server.port) as sock:
        until(server, lambda: not raw.found_error(load.exchange(sock, raw.find_coordinator("x"))))
    server.create_topic(TOPIC, 1)


def crash(data: Path) -> None:
    """Make the directory of a stopped broker one whose broker has crashed."""
    (data / CLEAN_STOP).unlink(missing_ok=True)


def measure(server: Server, served: Served) -> list[str]:
    """Start a server; return its figures as cells."""
    begun = server.launch(SERVED_SECONDS_MAX)
    served(server)
    seconds = time.perf_counter() - begun
    memory = server.memory_bytes()[0] / (1 << 20)
    cells = (server.first_answer_seconds, seconds, server.cpu_seconds())
    return [f"{cell:.2f}" for cell in cells] + [f"{memory:.0f}"]


def run(make: Callable[[Path], Server], place: Path, ids: int, aborts: int) -> None:
    """Print the rows of one broker."""
    for what in (f"{ids:,} ids", f"{aborts:,} aborted transactions"):
        shutil.rmtree(place, ignore_errors=True)
        server = make(place)
        data = place / "data"
        try:
            server.launch()
            make_topics(server)
            server.stop()
            if what.endswith("ids"):
                put_ids(data, ids)
                served = ids_served(ids)
            else:
                served = aborts_served(put_aborts(data, aborts))
            crash(data)
            os.sync()
            for how, end in (
                ("recovered", None),
                ("SIGTERM", server.stop),
                ("SIGKILL", server.kill),
            ):
                if end is not None:
                    time.sleep(CHECKPOINT_SECONDS)
                    end()
                cells = measure(server, served)
                sys.stdout.write(f"| {server.name} | {what} | {how} | {' | '.join(cells)} |\n")
                sys.stdout.flush()
        finally:
            server.kill()
            shutil.rmtree(place, ignore_errors=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each broker, directory and way of stopping."""
    interpreter.announce()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transaction_start")
    parser.add_argument("--ids", type=int, default=100_000)
    parser.add_argument("--aborts", type=int, default=1_000_000)
    parser.add_argument("--without-kafka", action="store_true")
    parser.add_argument("--directory", type=Path, default=DEFAULT_DIRECTORY)
    options = parser.parse_args(argv)
    sys.stdout.write(
        "| broker | directory | stopped by | first answer, s | serves, s | CPU s | memory MiB |\n"
        "|---|---|---|---:|---:|---:|---:|\n"
    )
    makes: list[Callable[[Path], Server]] = [servers.barnabas]
    if not options.without_kafka:
        makes.append(servers.kafka)
    for make in makes:
        run(make, options.directory / "transaction-start", options.ids, options.aborts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
