"""A disk that is filled and freed again and again under a real broker.

While it is full: producers are refused with KAFKA_STORAGE_ERROR, every acknowledged record is
served, and the process lives. When there is space again, producing works again by itself.
"""

import os
import time
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.raw_batches import batch
from tests.support.raw_client import DELETE_TOPICS, RawClient, array, int32, string
from tests.support.small_disk import MIB, can_mount, fill, small_disk

pytestmark = [pytest.mark.faults]

STORAGE_ERROR = 56
CYCLES = int(os.environ.get("BARNABAS_FULL_CYCLES", "5"))
BACK_WITHIN_S = 60.0
BATCH_VALUE = b"x" * 3_000
SETTINGS = {
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "100",
    "barnabas.recovery.point.interval.ms": "100",
}


def values(client: RawClient, topic: str) -> int:
    """Return how many records a consumer reads from the start to the end."""
    offset = 0
    while True:
        fetched = client.fetch(topic, offset)
        assert fetched.error == 0, f"reading at {offset} while the disk is full: {fetched.error}"
        if not fetched.records:
            return offset
        position = 0
        while position < len(fetched.records):
            base = int.from_bytes(fetched.records[position : position + 8], "big")
            size = int.from_bytes(fetched.records[position + 8 : position + 12], "big")
            delta = int.from_bytes(fetched.records[position + 23 : position + 27], "big")
            assert base == offset, f"offset {base}, expected {offset}"
            offset = base + delta + 1
            position += 12 + size


def produce_until_refused(client: RawClient, topic: str, limit: int = 100_000) -> int:
    """Produce until the disk is full; return how many were acknowledged."""
    for count in range(limit):
        answer = client.produce(topic, batch([BATCH_VALUE]))
        if answer.error:
            assert answer.error == STORAGE_ERROR, answer
            return count
    raise AssertionError("the disk never got full")


def seconds_until_accepted(client: RawClient, topic: str) -> float:
    """Produce until it works again; return how long that took."""
    began = time.monotonic()
    while client.produce(topic, batch([BATCH_VALUE])).error:
        assert time.monotonic() - began < BACK_WITHIN_S, "producing did not resume"
        time.sleep(0.01)
    return time.monotonic() - began


def create(client: RawClient, name: str) -> None:
    assert client.create_topic(name) == 0


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_filling_and_freeing_never_ends_the_broker(kind: str, tmp_path: Path) -> None:
    if reason := can_mount(kind):
        pytest.skip(reason)
    settings = {**SETTINGS, "log.segment.bytes": str(1 * MIB)}
    with small_disk(tmp_path, kind, 48 * MIB) as disk:
        data = disk / "data"
        broker = BrokerProcess(data, settings)
        broker.output_path = tmp_path / "output"
        with broker, RawClient(broker.host, broker.port) as client:
            create(client, "t")
            acknowledged, slowest_s = 0, 0.0
            for cycle in range(CYCLES):
                # Each time a little more space is left, so that another write is the first to fail.
                ballast = fill(disk, "ballast", 40_000 + cycle % 10 * 4_096)
                acknowledged += produce_until_refused(client, "t")
                assert values(client, "t") == acknowledged
                assert client.produce("t", batch([BATCH_VALUE])).error in (0, STORAGE_ERROR)
                acknowledged = client.end_offset("t")
                ballast.unlink()
                slowest_s = max(slowest_s, seconds_until_accepted(client, "t"))
                acknowledged += 1
                assert broker.running
            assert values(client, "t") == acknowledged
            print_figures(kind, slowest_s, acknowledged)
            wait_for(lambda: broker.output().count("has room again") > 0)
            assert broker.output().count("is full, ") <= CYCLES
            client.close()
            assert broker.stop() == 0
            assert "Traceback" not in broker.output()
            broker.start()
            with RawClient(broker.host, broker.port) as again:
                assert values(again, "t") == acknowledged


def print_figures(kind: str, slowest_s: float, acknowledged: int) -> None:
    """Print the figures; visible with `pytest -s`."""
    os.write(
        1,
        f"\n{kind}: {CYCLES} cycles, {acknowledged} records, back after at most "
        f"{slowest_s:.3f} s\n".encode(),
    )


def wait_for(condition, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_deleting_a_topic_on_a_full_disk_makes_room(kind: str, tmp_path: Path) -> None:
    if reason := can_mount(kind):
        pytest.skip(reason)
    with small_disk(tmp_path, kind, 24 * MIB) as disk:
        broker = BrokerProcess(disk / "data", SETTINGS)
        broker.output_path = tmp_path / "output"
        with broker, RawClient(broker.host, broker.port) as client:
            create(client, "t")
            create(client, "other")
            assert client.produce("other", batch([b"y" * 900_000])).error == 0
            assert client.produce("t", batch([BATCH_VALUE])).error == 0
            fill(disk, "ballast", 0)
            acknowledged = 1 + produce_until_refused(client, "t")
            made = create_without_room(client)
            assert delete_topic(client, "other") == 0
            # Its files are deleted at once: file.delete.delay.ms is for disks with room.
            for topic in made:
                seconds_until_accepted(client, topic)
            seconds_until_accepted(client, "t")
            assert values(client, "t") == acknowledged + 1
            assert "Traceback" not in broker.output()


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_starting_on_a_full_disk_serves_and_resumes(kind: str, how: str, tmp_path: Path) -> None:
    if reason := can_mount(kind):
        pytest.skip(reason)
    with small_disk(tmp_path, kind, 24 * MIB) as disk:
        broker = BrokerProcess(disk / "data", SETTINGS)
        broker.output_path = tmp_path / "output"
        with broker:
            with RawClient(broker.host, broker.port) as client:
                create(client, "t")
                assert client.produce("t", batch([BATCH_VALUE])).error == 0
                ballast = fill(disk, "ballast", 0)
                acknowledged = 1 + produce_until_refused(client, "t")
                made = create_without_room(client)
            if how == "stop":
                broker.stop()
            else:
                broker.kill()
            broker.start()
            with RawClient(broker.host, broker.port) as client:
                assert values(client, "t") == acknowledged
                assert client.produce("t", batch([BATCH_VALUE])).error in (0, STORAGE_ERROR)
                acknowledged = client.end_offset("t")
                ballast.unlink()
                for topic in made:
                    seconds_until_accepted(client, topic)
                seconds_until_accepted(client, "t")
                assert values(client, "t") == acknowledged + 1
            assert "Traceback" not in broker.output()


def delete_topic(client: RawClient, name: str) -> int:
    answer = client.call(DELETE_TOPICS, 3, array(string(name)) + int32(10_000))
    answer.number(4)
    assert answer.number(4) == 1
    answer.string()
    return answer.number(2)


def create_without_room(client: RawClient) -> list[str]:
    """Create topics without room for their files; return the names of those that were created."""
    names = [f"new{number}" for number in range(30)]
    codes = {name: client.create_topic(name) for name in names}
    assert set(codes.values()) <= {0, STORAGE_ERROR}
    return [name for name, code in codes.items() if code == 0]
